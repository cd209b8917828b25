//! Gated linear units over CANN's operators.
//!
//! `S` is `aclnnSwiGlu`, `D` is `aclnnSwiGluGrad`. `G` is `aclnnGeGluV3`, `B` is `aclnnGeGluV3Backward`, which also takes the
//! activated gate: `aclnnGeluV2` computes it again, so that the forward pass keeps nothing. CANN packs gate and up in one
//! tensor, one half after the other. The numbers count reads and writes of a tensor of the gate's size.
//!
//! | key | forward | backward | why |
//! |---|---|---|---|
//! | silu, `chunked` | `S`: 3 | `D`: 5 | computes exactly this; strided tensors are copied first: 4 more |
//! | silu, `separate`, both in one buffer | `S`: 3 | `D`: 5, the gradients are views of one buffer | one packed linear layer leaves them so; there is nothing to pack |
//! | silu, `separate`, `aclnn-swiglu` | packed by `aclnnCat`, `S`: 7 | `D` of the packed copy, which is kept in place of gate and up: 5 | training: one copy for both passes, 12 and three launches |
//! | silu, `separate`, `aclnn-silu-mul` | `aclnnSilu`, product: 5 | packed by `aclnnCat`, `D`: 9 | inference; in training 14 and four launches |
//! | silu, `interleaved` | copied to halves, `S`: 7 | copied, `D`, copied back: 13 | operators copy strided operands themselves, so separating the neighbours with views saves nothing |
//! | identity | product: 3 | two products: 6, joined by `aclnnCat` if packed: 10 | |
//! | gelu, gelu_tanh, `chunked` | `G`: 4 | `aclnnGeluV2`, `B`: 8 | computes exactly this |
//! | gelu, gelu_tanh, `separate`, `aclnn-swiglu` | packed by `aclnnCat`, `G`: 8 | `aclnnGeluV2`, `B`: 8 | as for silu |
//! | gelu, gelu_tanh, `separate`, `aclnn-silu-mul` | `aclnnGeluV2`, product: 5 | packed by `aclnnCat`, `aclnnGeluV2`, `B`: 12 | as for silu |
//! | gelu, gelu_tanh, `interleaved` | copied to halves, `G`: 8 | copied, `aclnnGeluV2`, `B`, copied back: 16 | as for silu |
//! | a clamp, an offset of up, a sparse gate, quick_gelu | in f32: the steps before (`steps`) the unit, then `aclnnSilu` or `aclnnGeluV2`, product | the steps again, `aclnnCat`, `D` or `B`, the gradients of the steps | half types are widened, as the reference widens them; the backward pass keeps gate and up alone |
//! | relu, relu2, sigmoid | refused | | CANN has no gated unit of them, and composed operators would read and write as much as the reference |
//! | f64, different types | refused | | CANN computes in f32 |
//!
//! `S` and `G` round once. Activation and product round twice, as the reference does.

mod kernel;
mod packing;
mod plan;
mod steps;

pub(crate) use kernel::{INFERENCE, PACKING, TRAINING};
pub use plan::{Plan, Unit};
pub(crate) use plan::{of_implementation, of_key};

use super::{Each, Glu, Operands, Projected};
use crate::npu::refused::one_float;
use crate::npu::views::{
    as_rows, contiguous, halves_by_turns, in_shape_of, joined, neighbours, reshaped, rows,
};
use crate::npu::{OnNpu, Refused, Result, Seen, Specified, base};
use crate::ops::fused::{Backward, Made};
use crate::reason::Reason;
use crate::semantics::Projections;
use burn_cann::ops::ge_glu::{self, Approximation, ge_glu, ge_glu_grad};
use burn_cann::ops::swi_glu::{self, swi_glu, swi_glu_grad};
use burn_cann::ops::unary;
use burn_cann::{DType, Layout, Platform, Spec, Stream, Tensor};
use steps::{Stepped, Steps};

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
    let packed = [rows(first), tensors * last(first)?];
    let dtype = match plan {
        Plan::Stepped(..) => DType::F32,
        _ => dtype,
    };
    limits(platform, dtype, packed, plan.unit())?;
    Ok(plan)
}

/// Checks CANN's limits on a packed tensor of this shape, forward and backward.
fn limits(
    platform: &Platform,
    dtype: DType,
    shape: [usize; 2],
    unit: Option<Unit>,
) -> Result<(), Refused> {
    let packed = Spec::contiguous(dtype, shape)?;
    if let Some(Unit::Gelu(_)) = unit {
        let y = ge_glu::check(platform, &packed, 1)?;
        if !packed.is_empty() {
            ge_glu::check_grad(platform, &y, &packed, &y, 1)?;
        }
        return Ok(());
    }
    let y = swi_glu::check(platform, &packed, 1)?;
    if !packed.is_empty() {
        swi_glu::check_grad(platform, &y, &packed, 1)?;
    }
    Ok(())
}

fn last(spec: &Spec) -> Result<usize, Refused> {
    let last = spec.shape().last().copied();
    last.ok_or_else(|| Refused::new(Reason::Shape, "a gated linear unit needs an axis"))
}

impl OnNpu for Glu {
    fn forward(
        stream: &Stream,
        operands: &Operands<Seen<Tensor>>,
        _: Option<&Each<bool>>,
    ) -> Result<Made<Tensor>> {
        forward(stream, operands).map(Made::new)
    }

    fn backward(
        stream: &Stream,
        of: &Backward<Self, Seen<Tensor>>,
    ) -> Result<Each<Option<Tensor>>> {
        backward(stream, of).map(Each::from)
    }
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
    if let Plan::Stepped(unit, steps) = plan {
        let Stepped { gate, up, .. } = stepped(stream, operands, steps)?;
        let activated = match unit {
            Some(unit) => unit.activated(stream, &gate)?,
            None => gate,
        };
        let y = base::mul(stream, &activated, &up)?;
        return base::cast(stream, &y.reshape(shape)?, first.dtype());
    }
    let Some(unit) = plan.unit() else {
        let (gate, up) = parts(operands)?;
        return Ok(base::mul(stream, &gate, &up)?.reshape(shape)?);
    };
    match operands.projected() {
        Projected::Separate { gate, up } => match one_buffer(gate, up)? {
            Some(packed) => fused(stream, &packed, shape, unit),
            None => base::mul(stream, &unit.activated(stream, gate)?, up),
        },
        Projected::Packed(packed) => {
            let halves = in_halves(stream, packed, projections)?;
            fused(stream, &halves, shape, unit)
        }
    }
}

/// Returns the gradients, laid out as the tensors. The gradients of two tensors may be views of one buffer.
///
/// # Errors
/// Returns an error as [`forward`] does.
pub fn backward(
    stream: &Stream,
    backward: &Backward<Glu, Seen<Tensor>>,
) -> Result<Projected<Tensor>> {
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
    if let Plan::Stepped(unit, steps) = plan {
        return stepped_gradients(stream, dy, operands, unit, steps);
    }
    let Some(unit) = plan.unit() else {
        let (gate, up) = parts(operands)?;
        let gradients = product_gradients(stream, dy, [&gate, &up])?;
        return laid_out(stream, gradients, operands.key().projections);
    };
    match operands.projected() {
        Projected::Packed(packed) => {
            let projections = operands.key().projections;
            let halves = in_halves(stream, packed, projections)?;
            let gradient = fused_grad(stream, dy, &halves, unit)?.reshape(packed.shape())?;
            Ok(Projected::Packed(in_turns(stream, gradient, projections)?))
        }
        Projected::Separate { gate, up } => {
            let packed = match one_buffer(gate, up)? {
                Some(packed) => packed,
                None => base::cat(stream, &[gate, up], gate.shape().len() - 1)?,
            };
            split(&fused_grad(stream, dy, &packed, unit)?.reshape(packed.shape())?)
        }
    }
}

impl Unit {
    fn activated(self, stream: &Stream, gate: &Tensor) -> Result<Tensor> {
        match self {
            Self::Silu => base::silu(stream, gate),
            Self::Gelu(Approximation::None) => Ok(unary::gelu(stream, gate)?),
            Self::Gelu(Approximation::Tanh) => Ok(unary::gelu_tanh(stream, gate)?),
        }
    }
}

/// Returns `act(a) · b` of the halves of a packed tensor.
fn fused(stream: &Stream, packed: &Tensor, shape: &[usize], unit: Unit) -> Result<Tensor> {
    let packed = matrix(stream, packed)?;
    let y = match unit {
        Unit::Silu => swi_glu(stream, &packed, 1)?,
        Unit::Gelu(approximation) => ge_glu(stream, &packed, 1, approximation)?.y,
    };
    Ok(y.reshape(shape)?)
}

/// Returns the gradient of a packed tensor, as a matrix.
fn fused_grad(stream: &Stream, dy: &Tensor, packed: &Tensor, unit: Unit) -> Result<Tensor> {
    let (dy, packed) = (matrix(stream, dy)?, matrix(stream, packed)?);
    let Unit::Gelu(approximation) = unit else {
        return Ok(swi_glu_grad(stream, &dy, &packed, 1)?);
    };
    let gate = packed.slice(1, 0..packed.shape()[1] / 2)?;
    let gelu = unit.activated(stream, &gate)?;
    Ok(ge_glu_grad(stream, &dy, &packed, &gelu, 1, approximation)?)
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
    [gate, up]: [&Tensor; 2],
) -> Result<[Tensor; 2]> {
    Ok([base::mul(stream, dy, up)?, base::mul(stream, dy, gate)?])
}

/// Lays the gradients of gate and up out as these projections.
fn laid_out(
    stream: &Stream,
    [gate, up]: [Tensor; 2],
    projections: Projections,
) -> Result<Projected<Tensor>> {
    if projections == Projections::Separate {
        return Ok(Projected::Separate { gate, up });
    }
    let halves = base::cat(stream, &[&gate, &up], gate.shape().len() - 1)?;
    Ok(Projected::Packed(in_turns(stream, halves, projections)?))
}

/// Returns gate and up after the steps.
fn stepped(stream: &Stream, operands: &Operands<Seen<Tensor>>, steps: Steps) -> Result<Stepped> {
    let (gate, up) = parts(operands)?;
    Stepped::new(stream, [&gate, &up], operands.settings(), steps)
}

/// Returns the gradients of a unit with steps before it.
fn stepped_gradients(
    stream: &Stream,
    dy: &Tensor,
    operands: &Operands<Seen<Tensor>>,
    unit: Option<Unit>,
    steps: Steps,
) -> Result<Projected<Tensor>> {
    let dtype = dy.dtype();
    let stepped = stepped(stream, operands, steps)?;
    let dy = base::cast(stream, dy, DType::F32)?;
    let (gate, up) = (&stepped.gate, &stepped.up);
    let dy = in_shape_of(stream, &dy, gate)?;
    let after = match unit {
        None => product_gradients(stream, &dy, [gate, up])?,
        Some(unit) => {
            let packed = base::cat(stream, &[gate, up], gate.shape().len() - 1)?;
            let gradient = fused_grad(stream, &dy, &packed, unit)?;
            match split(&gradient.reshape(packed.shape())?)? {
                Projected::Separate { gate, up } => [gate, up],
                Projected::Packed(_) => unreachable!("halves are two"),
            }
        }
    };
    let [gate, up] = stepped.gradients(stream, after)?;
    let gradients = [
        base::cast(stream, &gate, dtype)?,
        base::cast(stream, &up, dtype)?,
    ];
    laid_out(stream, gradients, operands.key().projections)
}
