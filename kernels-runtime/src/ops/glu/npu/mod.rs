//! Gated linear units over CANN's operators.
//!
//! `S` is `aclnnSwiGlu`, `D` is `aclnnSwiGluGrad`. CANN packs gate and up in one tensor, one half after the other. The
//! numbers count reads and writes of a tensor of the gate's size.
//!
//! | key | forward | backward | why |
//! |---|---|---|---|
//! | silu, `chunked` | `S`: 3 | `D`: 5 | computes exactly this; strided tensors are copied first: 4 more |
//! | silu, `separate`, both in one buffer | `S`: 3 | `D`: 5, the gradients are views of one buffer | one packed linear layer leaves them so; there is nothing to pack |
//! | silu, `separate` | `aclnnSilu`, product: 5 | packed by `aclnnCat`, `D`: 9 | packing for `S` too would make it 7, and not packing for the gradient 11 |
//! | silu, `interleaved` | copied to halves, `S`: 7 | copied, `D`, copied back: 13 | operators copy strided operands themselves, so separating the neighbours with views saves nothing |
//! | identity | product: 3 | two products: 6, joined by `aclnnCat` if packed: 10 | |
//! | other activations | refused | | composed operators would read and write as much as the reference, and `burn-cann` has no operators for their gradients |
//! | a clamp, an offset of up, a sparse gate | refused | | as above |
//! | f64, different types | refused | | CANN computes in f32 |
//!
//! `S` rounds once. Silu and product round twice, as the reference does.

mod kernel;

pub(crate) use kernel::IMPLEMENTATION;

use super::{Backward, Operands, Projected};
use crate::npu::refused::one_float;
use crate::npu::views::{as_rows, contiguous, halves_by_turns, joined, neighbours, reshaped, rows};
use crate::npu::{Refused, Result, Seen, Specified, base};
use crate::reason::Reason;
use crate::semantics::{Activation, Clamp, GluKey, Offset, Projections, TopK};
use burn_cann::ops::swi_glu::{check, check_grad, swi_glu, swi_glu_grad};
use burn_cann::{DType, Layout, Platform, Spec, Stream, Tensor};

/// The operators that compute a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plan {
    /// The fused operator, on the packed tensor itself or on a contiguous copy.
    Fused,
    /// The fused operator, on a copy that holds interleaved elements as halves.
    FusedOfNeighbours,
    /// Forward, activation and product; backward, the fused operator on a packed copy.
    Apart,
    /// Products only: there is no activation.
    Product,
}

impl Plan {
    /// Returns the operators of the forward pass, for contiguous operands that don't share a buffer.
    pub fn forward(self) -> &'static [&'static str] {
        match self {
            Self::Fused => &["aclnnSwiGlu"],
            Self::FusedOfNeighbours => &["aclnnInplaceCopy", "aclnnSwiGlu"],
            Self::Apart => &["aclnnSilu", "aclnnMul"],
            Self::Product => &["aclnnMul"],
        }
    }

    /// Returns the operators of the backward pass, for the same operands.
    pub fn backward(self) -> &'static [&'static str] {
        match self {
            Self::Fused => &["aclnnSwiGluGrad"],
            Self::FusedOfNeighbours => &["aclnnInplaceCopy", "aclnnSwiGluGrad", "aclnnInplaceCopy"],
            Self::Apart => &["aclnnCat", "aclnnSwiGluGrad"],
            Self::Product => &["aclnnMul", "aclnnMul"],
        }
    }
}

/// Returns the operators that compute a call of this key, or the reason if none do.
pub(crate) fn of_key(key: GluKey) -> Result<Plan, Refused> {
    let plain = GluKey {
        clamp: Clamp::None,
        up_offset: Offset::Zero,
        topk: TopK::None,
        ..key
    };
    match (key.activation, key.projections) {
        (Activation::Silu, Projections::Chunked) if key == plain => Ok(Plan::Fused),
        (Activation::Silu, Projections::Interleaved) if key == plain => Ok(Plan::FusedOfNeighbours),
        (Activation::Silu, Projections::Separate) if key == plain => Ok(Plan::Apart),
        (Activation::Identity, _) if key == plain => Ok(Plan::Product),
        _ => {
            let why = format!("CANN has no operator with a gradient for {key}");
            Err(Refused::new(Reason::Semantics, why))
        }
    }
}

/// Returns the operators that compute a call of these operands.
///
/// Fewer operators run than the plan states if gate and up are halves of one buffer.
///
/// # Errors
/// Returns the reason if no operators compute it.
pub fn decide<T: Specified>(
    platform: &Platform,
    operands: &Operands<Seen<T>>,
) -> Result<Plan, Refused> {
    let plan = of_key(operands.key())?;
    let (dtype, first, tensors) = match operands.projected() {
        Projected::Separate { gate, up } => {
            let dtype = one_float(("gate", gate.spec()), [("up", up.spec())])?;
            (dtype, gate.spec(), 2)
        }
        Projected::Packed(packed) => {
            let dtype = one_float(("gate and up", packed.spec()), [])?;
            (dtype, packed.spec(), 1)
        }
    };
    limits(platform, dtype, [rows(first), tensors * last(first)?])?;
    Ok(plan)
}

/// Checks CANN's limits on a packed tensor of this shape, forward and backward.
fn limits(platform: &Platform, dtype: DType, shape: [usize; 2]) -> Result<(), Refused> {
    let packed = Spec::contiguous(dtype, shape)?;
    let y = check(platform, &packed, 1)?;
    if !packed.is_empty() {
        check_grad(platform, &y, &packed, 1)?;
    }
    Ok(())
}

fn last(spec: &Spec) -> Result<usize, Refused> {
    let last = spec.shape().last().copied();
    last.ok_or_else(|| Refused::new(Reason::Shape, "a gated linear unit needs an axis"))
}

/// Returns the result, with the shape and dtype of the gate. The result is contiguous.
///
/// # Errors
/// Returns an error if [`decide`] refuses the operands or CANN fails.
pub fn forward(stream: &Stream, operands: &Operands<Seen<Tensor>>) -> Result<Tensor> {
    let plan = decide(stream.device().platform(), operands)?;
    let (first, projections) = (operands.first(), operands.key().projections);
    let shape = operands.result();
    let shape = shape.as_slice();
    if first.spec().is_empty() {
        return Ok(Tensor::empty(stream, first.dtype(), shape)?);
    }
    match (plan, operands.projected()) {
        (Plan::Product, _) => {
            let (gate, up) = parts(operands)?;
            Ok(base::mul(stream, &gate, &up)?.reshape(shape)?)
        }
        (_, Projected::Separate { gate, up }) => match one_buffer(gate, up)? {
            Some(packed) => fused(stream, &packed, shape),
            None => base::mul(stream, &base::silu(stream, gate)?, up),
        },
        (_, Projected::Packed(packed)) => {
            fused(stream, &in_halves(stream, packed, projections)?, shape)
        }
    }
}

/// Returns the gradients, laid out as the tensors. The gradients of two tensors may be views of one buffer.
///
/// # Errors
/// Returns an error as [`forward`] does.
pub fn backward(stream: &Stream, backward: &Backward<Seen<Tensor>>) -> Result<Projected<Tensor>> {
    let (operands, dy) = (backward.operands(), backward.dy());
    let plan = decide(stream.device().platform(), operands)?;
    if operands.first().spec().is_empty() {
        let empty = |tensor: &Seen<Tensor>| Tensor::empty(stream, tensor.dtype(), tensor.shape());
        return Ok(match operands.projected() {
            Projected::Separate { gate, up } => Projected::Separate {
                gate: empty(gate)?,
                up: empty(up)?,
            },
            Projected::Packed(packed) => Projected::Packed(empty(packed)?),
        });
    }
    if plan == Plan::Product {
        return product_gradients(stream, dy, operands);
    }
    match operands.projected() {
        Projected::Packed(packed) => {
            let projections = operands.key().projections;
            let halves = in_halves(stream, packed, projections)?;
            let gradient = fused_grad(stream, dy, &halves)?.reshape(packed.shape())?;
            Ok(Projected::Packed(in_turns(stream, gradient, projections)?))
        }
        Projected::Separate { gate, up } => {
            let packed = match one_buffer(gate, up)? {
                Some(packed) => packed,
                None => base::cat(stream, &[gate, up], gate.shape().len() - 1)?,
            };
            split(&fused_grad(stream, dy, &packed)?.reshape(packed.shape())?)
        }
    }
}

/// Returns `silu(a) · b` of the halves of a packed tensor.
fn fused(stream: &Stream, packed: &Tensor, shape: &[usize]) -> Result<Tensor> {
    let packed = matrix(stream, packed)?;
    Ok(swi_glu(stream, &packed, 1)?.reshape(shape)?)
}

/// Returns the gradient of a packed tensor, as a matrix.
fn fused_grad(stream: &Stream, dy: &Tensor, packed: &Tensor) -> Result<Tensor> {
    let (dy, packed) = (matrix(stream, dy)?, matrix(stream, packed)?);
    Ok(swi_glu_grad(stream, &dy, &packed, 1)?)
}

/// Returns the tensor as a matrix of its rows, copied if it is not contiguous.
fn matrix(stream: &Stream, tensor: &Tensor) -> Result<Tensor> {
    let tensor = contiguous(stream, tensor)?;
    Ok(tensor.with_layout(as_rows(tensor.spec())?)?)
}

/// Returns the packed tensor if gate and up are its halves.
fn one_buffer(gate: &Tensor, up: &Tensor) -> Result<Option<Tensor>> {
    let shared = match (gate.memory(), up.memory()) {
        (Some(gate), Some(up)) => gate.is_shared_with(up),
        _ => false,
    };
    match joined(gate.layout(), up.layout()).filter(|_| shared) {
        Some(layout) => Ok(Some(gate.with_layout(layout)?)),
        None => Ok(None),
    }
}

/// Returns the packed tensor with the gate in the first half and up in the second.
fn in_halves(stream: &Stream, packed: &Tensor, projections: Projections) -> Result<Tensor> {
    if projections != Projections::Interleaved {
        return Ok(packed.clone());
    }
    let apart = packed.with_layout(neighbours(packed.layout())?)?;
    reshaped(stream, &apart, packed.shape())
}

/// Returns the elements of the halves in the order of the projections.
fn in_turns(stream: &Stream, halves: Tensor, projections: Projections) -> Result<Tensor> {
    if projections != Projections::Interleaved {
        return Ok(halves);
    }
    let turns = halves.with_layout(halves_by_turns(halves.layout())?)?;
    reshaped(stream, &turns, halves.shape())
}

/// Returns the halves as views.
fn split(packed: &Tensor) -> Result<Projected<Tensor>> {
    let axis = packed.shape().len() - 1;
    let n = packed.shape()[axis] / 2;
    Ok(Projected::Separate {
        gate: packed.slice(axis, 0..n)?,
        up: packed.slice(axis, n..2 * n)?,
    })
}

/// Returns gate and up as views.
fn parts(operands: &Operands<Seen<Tensor>>) -> Result<(Tensor, Tensor)> {
    let packed = match operands.projected() {
        Projected::Separate { gate, up } => return Ok(((**gate).clone(), (**up).clone())),
        Projected::Packed(packed) => packed,
    };
    let apart = match operands.key().projections {
        Projections::Interleaved => neighbours(packed.layout())?,
        _ => halves(packed.layout())?,
    };
    let apart = packed.with_layout(apart)?;
    let axis = apart.shape().len() - 2;
    Ok((apart.select(axis, 0)?, apart.select(axis, 1)?))
}

/// Returns the layout with its last axis of `2 n` split into `[.., 2, n]`.
fn halves(layout: &Layout) -> Result<Layout, burn_cann::LayoutError> {
    let turns = halves_by_turns(layout)?;
    let rank = turns.rank();
    turns.transpose(rank - 2, rank - 1)
}

/// Returns the gradients of `gate · up`.
fn product_gradients(
    stream: &Stream,
    dy: &Tensor,
    operands: &Operands<Seen<Tensor>>,
) -> Result<Projected<Tensor>> {
    let (gate, up) = parts(operands)?;
    let (gate, up) = (base::mul(stream, dy, &up)?, base::mul(stream, dy, &gate)?);
    let projections = operands.key().projections;
    if projections == Projections::Separate {
        return Ok(Projected::Separate { gate, up });
    }
    let halves = base::cat(stream, &[&gate, &up], gate.shape().len() - 1)?;
    Ok(Projected::Packed(in_turns(stream, halves, projections)?))
}
