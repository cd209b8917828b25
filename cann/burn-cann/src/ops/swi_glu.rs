//! SwiGLU (`aclnnSwiGlu`) and its gradient (`aclnnSwiGluGrad`).
//!
//! The halves `a` (the gate) and `b` of `x` along a dimension become `silu(a) · b`. CANN computes in f32 and rounds
//! once.

use super::aclnn::aclnn;
use super::check;
use super::{Checked, Refusal};
use crate::call::Prepared;
use crate::error::Result;
use crate::layout::Dimensions;
use crate::soc::Platform;
use crate::stream::Stream;
use crate::tensor::{Spec, Tensor};

/// Checks the operand of [`swi_glu`] and returns the spec of its result. `x` is f16, bf16 or f32, contiguous, and has
/// an even size along `dim`.
///
/// # Errors
///
/// Returns a refusal if CANN does not take the operands.
pub fn check(platform: &Platform, x: &Spec, dim: usize) -> Checked<Spec> {
    check::processor(platform, "SwiGlu")?;
    let half = halved(x, dim)?;
    check::contiguous(("x", x))?;
    Ok(Spec::contiguous(x.dtype, half)?)
}

/// Checks the operands of [`swi_glu_grad`] and returns the spec of its result. `x` is as in [`check`] but may have any
/// strides. `dy` is like the output and contiguous. Neither is empty.
///
/// # Errors
///
/// Returns a refusal if CANN does not take the operands.
pub fn check_grad(platform: &Platform, dy: &Spec, x: &Spec, dim: usize) -> Checked<Spec> {
    check::processor(platform, "SwiGluGrad")?;
    let half = halved(x, dim)?;
    check::one_float(&[("x", x), ("dy", dy)])?;
    check::shape(("dy", dy), &half)?;
    check::contiguous(("dy", dy))?;
    check::not_empty(("x", x))?;
    Ok(Spec::contiguous(x.dtype, x.shape())?)
}

/// Computes `silu(a) · b` for the halves of `x` along `dim`.
///
/// # Errors
///
/// Returns an error if [`check`] refuses the operands or a call fails.
pub fn swi_glu(stream: &Stream, x: &Tensor, dim: usize) -> Result<Tensor> {
    prepare(stream, x, dim)?.launch()
}

/// Prepares [`swi_glu`] without launching it.
///
/// # Errors
///
/// Returns an error as [`swi_glu`] does.
pub fn prepare(stream: &Stream, x: &Tensor, dim: usize) -> Result<Prepared<Tensor>> {
    let device = stream.device();
    let y = Tensor::like(stream, &check(device.platform(), x.spec(), dim)?)?;
    if x.spec().is_empty() {
        return Ok(Prepared::nothing(y));
    }
    let (axis, output) = (dim as i64, &y);
    aclnn!(
        prepare stream, activation.aclnnSwiGluGetWorkspaceSize, aclnnSwiGlu,
        tensors [x, output], constants [], attributes [axis],
        call(x, axis, output), y,
    )
}

/// Returns the gradient of [`swi_glu`] for `x`, from `dy`.
///
/// # Errors
///
/// Returns an error if [`check_grad`] refuses the operands or a call fails.
pub fn swi_glu_grad(stream: &Stream, dy: &Tensor, x: &Tensor, dim: usize) -> Result<Tensor> {
    let device = stream.device();
    let dx = check_grad(device.platform(), dy.spec(), x.spec(), dim)?;
    let (axis, output) = (dim as i64, Tensor::like(stream, &dx)?);
    let dx = &output;
    aclnn!(
        stream, activation.aclnnSwiGluGradGetWorkspaceSize, aclnnSwiGluGrad,
        tensors [dy, x, dx], constants [], attributes [axis],
        call(dy, x, axis, dx), output,
    )
}

/// Returns the shape of a half of `x`.
pub(super) fn halved(x: &Spec, dim: usize) -> Checked<Dimensions> {
    check::dtype(("x", x), &check::FLOATS)?;
    check::rank(("x", x), 1, 8)?;
    let mut shape = Dimensions::from(x.shape());
    let Some(size) = shape.get_mut(dim) else {
        return Err(Refusal::Value {
            what: "dim",
            found: dim.to_string(),
            expected: "a dimension of x",
        });
    };
    if *size % 2 == 1 {
        return Err(check::wrong_shape(
            ("x", x),
            format!("an even size of dimension {dim}"),
        ));
    }
    *size /= 2;
    Ok(shape)
}
