//! Sorting and the greatest elements.

use burn_backend::{DType, IntDType};

use super::super::error::Native;
use super::super::tensor::CannTensor;
use super::copy;
use crate::ops::{rearrange, sort as op};

/// The elements in order.
pub(in super::super) fn sort(x: &CannTensor, dim: usize, descending: bool) -> Native<CannTensor> {
    Ok(x.with(op::sort(x.on(), &x.tensor, dim, descending)?.0))
}

/// The elements in order and their places.
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

/// [`sort_with_places`] of integers, with places in the type that the host gives.
pub(in super::super) fn int_sort_with_places(
    x: &CannTensor,
    dim: usize,
    descending: bool,
) -> Native<(CannTensor, CannTensor)> {
    sort_with_places(x, dim, descending, IntDType::I64)
}

/// The places of the elements in order.
pub(in super::super) fn argsort(
    x: &CannTensor,
    dim: usize,
    descending: bool,
    out: impl Into<DType>,
) -> Native<CannTensor> {
    let places = op::arg_sort(x.on(), &x.tensor, dim, descending)?;
    copy::cast(&CannTensor::at(&x.place, places), out)
}

/// [`argsort`] of integers, in the type that the host gives.
pub(in super::super) fn int_argsort(
    x: &CannTensor,
    dim: usize,
    descending: bool,
) -> Native<CannTensor> {
    argsort(x, dim, descending, IntDType::I64)
}

/// The `k` greatest elements in order.
pub(in super::super) fn topk(x: &CannTensor, dim: usize, k: usize) -> Native<CannTensor> {
    Ok(x.with(op::top_k(x.on(), &x.tensor, k, dim, true)?.0))
}

/// The `k` greatest elements in order and their places.
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

/// [`topk_with_places`] of integers, with places in the type that the host gives.
pub(in super::super) fn int_topk_with_places(
    x: &CannTensor,
    dim: usize,
    k: usize,
) -> Native<(CannTensor, CannTensor)> {
    topk_with_places(x, dim, k, IntDType::I64)
}

/// The places of the `k` greatest elements in order.
pub(in super::super) fn argtopk(
    x: &CannTensor,
    dim: usize,
    k: usize,
    out: impl Into<DType>,
) -> Native<CannTensor> {
    Ok(topk_with_places(x, dim, k, out)?.1)
}

/// [`argtopk`] of integers, in the type that the host gives.
pub(in super::super) fn int_argtopk(x: &CannTensor, dim: usize, k: usize) -> Native<CannTensor> {
    argtopk(x, dim, k, IntDType::I64)
}

/// Dimensions in reverse.
pub(in super::super) fn flip(x: &CannTensor, dims: &[usize]) -> Native<CannTensor> {
    if dims.is_empty() {
        return Ok(x.clone());
    }
    Ok(x.with(rearrange::flip(x.on(), &x.tensor, dims)?))
}
