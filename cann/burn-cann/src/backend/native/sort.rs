//! Sorting, the greatest elements, and reversed dimensions.

use burn_backend::{DType, IntDType};

use super::super::error::Native;
use super::super::tensor::CannTensor;
use super::copy;
use crate::ops::{rearrange, sort as op};

/// Returns the sorted elements.
pub(in super::super) fn sort(x: &CannTensor, dim: usize, descending: bool) -> Native<CannTensor> {
    Ok(x.with(op::sort(x.on(), &x.tensor, dim, descending)?.0))
}

/// Returns the sorted elements and their indices.
pub(in super::super) fn sort_with_places(
    x: &CannTensor,
    dim: usize,
    descending: bool,
    out: impl Into<DType>,
) -> Native<(CannTensor, CannTensor)> {
    let (values, places) = op::sort(x.on(), &x.tensor, dim, descending)?;
    Ok((
        x.with(values),
        copy::cast(&CannTensor::at(&x.place, places), out)?,
    ))
}

/// Computes [`sort_with_places`] of integers, with indices of the dtype that the host returns.
pub(in super::super) fn int_sort_with_places(
    x: &CannTensor,
    dim: usize,
    descending: bool,
) -> Native<(CannTensor, CannTensor)> {
    sort_with_places(x, dim, descending, IntDType::I64)
}

/// Returns the indices of the sorted elements.
pub(in super::super) fn argsort(
    x: &CannTensor,
    dim: usize,
    descending: bool,
    out: impl Into<DType>,
) -> Native<CannTensor> {
    let places = op::arg_sort(x.on(), &x.tensor, dim, descending)?;
    copy::cast(&CannTensor::at(&x.place, places), out)
}

/// Computes [`argsort`] of integers, with the dtype that the host returns.
pub(in super::super) fn int_argsort(
    x: &CannTensor,
    dim: usize,
    descending: bool,
) -> Native<CannTensor> {
    argsort(x, dim, descending, IntDType::I64)
}

/// Returns the `k` greatest elements, sorted.
pub(in super::super) fn topk(x: &CannTensor, dim: usize, k: usize) -> Native<CannTensor> {
    Ok(x.with(op::top_k(x.on(), &x.tensor, k, dim, true)?.0))
}

/// Returns the `k` greatest elements, sorted, and their indices.
pub(in super::super) fn topk_with_places(
    x: &CannTensor,
    dim: usize,
    k: usize,
    out: impl Into<DType>,
) -> Native<(CannTensor, CannTensor)> {
    let (values, places) = op::top_k(x.on(), &x.tensor, k, dim, true)?;
    Ok((
        x.with(values),
        copy::cast(&CannTensor::at(&x.place, places), out)?,
    ))
}

/// Computes [`topk_with_places`] of integers, with indices of the dtype that the host returns.
pub(in super::super) fn int_topk_with_places(
    x: &CannTensor,
    dim: usize,
    k: usize,
) -> Native<(CannTensor, CannTensor)> {
    topk_with_places(x, dim, k, IntDType::I64)
}

/// Returns the indices of the `k` greatest elements, sorted.
pub(in super::super) fn argtopk(
    x: &CannTensor,
    dim: usize,
    k: usize,
    out: impl Into<DType>,
) -> Native<CannTensor> {
    Ok(topk_with_places(x, dim, k, out)?.1)
}

/// Computes [`argtopk`] of integers, with the dtype that the host returns.
pub(in super::super) fn int_argtopk(x: &CannTensor, dim: usize, k: usize) -> Native<CannTensor> {
    argtopk(x, dim, k, IntDType::I64)
}

/// Reverses dimensions.
pub(in super::super) fn flip(x: &CannTensor, dims: &[usize]) -> Native<CannTensor> {
    if dims.is_empty() {
        return Ok(x.clone());
    }
    Ok(x.with(rearrange::flip(x.on(), &x.tensor, dims)?))
}
