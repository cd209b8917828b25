//! Layer norm (`aclnnLayerNorm`) and its gradient (`aclnnLayerNormBackward`), computed in f32.
//!
//! `y = (x − mean) · rstd · weight + bias` over the last dimension, with
//! `rstd = 1 / √(variance + epsilon)`.

use super::aclnn::aclnn;
use super::check;
use super::types::FLOATS;
use super::{Checked, Refusal};
use crate::call::Constant;
use crate::dtype::DType;
use crate::error::Result;
use crate::layout::Dimensions;
use crate::soc::Platform;
use crate::stream::Stream;
use crate::tensor::{Spec, Tensor};

/// A normalised tensor, with the statistics that its gradient needs. Mean and `rstd` are f32 for every `x`: for the
/// forward operator CANN documents the dtype of `x`, but its kernel computes them in f32, PyTorch's extension for NPUs
/// takes them so in every dtype, and the gradient's operator documents statistics that are wider than `x`.
#[derive(Debug, Clone)]
pub struct Normalised {
    /// The result, with the shape and dtype of `x`.
    pub y: Tensor,
    /// The mean, with the shape of `x` but 1 for the last dimension.
    pub mean: Tensor,
    /// The reciprocal of the standard deviation, shaped like the mean.
    pub rstd: Tensor,
}

/// The gradients of [`layer_norm`].
#[derive(Debug, Clone)]
pub struct Gradients {
    /// The gradient of `x`, with its shape and dtype.
    pub dx: Tensor,
    /// The gradient of the weight, with its shape and dtype. Without a weight it has the dtype of `x`.
    pub dweight: Tensor,
    /// The gradient of the bias, like that of the weight.
    pub dbias: Tensor,
}

/// Checks the operands of [`layer_norm`] and returns the spec of mean and `rstd`. `x` is f32, f16 or bf16 and not
/// empty. Weight and bias have the length of its last dimension and one dtype, that of `x` or f32.
///
/// # Errors
///
/// Returns a refusal if CANN does not take the operands.
pub fn check(
    platform: &Platform,
    x: &Spec,
    weight: Option<&Spec>,
    bias: Option<&Spec>,
    epsilon: f64,
) -> Checked<Spec> {
    check::processor(platform, "LayerNorm")?;
    check::view(("x", x), FLOATS)?;
    check::rank(("x", x), 1, check::MOST_DIMENSIONS)?;
    check::not_empty(("x", x))?;
    let last = x.rank() - 1;
    let width = &x.shape()[last..];
    for (name, parameter) in [("weight", weight), ("bias", bias)] {
        let Some(parameter) = parameter else { continue };
        check::view((name, parameter), &[x.dtype, DType::F32])?;
        check::shape((name, parameter), width)?;
    }
    if let (Some(weight), Some(bias)) = (weight, bias) {
        check::dtype(("bias", bias), &[weight.dtype])?;
    }
    if !(epsilon.is_finite() && epsilon >= 0.0) {
        return Err(Refusal::Value {
            what: "epsilon",
            found: epsilon.to_string(),
            expected: "zero or a positive number",
        });
    }
    let mut statistic = Dimensions::from(x.shape());
    statistic[last] = 1;
    Ok(Spec::contiguous(DType::F32, statistic)?)
}

/// Checks the operands of [`layer_norm_backward`]: `dy` like `x`, and the statistics that [`layer_norm`] returned.
///
/// # Errors
///
/// Returns a refusal if CANN does not take the operands.
pub fn check_backward(
    platform: &Platform,
    dy: &Spec,
    x: &Spec,
    mean: &Spec,
    rstd: &Spec,
    weight: Option<&Spec>,
) -> Checked<()> {
    let statistic = check(platform, x, weight, None, 0.0)?;
    check::view(("dy", dy), &[x.dtype])?;
    check::shape(("dy", dy), x.shape())?;
    for (name, given) in [("mean", mean), ("rstd", rstd)] {
        check::view((name, given), &[statistic.dtype])?;
        check::shape((name, given), statistic.shape())?;
    }
    Ok(())
}

/// Computes `(x − mean) · rstd · weight + bias` over the last dimension.
///
/// # Errors
///
/// Returns an error if [`check`] refuses the operands or a call fails.
pub fn layer_norm(
    stream: &Stream,
    x: &Tensor,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    epsilon: f64,
) -> Result<Normalised> {
    let device = stream.device();
    let (weight_spec, bias_spec) = (weight.map(Tensor::spec), bias.map(Tensor::spec));
    let statistic = check(device.platform(), x.spec(), weight_spec, bias_spec, epsilon)?;
    let made = Normalised {
        y: Tensor::like(stream, x.spec())?,
        mean: Tensor::like(stream, &statistic)?,
        rstd: Tensor::like(stream, &statistic)?,
    };
    let (y, mean, rstd) = (&made.y, &made.mean, &made.rstd);
    aclnn!(
        stream, norm.aclnnLayerNormGetWorkspaceSize, aclnnLayerNorm,
        tensors [x, weight, bias, y, mean, rstd],
        constants [width: ints = Constant::sizes(&x.shape()[x.shape().len() - 1..])],
        attributes [epsilon],
        call(x, width, weight, bias, epsilon, y, mean, rstd), made.clone(),
    )
}

/// Returns the gradients of [`layer_norm`] from `dy`.
///
/// # Errors
///
/// Returns an error if [`check_backward`] refuses the operands or a call fails.
pub fn layer_norm_backward(
    stream: &Stream,
    dy: &Tensor,
    x: &Tensor,
    mean: &Tensor,
    rstd: &Tensor,
    weight: Option<&Tensor>,
) -> Result<Gradients> {
    let device = stream.device();
    let weight_spec = weight.map(Tensor::spec);
    check_backward(
        device.platform(),
        dy.spec(),
        x.spec(),
        mean.spec(),
        rstd.spec(),
        weight_spec,
    )?;
    let width = &x.shape()[x.shape().len() - 1..];
    let dtype = weight.map_or(x.dtype(), Tensor::dtype);
    let made = Gradients {
        dx: Tensor::like(stream, x.spec())?,
        dweight: Tensor::empty(stream, dtype, width)?,
        dbias: Tensor::empty(stream, dtype, width)?,
    };
    let (dx, dweight, dbias) = (&made.dx, &made.dweight, &made.dbias);
    aclnn!(
        stream, norm.aclnnLayerNormBackwardGetWorkspaceSize, aclnnLayerNormBackward,
        tensors [dy, x, mean, rstd, weight, dx, dweight, dbias],
        constants [
            width: ints = Constant::sizes(width),
            mask: bools = Constant::Bools(vec![true; 3]),
        ],
        attributes [],
        call(
            dy, x, width, mean, rstd, weight, std::ptr::null(), mask, dx, dweight, dbias,
        ),
        made.clone(),
    )
}
