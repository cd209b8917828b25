//! RMS norm: `aclnnRmsNorm`, `aclnnGemmaRmsNorm`, `aclnnAddRmsNorm` and the gradient, `aclnnRmsNormGrad`.
//!
//! `y = x · rstd · gamma` with `rstd = 1 / sqrt(mean(x²) + epsilon)` over the last dimensions, those of
//! `gamma`. CANN computes in f32 and rounds once at the end. [`add_rms_norm`] differs on Ascend910B: it
//! rounds the sum, and `x · rstd` before the weight, as Llama's own code does. [`gemma_rms_norm`] weighs with
//! `1 + gamma`, which it adds in f32.

use super::aclnn::aclnn;
use super::check::{self, Named};
use super::{Checked, Refusal};
use crate::call::Prepared;
use crate::dtype::DType;
use crate::error::Result;
use crate::layout::Dimensions;
use crate::soc::Platform;
use crate::stream::Stream;
use crate::tensor::{Spec, Tensor};

/// A normalised tensor.
#[derive(Debug, Clone)]
pub struct Normalised {
    /// `x · rstd · gamma`, shaped and typed like `x`.
    pub y: Tensor,
    /// f32, shaped like `x` with 1 for the normalised dimensions.
    pub rstd: Tensor,
}

/// The sum of two tensors, and that normalised.
#[derive(Debug, Clone)]
pub struct AddNormalised {
    /// The sum, normalised.
    pub y: Tensor,
    /// As of [`Normalised`].
    pub rstd: Tensor,
    /// The sum.
    pub x: Tensor,
}

/// The gradients of [`rms_norm`].
#[derive(Debug, Clone)]
pub struct Gradients {
    /// Like `x`.
    pub dx: Tensor,
    /// f32, shaped like `gamma`. Its rows are added in any order unless the device
    /// [is told otherwise](crate::Device::set_deterministic).
    pub dgamma: Tensor,
}

/// What [`rms_norm`] makes of `x` (1 to 8 dimensions, of any strides) and `gamma` (the last of them).
///
/// Types of x and gamma: f16 or bf16 with the same or with f32, f32 with f32.
///
/// # Errors
///
/// Why CANN would refuse.
pub fn check(platform: &Platform, x: &Spec, gamma: &Spec, epsilon: f64) -> Checked<Outputs> {
    check::processor(platform, "RmsNorm")?;
    check::rank(("x", x), 1, 8)?;
    weight(("x", x), gamma)?;
    positive(epsilon)?;
    outputs(x, gamma)
}

/// What [`gemma_rms_norm`] makes of `x` and `gamma`: as [`check`], but both of one type.
///
/// # Errors
///
/// Why CANN would refuse.
pub fn check_gemma(platform: &Platform, x: &Spec, gamma: &Spec, epsilon: f64) -> Checked<Outputs> {
    check::processor(platform, "GemmaRmsNorm")?;
    check::rank(("x", x), 1, 8)?;
    check::one_float(&[("x", x), ("gamma", gamma)])?;
    weight(("x", x), gamma)?;
    positive(epsilon)?;
    outputs(x, gamma)
}

/// What [`add_rms_norm`] makes of its operands: all of one type, `x1` and `x2` of one shape. CANN does not
/// say that they may be strided, so they may not.
///
/// # Errors
///
/// Why CANN would refuse.
pub fn check_add(
    platform: &Platform,
    x1: &Spec,
    x2: &Spec,
    gamma: &Spec,
    epsilon: f64,
) -> Checked<Outputs> {
    check::processor(platform, "AddRmsNorm")?;
    check::rank(("x1", x1), 1, 8)?;
    check::one_float(&[("x1", x1), ("x2", x2), ("gamma", gamma)])?;
    check::shape(("x2", x2), x1.shape())?;
    weight(("x1", x1), gamma)?;
    positive(epsilon)?;
    for operand in [("x1", x1), ("x2", x2), ("gamma", gamma)] {
        check::contiguous(operand)?;
    }
    outputs(x1, gamma)
}

/// What [`rms_norm_grad`] makes of its operands: `x` of 2 to 8 dimensions and not empty, `dy` like it,
/// `rstd` as [`rms_norm`] gave it.
///
/// # Errors
///
/// Why CANN would refuse.
pub fn check_grad(
    platform: &Platform,
    dy: &Spec,
    x: &Spec,
    rstd: &Spec,
    gamma: &Spec,
) -> Checked<(Spec, Spec)> {
    check::processor(platform, "RmsNormGrad")?;
    check::rank(("x", x), 2, 8)?;
    weight(("x", x), gamma)?;
    check::dtype(("dy", dy), &[x.dtype])?;
    check::shape(("dy", dy), x.shape())?;
    check::dtype(("rstd", rstd), &[DType::F32])?;
    check::shape(("rstd", rstd), &reduced(x, gamma))?;
    // Without rows CANN's gradient of gamma is not a number.
    check::not_empty(("x", x))?;
    let dx = Spec::contiguous(x.dtype, x.shape())?;
    let dgamma = Spec::contiguous(DType::F32, gamma.shape())?;
    Ok((dx, dgamma))
}

/// `x · rstd · gamma`.
///
/// # Errors
///
/// Refused by [`check`], or a call failed.
pub fn rms_norm(stream: &Stream, x: &Tensor, gamma: &Tensor, epsilon: f64) -> Result<Normalised> {
    prepare(stream, x, gamma, epsilon)?.launch()
}

/// [`rms_norm`] up to its launch.
///
/// # Errors
///
/// As [`rms_norm`].
pub fn prepare(
    stream: &Stream,
    x: &Tensor,
    gamma: &Tensor,
    epsilon: f64,
) -> Result<Prepared<Normalised>> {
    let device = stream.device();
    let outputs = check(device.platform(), x.spec(), gamma.spec(), epsilon)?;
    let output = outputs.allocate(stream)?;
    if x.spec().is_empty() {
        return Ok(Prepared::nothing(output));
    }
    let (y, rstd) = (&output.y, &output.rstd);
    aclnn!(
        prepare stream, norm.aclnnRmsNormGetWorkspaceSize, aclnnRmsNorm,
        tensors [x, gamma, y, rstd], constants [], attributes [epsilon],
        call(x, gamma, epsilon, y, rstd), output,
    )
}

/// `x · rstd · (1 + gamma)`.
///
/// CANN has no gradient of its own for it: that of [`rms_norm`] at the weight `1 + gamma` is the same.
///
/// # Errors
///
/// Refused by [`check_gemma`], or a call failed.
pub fn gemma_rms_norm(
    stream: &Stream,
    x: &Tensor,
    gamma: &Tensor,
    epsilon: f64,
) -> Result<Normalised> {
    let device = stream.device();
    let outputs = check_gemma(device.platform(), x.spec(), gamma.spec(), epsilon)?;
    let output = outputs.allocate(stream)?;
    if x.spec().is_empty() {
        return Ok(output);
    }
    let (y, rstd) = (&output.y, &output.rstd);
    aclnn!(
        stream, norm.aclnnGemmaRmsNormGetWorkspaceSize, aclnnGemmaRmsNorm,
        tensors [x, gamma, y, rstd], constants [], attributes [epsilon],
        call(x, gamma, epsilon, y, rstd), output,
    )
}

/// `x1 + x2`, and [`rms_norm`] of that with CANN's own rounding.
///
/// # Errors
///
/// Refused by [`check_add`], or a call failed.
pub fn add_rms_norm(
    stream: &Stream,
    x1: &Tensor,
    x2: &Tensor,
    gamma: &Tensor,
    epsilon: f64,
) -> Result<AddNormalised> {
    let device = stream.device();
    let outputs = check_add(
        device.platform(),
        x1.spec(),
        x2.spec(),
        gamma.spec(),
        epsilon,
    )?;
    let Normalised { y, rstd } = outputs.allocate(stream)?;
    let x = Tensor::like(stream, &outputs.y)?;
    let output = AddNormalised { y, rstd, x };
    if x1.spec().is_empty() {
        return Ok(output);
    }
    let AddNormalised { y, rstd, x } = &output;
    aclnn!(
        stream, norm.aclnnAddRmsNormGetWorkspaceSize, aclnnAddRmsNorm,
        tensors [x1, x2, gamma, y, rstd, x], constants [], attributes [epsilon],
        call(x1, x2, gamma, epsilon, y, rstd, x), output,
    )
}

/// The gradients of [`rms_norm`] from `dy`, that of `y`.
///
/// # Errors
///
/// Refused by [`check_grad`], or a call failed.
pub fn rms_norm_grad(
    stream: &Stream,
    dy: &Tensor,
    x: &Tensor,
    rstd: &Tensor,
    gamma: &Tensor,
) -> Result<Gradients> {
    let device = stream.device();
    let (dx, dgamma) = check_grad(
        device.platform(),
        dy.spec(),
        x.spec(),
        rstd.spec(),
        gamma.spec(),
    )?;
    let output = Gradients {
        dx: Tensor::like(stream, &dx)?,
        dgamma: Tensor::like(stream, &dgamma)?,
    };
    let Gradients { dx, dgamma } = &output;
    aclnn!(
        stream, norm.aclnnRmsNormGradGetWorkspaceSize, aclnnRmsNormGrad,
        tensors [dy, x, rstd, gamma, dx, dgamma], constants [], attributes [],
        call(dy, x, rstd, gamma, dx, dgamma), output,
    )
}

/// The outputs of a norm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outputs {
    /// Like `x`.
    pub y: Spec,
    /// f32, shaped like `x` with 1 for the normalised dimensions.
    pub rstd: Spec,
}

impl Outputs {
    fn allocate(&self, stream: &Stream) -> Result<Normalised> {
        Ok(Normalised {
            y: Tensor::like(stream, &self.y)?,
            rstd: Tensor::like(stream, &self.rstd)?,
        })
    }
}

fn outputs(x: &Spec, gamma: &Spec) -> Checked<Outputs> {
    Ok(Outputs {
        y: Spec::contiguous(x.dtype, x.shape())?,
        rstd: Spec::contiguous(DType::F32, reduced(x, gamma))?,
    })
}

fn reduced(x: &Spec, gamma: &Spec) -> Dimensions {
    let kept = x.rank() - gamma.rank();
    let mut shape = Dimensions::from(x.shape());
    shape[kept..].fill(1);
    shape
}

/// `gamma` has the last dimensions of `x`, its type or f32, and elements.
fn weight((name, x): Named<'_>, gamma: &Spec) -> Checked<()> {
    check::dtype((name, x), &check::FLOATS)?;
    check::dtype(("gamma", gamma), &[x.dtype, DType::F32])?;
    check::rank(("gamma", gamma), 1, x.rank())?;
    check::shape(("gamma", gamma), &x.shape()[x.rank() - gamma.rank()..])?;
    check::not_empty(("gamma", gamma))
}

fn positive(epsilon: f64) -> Checked<()> {
    if epsilon.is_finite() && epsilon >= 0.0 {
        return Ok(());
    }
    Err(Refusal::Value {
        what: "epsilon",
        found: epsilon.to_string(),
        expected: "zero or a positive number",
    })
}
