//! Sorting along a dimension. Indices are i64. Equal elements keep their order only where the function says so.

use super::Checked;
use super::aclnn::aclnn;
use super::check;
use super::types::NUMBERS;
use crate::dtype::DType;
use crate::error::Result;
use crate::soc::Platform;
use crate::stream::Stream;
use crate::tensor::{Spec, Tensor};

/// Checks the operand of [`sort`] and [`arg_sort`], which has numbers, and returns the spec of the values. Indices
/// have the same shape.
///
/// # Errors
///
/// Returns a refusal if CANN does not take the operands.
pub fn check(platform: &Platform, x: &Spec, dim: usize) -> Checked<Spec> {
    check::processor(platform, "Sort")?;
    check::view(("x", x), NUMBERS)?;
    check::dimension(x, dim)?;
    Ok(Spec::contiguous(x.dtype, x.shape())?)
}

/// Checks the operands of [`top_k`] as [`check`] does and returns the spec of the values, with `k` along `dim`. `k` is
/// at most the size of `dim`.
///
/// # Errors
///
/// Returns a refusal if CANN does not take the operands.
pub fn check_top_k(platform: &Platform, x: &Spec, k: usize, dim: usize) -> Checked<Spec> {
    check(platform, x, dim)?;
    check::rank(("x", x), 1, check::MOST_DIMENSIONS)?;
    let mut shape = x.shape().to_vec();
    check::at_most("k", k, shape[dim])?;
    shape[dim] = k;
    Ok(Spec::contiguous(x.dtype, shape)?)
}

/// Returns the sorted elements and their indices. Equal elements keep their order, and NaN counts as the greatest.
///
/// # Errors
///
/// Returns an error if [`check`] refuses the operands or a call fails.
pub fn sort(stream: &Stream, x: &Tensor, dim: usize, descending: bool) -> Result<(Tensor, Tensor)> {
    let spec = check(stream.device().platform(), x.spec(), dim)?;
    let out = Tensor::like(stream, &spec)?;
    let places = Tensor::empty(stream, DType::I64, spec.shape())?;
    if spec.is_empty() {
        return Ok((out, places));
    }
    let (y, indices, axis, stable) = (&out, &places, dim as i64, true);
    aclnn!(
        stream, reduce.aclnnSortGetWorkspaceSize, aclnnSort,
        tensors [x, y, indices], constants [], attributes [axis, descending],
        call(x, stable, axis, descending, y, indices), (out.clone(), places.clone()),
    )
}

/// Returns the indices of the sorted elements. Equal elements have any order.
///
/// # Errors
///
/// Returns an error if [`check`] refuses the operands or a call fails.
pub fn arg_sort(stream: &Stream, x: &Tensor, dim: usize, descending: bool) -> Result<Tensor> {
    let spec = check(stream.device().platform(), x.spec(), dim)?;
    let places = Tensor::empty(stream, DType::I64, spec.shape())?;
    if spec.is_empty() {
        return Ok(places);
    }
    let (indices, axis) = (&places, dim as i64);
    aclnn!(
        stream, reduce.aclnnArgsortGetWorkspaceSize, aclnnArgsort,
        tensors [x, indices], constants [], attributes [axis, descending],
        call(x, axis, descending, indices), places.clone(),
    )
}

/// Returns the `k` greatest or least elements, sorted, and their indices. Of equal elements it returns any.
///
/// # Errors
///
/// Returns an error if [`check_top_k`] refuses the operands or a call fails.
pub fn top_k(
    stream: &Stream,
    x: &Tensor,
    k: usize,
    dim: usize,
    greatest: bool,
) -> Result<(Tensor, Tensor)> {
    let spec = check_top_k(stream.device().platform(), x.spec(), k, dim)?;
    let out = Tensor::like(stream, &spec)?;
    let places = Tensor::empty(stream, DType::I64, spec.shape())?;
    if spec.is_empty() {
        return Ok((out, places));
    }
    let (y, indices, axis, count, sorted) = (&out, &places, dim as i64, k as i64, true);
    aclnn!(
        stream, reduce.aclnnTopkGetWorkspaceSize, aclnnTopk,
        tensors [x, y, indices], constants [], attributes [count, axis, greatest],
        call(x, count, axis, greatest, sorted, y, indices), (out.clone(), places.clone()),
    )
}
