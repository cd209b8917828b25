//! RMS norm (`aclnnRmsNorm`, `aclnnAddRmsNorm`) and its gradient (`aclnnRmsNormGrad`).
//!
//! `y = x · rstd · gamma` with `rstd = 1 / sqrt(mean(x²) + epsilon)` over the last dimensions, those of `gamma`. CANN
//! computes in f32 and rounds once at the end. [`add_rms_norm`] differs on Ascend910B: it rounds the sum, and it
//! rounds `x · rstd` before the weight, as Llama's own code does.

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
    /// `x · rstd · gamma`, with the shape and dtype of `x`.
    pub y: Tensor,
    /// The reciprocal of the root mean square: f32, with the shape of `x` but 1 for the normalised dimensions.
    pub rstd: Tensor,
}

/// The sum of two tensors, and its norm.
#[derive(Debug, Clone)]
pub struct AddNormalised {
    /// The normalised sum.
    pub y: Tensor,
    /// The reciprocal of the root mean square, as in [`Normalised`].
    pub rstd: Tensor,
    /// The sum.
    pub x: Tensor,
}

/// The gradients of [`rms_norm`].
#[derive(Debug, Clone)]
pub struct Gradients {
    /// The gradient of `x`, with its shape and dtype.
    pub dx: Tensor,
    /// The gradient of `gamma`: f32, with its shape. Rows are added in any order unless the device [is
    /// deterministic](crate::Device::set_deterministic).
    pub dgamma: Tensor,
}

/// Checks the operands of [`rms_norm`] and returns the specs of its outputs. `x` has 1 to 8 dimensions and any
/// strides. `gamma` has the shape of the last of them.
///
/// `gamma` has the dtype of `x`, which is f16, bf16 or f32, or it is f32.
///
/// # Errors
///
/// Returns a refusal if CANN does not take the operands.
pub fn check(platform: &Platform, x: &Spec, gamma: &Spec, epsilon: f64) -> Checked<Outputs> {
    check::processor(platform, "RmsNorm")?;
    check::rank(("x", x), 1, 8)?;
    weight(("x", x), gamma)?;
    positive(epsilon)?;
    outputs(x, gamma)
}

/// Checks the operands of [`add_rms_norm`]. All have the same dtype, and `x1` and `x2` have the same shape. They must
/// be contiguous, because CANN does not document that they may be strided.
///
/// # Errors
///
/// Returns a refusal if CANN does not take the operands.
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

/// Checks the operands of [`rms_norm_grad`] and returns the specs of the gradients. `x` has 2 to 8 dimensions and is
/// not empty. `dy` is like `x`, and `rstd` is that of [`rms_norm`].
///
/// # Errors
///
/// Returns a refusal if CANN does not take the operands.
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
    // Without rows, CANN's gradient of gamma is NaN.
    check::not_empty(("x", x))?;
    let dx = Spec::contiguous(x.dtype, x.shape())?;
    let dgamma = Spec::contiguous(DType::F32, gamma.shape())?;
    Ok((dx, dgamma))
}

/// Computes `x · rstd · gamma`.
///
/// # Errors
///
/// Returns an error if [`check`] refuses the operands or a call fails.
pub fn rms_norm(stream: &Stream, x: &Tensor, gamma: &Tensor, epsilon: f64) -> Result<Normalised> {
    prepare(stream, x, gamma, epsilon)?.launch()
}

/// Prepares [`rms_norm`] without launching it.
///
/// # Errors
///
/// Returns an error as [`rms_norm`] does.
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

/// Computes `x1 + x2` and its [`rms_norm`], rounded as the module's documentation describes.
///
/// # Errors
///
/// Returns an error if [`check_add`] refuses the operands or a call fails.
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

/// Returns the gradients of [`rms_norm`] from `dy`, the gradient of `y`.
///
/// # Errors
///
/// Returns an error if [`check_grad`] refuses the operands or a call fails.
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

/// The specs of a norm's outputs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outputs {
    /// The result, like `x`.
    pub y: Spec,
    /// The reciprocal of the root mean square: f32, with the shape of `x` but 1 for the normalised dimensions.
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

/// Checks that `gamma` has the shape of the last dimensions of `x`, its dtype or f32, and elements.
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
