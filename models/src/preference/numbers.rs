//! Functions of tensors that keep their precision, and checks of settings.

use crate::error::ModelError;
use burn::tensor::{DType, Tensor};

/// Returns `log σ(x)`. Both of its branches keep the precision of `x`, and its gradient at 0 is a half.
pub(super) fn log_sigmoid<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    let below = x.clone().lower_elem(0.0);
    let size = x.clone().mask_where(below.clone(), x.clone().neg());
    x.mask_fill(below.bool_not(), 0.0) - size.neg().exp().log1p()
}

/// Returns `σ(x)`. Burn's own function computes in f32.
pub(super) fn sigmoid<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    log_sigmoid(x).exp()
}

/// Returns `log(1 − eˣ)` of `x ≤ 0` as `log tanh(−x / 2) + log(1 + eˣ)`, which loses nothing where `x` is near 0.
///
/// Where `x` is 0, or above it by rounding, it is that of a number just below 0, without a gradient: the logarithm of 0 and
/// its slope would be infinite.
pub(super) fn log_1m_exp(x: Tensor<1>) -> Tensor<1> {
    // The slope is the reciprocal, which the dtype must hold too.
    let least = match x.dtype() {
        DType::F64 => 1e-300,
        DType::F16 => 1e-4,
        _ => 1e-30,
    };
    let x = x.clamp_max(-least);
    x.clone().mul_scalar(-0.5).tanh().log() + x.exp().log1p()
}

/// Returns the values of a tensor.
pub(super) fn read<const D: usize>(
    name: &'static str,
    tensor: Tensor<D>,
) -> Result<Vec<f64>, ModelError> {
    let values = tensor.without_autodiff().try_to_vec_as::<f64>();
    values.map_err(|error| input(name, format!("cannot be read from the device: {error}")))
}

/// Returns the values of each of several tensors of one shape and dtype, which are read at once.
pub(super) fn read_all<const D: usize>(
    name: &'static str,
    tensors: Vec<Tensor<D>>,
) -> Result<Vec<Vec<f64>>, ModelError> {
    let count = tensors.len();
    let tensors = tensors.into_iter().map(Tensor::without_autodiff).collect();
    let values = read(name, Tensor::cat(tensors, 0))?;
    let each = values.len() / count;
    let of = |at: usize| values[at * each..(at + 1) * each].to_vec();
    Ok((0..count).map(of).collect())
}

/// Returns the error of an input.
pub(super) fn input(input: &'static str, problem: String) -> ModelError {
    ModelError::Input { input, problem }
}

fn setting(setting: &'static str, problem: String) -> ModelError {
    ModelError::Setting { setting, problem }
}

/// Checks that a setting is a finite number above 0.
pub(super) fn above_zero(name: &'static str, value: f64) -> Result<(), ModelError> {
    match value > 0.0 && value.is_finite() {
        true => Ok(()),
        false => Err(setting(
            name,
            format!("must be a number above 0, but is {value}"),
        )),
    }
}

/// Checks that a setting is a finite number of at least 0.
pub(super) fn from_zero(name: &'static str, value: f64) -> Result<(), ModelError> {
    match value >= 0.0 && value.is_finite() {
        true => Ok(()),
        false => Err(setting(
            name,
            format!("must be a number of at least 0, but is {value}"),
        )),
    }
}

/// Checks that a setting is in `0..limit`.
pub(super) fn below(name: &'static str, value: f64, limit: f64) -> Result<(), ModelError> {
    match (0.0..limit).contains(&value) {
        true => Ok(()),
        false => Err(setting(
            name,
            format!("must be at least 0 and below {limit}, but is {value}"),
        )),
    }
}

/// Checks that a setting is a number from 0 to 1.
pub(super) fn part(name: &'static str, value: f64) -> Result<(), ModelError> {
    match (0.0..=1.0).contains(&value) {
        true => Ok(()),
        false => Err(setting(
            name,
            format!("must be from 0 to 1, but is {value}"),
        )),
    }
}
