//! The operation as a composition of the kernels of RMSNorm and of the rotation, for backends without a kernel of their
//! own, and for the parts that a fused kernel would not make faster.

use super::{Each, Operands, QkNormRope};
use crate::ops::fused::{Backward, BackwardOn, FusedKernel, Given, Gradients, MadeOn, Tensors};
use crate::ops::operands::checked;
use crate::ops::rms_norm::{self, RmsNorm};
use crate::ops::rope::{self, Rope, table_gradients};
use crate::semantics::{HeadLayout, QkNorm};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Shape, TensorMetadata};

/// Returns the result.
pub(super) fn forward<B: FusedKernel<RmsNorm> + FusedKernel<Rope>>(
    operands: Tensors<QkNormRope, B>,
) -> MadeOn<B> {
    let normalised = normalised::<B>(&operands);
    <B as FusedKernel<Rope>>::forward(rotation::<B>(normalised, &operands), None)
}

/// Returns the normalised tensor, a view in the layout of the result.
fn normalised<B: FusedKernel<RmsNorm>>(operands: &Tensors<QkNormRope, B>) -> FloatTensor<B> {
    let normalised = match norm::<B>(operands) {
        None => operands.x().clone(),
        Some(norm) => B::float_reshape(B::forward(norm, None).y, operands.x().shape()),
    };
    placed::<B>(normalised, operands.key().layout)
}

/// Returns the wanted gradients: those of the tables, and the others, which the kernel computes. The gradients of the tables
/// are those of a rotation of the normalised tensor.
pub(super) fn with_tables<B: FusedKernel<RmsNorm>>(
    backward: BackwardOn<QkNormRope, B>,
    kernel: impl FnOnce(BackwardOn<QkNormRope, B>) -> Gradients<QkNormRope, B>,
) -> Gradients<QkNormRope, B> {
    let (operands, wanted) = (backward.operands(), backward.wanted().clone());
    let [cos, sin] = table_gradients::<B>(
        backward.dy(),
        || normalised::<B>(operands),
        [operands.cos(), operands.sin()],
        [wanted.cos, wanted.sin],
        operands.key().rope(),
    );
    if !(wanted.x || wanted.weight) {
        return Each {
            cos,
            sin,
            ..Each::of_heads(None, None)
        };
    }
    let of_heads = Each {
        cos: false,
        sin: false,
        ..wanted
    };
    Each {
        cos,
        sin,
        ..kernel(backward.wanting(of_heads))
    }
}

/// Returns the gradients of `x` and, if it is wanted, of the weight.
pub(super) fn backward<B: FusedKernel<RmsNorm> + FusedKernel<Rope>>(
    backward: BackwardOn<QkNormRope, B>,
) -> Gradients<QkNormRope, B> {
    let (operands, dy) = (backward.operands(), backward.dy().clone());
    let given = Given::new(dy.clone());
    // The rotation back does not read what was rotated.
    let rotation = rotation::<B>(dy, operands);
    let rotated = checked(Backward::<Rope, _, _>::new(
        rotation,
        given,
        &[true, false, false],
    ));
    let rotated_back = <B as FusedKernel<Rope>>::backward(rotated).x;
    let d_normalised = placed::<B>(rotated_back.expect("it is wanted"), operands.key().layout);
    let Some(norm) = norm::<B>(operands) else {
        return Each::of_heads(Some(d_normalised), None);
    };
    let wanted = rms_norm::Each {
        x: true,
        weight: backward.wanted().weight,
        ..rms_norm::Each::default()
    };
    let made = <B as FusedKernel<RmsNorm>>::forward(norm.clone(), Some(&wanted));
    let d_normalised = B::float_reshape(d_normalised, norm.x().shape());
    let given = Given::new(d_normalised).saving(made.saved);
    let given = Backward::<RmsNorm, _, _>::new(norm, given, &[wanted.x, wanted.weight]);
    let found = <B as FusedKernel<RmsNorm>>::backward(checked(given));
    let shape = operands.x().shape();
    let x = found.x.map(|x| B::float_reshape(x, shape));
    Each::of_heads(x, found.weight)
}

/// Returns the operands of the norm, or `None` without a norm.
fn norm<B: Backend>(operands: &Tensors<QkNormRope, B>) -> Option<Tensors<RmsNorm, B>> {
    let (x, key) = (operands.x().clone(), operands.key());
    let x = match key.norm {
        QkNorm::None | QkNorm::Head => x,
        QkNorm::Row => {
            let [b, s, heads, d] = x.shape().dims();
            B::float_reshape(x, Shape::new([b, s, heads * d]))
        }
    };
    let settings = rms_norm::Settings {
        eps: operands.settings().eps?,
        group_size: None,
    };
    let weight = operands.weight().cloned();
    Some(checked(rms_norm::Operands::new(
        x,
        weight,
        None,
        settings,
        key.rms_norm(),
    )))
}

fn rotation<B: Backend>(
    x: FloatTensor<B>,
    operands: &Operands<FloatTensor<B>>,
) -> Tensors<Rope, B> {
    let (cos, sin) = (operands.cos().clone(), operands.sin().clone());
    checked(rope::Operands::new(x, cos, sin, operands.key().rope()))
}

/// Exchanges the axes of heads and positions if the result has them in the other order. Doing so twice changes nothing.
fn placed<B: Backend>(x: FloatTensor<B>, layout: HeadLayout) -> FloatTensor<B> {
    match layout {
        HeadLayout::Bnsd => B::float_swap_dims(x, 1, 2),
        HeadLayout::Bsnd => x,
    }
}
