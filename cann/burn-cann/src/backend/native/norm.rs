//! Normalisation.

use super::super::error::Native;
use super::super::tensor::CannTensor;
use crate::ops;

/// Normalises the last dimension to mean 0 and variance 1, then scales and shifts it.
pub(in super::super) fn layer_norm(
    x: &CannTensor,
    gamma: &CannTensor,
    beta: Option<&CannTensor>,
    epsilon: f64,
) -> Native<CannTensor> {
    let (weight, bias) = (Some(&gamma.tensor), beta.map(|beta| &beta.tensor));
    let found = ops::layer_norm::layer_norm(x.on(), &x.tensor, weight, bias, epsilon)?;
    Ok(x.with(found.y))
}
