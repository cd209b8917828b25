//! The norm and rotation on Flex: one pass over the heads, each normalised and rotated while it is in the first-level
//! cache. A norm over all heads of a token whose result is `[batch, heads, seq, width]` first reads the tokens for
//! `rstd`, because the heads of a token are far apart in the result.
//!
//! Without a norm, the rotation's own kernel does all: it reads tensors of any strides. With one, rotations that read
//! neighbours and write halves run after the norm's kernel, because no model family has both, and the kernels here are a
//! fifth of what this crate compiles.

mod backward;
mod forward;

use super::{Backward, Gradients, QkNormRopeBackend, QkNormRopeKernel, Tensors, composed};
use crate::cpu::{BASE, Element, dispatch_dtype};
use crate::ops::operands::checked;
use crate::ops::rms_norm::cpu::{Axis, Once, Steps, Twice};
use crate::ops::rope::cpu::{Angles, Halves, Neighbours};
use crate::registry::{Implementation, Launch};
use crate::semantics::{QkNormRopeKey, RopeStyle, Rounding, SemanticsKey};
use burn::backend::Flex;
use burn::backend::flex::FlexTensor;
use burn::tensor::DType;

pub(super) const IMPLEMENTATION: Implementation = Implementation {
    launch: Launch::QkNormRope(super::launch),
    accepts: |key| matches!(key, SemanticsKey::QkNormRope(_)),
    ..BASE
};

impl QkNormRopeBackend for Flex {
    fn qk_norm_rope(operands: Tensors<Self>) -> FlexTensor {
        Self::qk_norm_rope_forward(operands)
    }
}

impl QkNormRopeKernel for Flex {
    fn qk_norm_rope_forward(operands: Tensors<Self>) -> FlexTensor {
        let dtype = checked(operands.dtype());
        match Parts::new(&operands) {
            None => composed::forward::<Self>(operands),
            Some(parts) => dispatch_dtype!(dtype, T => {
                if operands.cos().dtype() == dtype {
                    by_rounding::<T, T>(&parts)
                } else {
                    by_rounding::<T, <T as Element>::Acc>(&parts)
                }
            }),
        }
    }

    fn qk_norm_rope_backward(backward: Backward<FlexTensor>) -> Gradients<FlexTensor> {
        let operands = backward.operands();
        let dtype = checked(operands.dtype());
        let (dy, wanted) = (backward.dy(), backward.weight_gradient());
        match Parts::new(operands) {
            None => composed::backward::<Self>(backward),
            Some(parts) => dispatch_dtype!(dtype, T => {
                if operands.cos().dtype() == dtype {
                    backward_by_order::<T, T>(&parts, dy, wanted)
                } else {
                    backward_by_order::<T, <T as Element>::Acc>(&parts, dy, wanted)
                }
            }),
        }
    }
}

/// The operands of a call with a norm.
struct Parts {
    norm: crate::ops::rms_norm::Tensors<Flex>,
    /// The norm's `x` as `[b, s, heads, d]`.
    x: FlexTensor,
    cos: FlexTensor,
    sin: FlexTensor,
    key: QkNormRopeKey,
    order: Order,
}

/// The order of pairs, in the operand and in the result.
enum Order {
    Halves,
    Neighbours,
}

impl Parts {
    /// Returns the operands of the kernels here, or `None` for a call that others do.
    fn new(operands: &Tensors<Flex>) -> Option<Self> {
        let key = operands.key();
        let order = match key.style {
            RopeStyle::Half => Order::Halves,
            RopeStyle::Interleaved => Order::Neighbours,
            RopeStyle::InterleavedToHalf => return None,
        };
        let norm = composed::norm::<Flex>(operands)?;
        Some(Self {
            // The norm's `x` may be a contiguous copy.
            x: norm.x().reshape(operands.x().layout().shape().clone()),
            norm,
            cos: operands.cos().clone(),
            sin: operands.sin().clone(),
            key,
            order,
        })
    }

    fn axis<T: Element>(&self) -> Axis<T> {
        Axis::new(&self.norm)
    }

    fn angles<U: Element>(&self) -> [Angles<U>; 2] {
        [&self.cos, &self.sin].map(|table| Angles::new(table.clone(), self.key.rope()))
    }
}

/// f32 and f64 are not rounded, so one implementation serves both orders.
fn by_rounding<T: Element, U: Element<Acc = T::Acc>>(parts: &Parts) -> FlexTensor {
    let is_half = matches!(parts.norm.x().dtype(), DType::F16 | DType::BF16);
    match parts.key.rounding {
        Rounding::Llama if is_half => forward_by_order::<T, U, Twice>(parts),
        _ => forward_by_order::<T, U, Once>(parts),
    }
}

fn forward_by_order<T: Element, U: Element<Acc = T::Acc>, S: Steps<T>>(
    parts: &Parts,
) -> FlexTensor {
    match parts.order {
        Order::Halves => forward::run::<T, U, S, Halves>(parts),
        Order::Neighbours => forward::run::<T, U, S, Neighbours>(parts),
    }
}

fn backward_by_order<T: Element, U: Element<Acc = T::Acc>>(
    parts: &Parts,
    dy: &FlexTensor,
    wanted: bool,
) -> Gradients<FlexTensor> {
    match parts.order {
        Order::Halves => backward::run::<T, U, Halves>(parts, dy, wanted),
        Order::Neighbours => backward::run::<T, U, Neighbours>(parts, dy, wanted),
    }
}

/// Returns the tensor with the axes of heads and positions exchanged, if the result has them in the other order.
fn placed(x: &FlexTensor, key: QkNormRopeKey) -> FlexTensor {
    composed::placed::<Flex>(x.clone(), key.layout)
}
