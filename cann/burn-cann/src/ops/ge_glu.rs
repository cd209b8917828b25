//! GEGLU (`aclnnGeGluV3`) and its gradient (`aclnnGeGluV3Backward`).
//!
//! The halves `a` (the gate) and `b` of `x` along a dimension become `gelu(a) · b`. CANN computes in f32 and rounds
//! once.

use super::aclnn::aclnn;
use super::swi_glu::halved;
use super::{Checked, check};
use crate::error::Result;
use crate::soc::Platform;
use crate::stream::Stream;
use crate::tensor::{Spec, Tensor};

/// The computation of GELU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Approximation {
    /// `a · Φ(a)`, computed with the error function.
    None,
    /// `a/2 · (1 + tanh(√(2/π) · (a + 0.044715 a³)))`.
    Tanh,
}

impl Approximation {
    /// Returns CANN's number.
    fn number(self) -> i64 {
        match self {
            Self::None => 0,
            Self::Tanh => 1,
        }
    }
}

/// The results of [`ge_glu`].
#[derive(Clone, Debug)]
pub struct Gated {
    /// `gelu(a) · b`.
    pub y: Tensor,
    /// `gelu(a)`, which the gradient takes.
    pub gelu: Tensor,
}

/// Checks the operand of [`ge_glu`] and returns the spec of both results. `x` is f16, bf16 or f32 of any strides, and has
/// an even size along `dim`.
///
/// # Errors
///
/// Returns a refusal if CANN does not take the operands.
pub fn check(platform: &Platform, x: &Spec, dim: usize) -> Checked<Spec> {
    check::processor(platform, "GeGluV3")?;
    Ok(Spec::contiguous(x.dtype, halved(x, dim)?)?)
}

/// Checks the operands of [`ge_glu_grad`] and returns the spec of its result. `x` is as in [`check`]. `dy` and `gelu` are
/// like the results. None is empty.
///
/// # Errors
///
/// Returns a refusal if CANN does not take the operands.
pub fn check_grad(
    platform: &Platform,
    dy: &Spec,
    x: &Spec,
    gelu: &Spec,
    dim: usize,
) -> Checked<Spec> {
    check::processor(platform, "GeGluV3Backward")?;
    let half = halved(x, dim)?;
    check::one_float(&[("x", x), ("dy", dy), ("gelu", gelu)])?;
    check::shape(("dy", dy), &half)?;
    check::shape(("gelu", gelu), &half)?;
    check::not_empty(("x", x))?;
    Ok(Spec::contiguous(x.dtype, x.shape())?)
}

/// Computes `gelu(a) · b` for the halves of `x` along `dim`.
///
/// # Errors
///
/// Returns an error if [`check`] refuses the operands or a call fails.
pub fn ge_glu(
    stream: &Stream,
    x: &Tensor,
    dim: usize,
    approximation: Approximation,
) -> Result<Gated> {
    let device = stream.device();
    let spec = check(device.platform(), x.spec(), dim)?;
    let gated = Gated {
        y: Tensor::like(stream, &spec)?,
        gelu: Tensor::like(stream, &spec)?,
    };
    if x.spec().is_empty() {
        return Ok(gated);
    }
    let (axis, approximation) = (dim as i64, approximation.number());
    let (y, gelu) = (&gated.y, &gated.gelu);
    aclnn!(
        stream, activation.aclnnGeGluV3GetWorkspaceSize, aclnnGeGluV3,
        tensors [x, y, gelu], constants [], attributes [axis, approximation],
        call(x, axis, approximation, true, y, gelu), gated,
    )
}

/// Returns the gradient of [`ge_glu`] for `x`, from `dy` and the activated half.
///
/// # Errors
///
/// Returns an error if [`check_grad`] refuses the operands or a call fails.
pub fn ge_glu_grad(
    stream: &Stream,
    dy: &Tensor,
    x: &Tensor,
    gelu: &Tensor,
    dim: usize,
    approximation: Approximation,
) -> Result<Tensor> {
    let device = stream.device();
    let spec = check_grad(device.platform(), dy.spec(), x.spec(), gelu.spec(), dim)?;
    let (axis, approximation) = (dim as i64, approximation.number());
    let output = Tensor::like(stream, &spec)?;
    let dx = &output;
    aclnn!(
        stream, activation.aclnnGeGluV3BackwardGetWorkspaceSize, aclnnGeGluV3Backward,
        tensors [dy, x, gelu, dx], constants [], attributes [axis, approximation],
        call(dy, x, gelu, axis, approximation, true, dx), output,
    )
}
