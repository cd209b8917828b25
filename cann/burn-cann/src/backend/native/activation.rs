//! Activation functions that need several operators.

use std::f64::consts::{FRAC_1_PI, FRAC_1_SQRT_2};

use burn_backend::{FloatDType, Scalar as BurnScalar};

use super::super::error::Native;
use super::super::tensor::CannTensor;
use super::copy;
use super::elementwise::{by, clamp, one, two};
use crate::ops::elementwise::{Binary, BinaryScalar};
use crate::ops::unary::Unary;
use crate::{DType, ops};

/// Computes the softmax along a dimension.
pub(in super::super) fn softmax(x: &CannTensor, dim: usize) -> Native<CannTensor> {
    Ok(x.with(ops::softmax::softmax(x.on(), &x.tensor, dim)?))
}

/// Computes the logarithm of [`softmax`].
pub(in super::super) fn log_softmax(x: &CannTensor, dim: usize) -> Native<CannTensor> {
    Ok(x.with(ops::softmax::log_softmax(x.on(), &x.tensor, dim)?))
}

/// Computes `-log(1 + exp(-x))` as `min(x, 0) - log(1 + exp(-|x|))`, which can't overflow.
pub(in super::super) fn log_sigmoid(x: &CannTensor) -> Native<CannTensor> {
    in_single(x, |x| {
        let power = one(Unary::Exp)(&one(Unary::Neg)(&one(Unary::Abs)(x)?)?)?;
        let least = by(BinaryScalar::ClampMax)(x, BurnScalar::Float(0.0))?;
        two(Binary::Sub)(&least, &one(Unary::Log1p)(&power)?)
    })
}

/// Returns the gradient of [`log_sigmoid`]: `grad · σ(-x)`.
pub(in super::super) fn log_sigmoid_backward(
    x: &CannTensor,
    grad: &CannTensor,
) -> Native<CannTensor> {
    in_single(x, |x| {
        let grad = copy::cast(grad, x.dtype)?;
        let slope = one(Unary::Sigmoid)(&one(Unary::Neg)(x)?)?;
        two(Binary::Mul)(&grad, &slope)
    })
}

/// Returns the gradient of `x · Φ(x)`: `grad · (Φ(x) + x · φ(x))`. Φ and φ are the distribution function and the
/// density of the normal distribution.
pub(in super::super) fn gelu_backward(x: &CannTensor, grad: &CannTensor) -> Native<CannTensor> {
    in_single(x, |x| {
        let grad = copy::cast(grad, x.dtype)?;
        let half = BurnScalar::Float(0.5);
        let scaled = by(BinaryScalar::Mul)(x, BurnScalar::Float(FRAC_1_SQRT_2))?;
        let twice = by(BinaryScalar::Add)(&one(Unary::Erf)(&scaled)?, BurnScalar::Float(1.0))?;
        let distribution = by(BinaryScalar::Mul)(&twice, half)?;
        // `scaled²` is half of `x²`.
        let exponent = one(Unary::Neg)(&two(Binary::Mul)(&scaled, &scaled)?)?;
        let height = BurnScalar::Float((0.5 * FRAC_1_PI).sqrt());
        let density = by(BinaryScalar::Mul)(&one(Unary::Exp)(&exponent)?, height)?;
        let slope = two(Binary::Add)(&distribution, &two(Binary::Mul)(x, &density)?)?;
        two(Binary::Mul)(&grad, &slope)
    })
}

/// Computes in f32 for half types, so that the result is rounded once.
fn in_single(
    x: &CannTensor,
    compute: impl FnOnce(&CannTensor) -> Native<CannTensor>,
) -> Native<CannTensor> {
    if x.tensor.dtype() == DType::F64 {
        return compute(x);
    }
    copy::cast(&compute(&copy::cast(x, FloatDType::F32)?)?, x.dtype)
}

/// Computes `alpha · x + beta`, clamped to 0 and 1.
pub(in super::super) fn hard_sigmoid(
    x: &CannTensor,
    alpha: BurnScalar,
    beta: BurnScalar,
) -> Native<CannTensor> {
    in_single(x, |x| {
        let line = by(BinaryScalar::Add)(&by(BinaryScalar::Mul)(x, alpha)?, beta)?;
        clamp(&line, BurnScalar::Float(0.0), BurnScalar::Float(1.0))
    })
}
