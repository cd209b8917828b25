//! Selecting and scattering by indices, and embeddings.
//!
//! Burn's indices may have any integer dtype; the device takes 32 or 64 bits. The host's operations panic on an index
//! out of range. Here only the device sees it, so the next read reports it.

use burn_backend::IntDType;
use burn_backend::tensor::IndexingUpdateOp;

use super::super::error::{Declined, Native};
use super::super::tensor::CannTensor;
use super::super::view;
use super::copy;
use crate::ops::index::{self, Scattered};
use crate::{DType, Tensor};

/// Returns indices with a dtype that the device takes.
fn indices(tensor: &CannTensor) -> Native<Tensor> {
    match tensor.tensor.dtype() {
        DType::I32 | DType::I64 => Ok(tensor.tensor.clone()),
        _ => Ok(copy::cast(tensor, IntDType::I64)?.tensor),
    }
}

/// Returns the rows along `dim` at the indices.
pub(in super::super) fn select(
    x: &CannTensor,
    dim: usize,
    places: &CannTensor,
) -> Native<CannTensor> {
    Ok(x.with(index::index_select(
        x.on(),
        &x.tensor,
        dim,
        &indices(places)?,
    )?))
}

/// Returns the elements along `dim` at the indices.
pub(in super::super) fn gather(
    dim: usize,
    x: &CannTensor,
    places: &CannTensor,
) -> Native<CannTensor> {
    Ok(x.with(index::gather(x.on(), &x.tensor, dim, &indices(places)?)?))
}

/// Returns CANN's way of combining an element with a new one.
fn how(update: IndexingUpdateOp) -> Native<Scattered> {
    match update {
        IndexingUpdateOp::Assign => Ok(Scattered::Replace),
        IndexingUpdateOp::Add => Ok(Scattered::Add),
        IndexingUpdateOp::Mul => Ok(Scattered::Multiply),
        IndexingUpdateOp::Min | IndexingUpdateOp::Max => Err(Declined::because(
            "no operator scatters the least or greatest",
        )),
    }
}

/// Puts elements where [`gather`] would take them from.
pub(in super::super) fn scatter(
    dim: usize,
    x: &CannTensor,
    places: &CannTensor,
    value: &CannTensor,
    update: IndexingUpdateOp,
) -> Native<CannTensor> {
    let (how, places) = (how(update)?, indices(places)?);
    Ok(x.with(index::scatter(
        x.on(),
        &x.tensor,
        dim,
        &places,
        &value.tensor,
        how,
    )?))
}

/// Puts rows where [`select`] would take them from.
pub(in super::super) fn select_assign(
    x: &CannTensor,
    dim: usize,
    places: &CannTensor,
    value: &CannTensor,
    update: IndexingUpdateOp,
) -> Native<CannTensor> {
    if let IndexingUpdateOp::Add = update {
        let places = indices(places)?;
        return Ok(x.with(index::index_add(
            x.on(),
            &x.tensor,
            dim,
            &places,
            &value.tensor,
            1i64,
        )?));
    }
    scatter(dim, x, &as_rows(places, dim, value)?, value, update)
}

/// Expands indices of rows to indices of the elements of `value`, without a copy.
fn as_rows(places: &CannTensor, dim: usize, value: &CannTensor) -> Native<CannTensor> {
    let mut column = vec![1; value.sizes().len()];
    column[dim] = places.tensor.spec().len();
    let column = view::reshape(places, column.into())?;
    view::expand(&column, value.sizes().to_vec().into())
}

/// Computes [`scatter`] of booleans: the logical or of an element and the new ones.
pub(in super::super) fn scatter_or(
    dim: usize,
    x: &CannTensor,
    places: &CannTensor,
    value: &CannTensor,
) -> Native<CannTensor> {
    let [counts, more] = [x, value].map(|tensor| copy::cast(tensor, IntDType::I32));
    let sums = scatter(dim, &counts?, places, &more?, IndexingUpdateOp::Add)?;
    copy::cast(&sums, x.dtype)
}

/// Computes [`select_assign`] of booleans: the logical or of an element and the new ones.
pub(in super::super) fn select_or(
    x: &CannTensor,
    dim: usize,
    places: &CannTensor,
    value: &CannTensor,
) -> Native<CannTensor> {
    scatter_or(dim, x, &as_rows(places, dim, value)?, value)
}

/// Returns the rows of a table at the indices.
pub(in super::super) fn embedding(table: &CannTensor, places: &CannTensor) -> Native<CannTensor> {
    Ok(table.with(index::embedding(
        table.on(),
        &table.tensor,
        &indices(places)?,
    )?))
}

/// Returns the gradient of a table.
pub(in super::super) fn embedding_backward(
    table: &CannTensor,
    grad: &CannTensor,
    places: &CannTensor,
) -> Native<CannTensor> {
    let rows = table.sizes()[0];
    let places = indices(places)?;
    Ok(table.with(index::embedding_backward(
        table.on(),
        &grad.tensor,
        &places,
        rows,
        None,
    )?))
}
