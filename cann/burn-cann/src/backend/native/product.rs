//! Matrix products.

use super::super::error::Native;
use super::super::tensor::CannTensor;
use crate::ops;

/// Computes `a · b` for each matrix of the batch.
pub(in super::super) fn matmul(a: &CannTensor, b: &CannTensor) -> Native<CannTensor> {
    Ok(a.with(ops::matmul::matmul(a.on(), &a.tensor, &b.tensor)?))
}
