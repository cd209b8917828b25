//! Layer norm: `aclnnLayerNorm` and the gradient, `aclnnLayerNormBackward`, computed in f32.
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
use crate::soc::Platform;
use crate::stream::Stream;
use crate::tensor::{Spec, Tensor};

/// A normalised tensor, and what its gradient needs. Mean and `rstd` have the type of `x` (CANN documents no
/// other), so that of half types they are rounded.
#[derive(Debug, Clone)]
pub struct Normalised {
    /// Shaped and typed like `x`.
    pub y: Tensor,
    /// Shaped like `x` with 1 for the last dimension.
    pub mean: Tensor,
    /// As the mean.
    pub rstd: Tensor,
}

/// The gradients of [`layer_norm`].
#[derive(Debug, Clone)]
pub struct Gradients {
    /// Like `x`.
    pub dx: Tensor,
    /// Like the weight; of the type of `x` if there is none.
    pub dweight: Tensor,
    /// As the weight's.
    pub dbias: Tensor,
}

/// What [`layer_norm`] makes of `x`, of f32, f16 or bf16 and not empty, and a weight and bias of its last
/// dimension and its type or f32, both of one type: the shape of mean and `rstd`.
///
/// # Errors
///
/// Why CANN would refuse.
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
    let (outer, width) = x.shape().split_at(x.rank() - 1);
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
    Ok(Spec::contiguous(x.dtype, [outer, &[1]].concat())?)
}

/// Whether [`layer_norm_backward`] takes its operands: `dy` like `x`, the statistics as [`layer_norm`] gave
/// them.
///
/// # Errors
///
/// Why CANN would refuse.
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
        check::view((name, given), &[x.dtype])?;
        check::shape((name, given), statistic.shape())?;
    }
    Ok(())
}

/// `(x − mean) · rstd · weight + bias` over the last dimension.
///
/// # Errors
///
/// Refused by [`check`], or a call failed.
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

/// The gradients of [`layer_norm`] from `dy`.
///
/// # Errors
///
/// Refused by [`check_backward`], or a call failed.
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
