//! Selecting and scattering by indices, and embeddings.
//!
//! Burn's indices may be of any integer type; the device's are of 32 or 64 bits. An index out of range is not
//! found before the device has it, while the host's operations panic: it is told by the next read.

use burn_backend::IntDType;
use burn_backend::tensor::IndexingUpdateOp;

use super::super::error::{Declined, Native};
use super::super::tensor::CannTensor;
use super::super::view;
use super::copy;
use crate::ops::index::{self, Scattered};
use crate::{DType, Tensor};

/// Indices of a type that the device takes.
fn indices(tensor: &CannTensor) -> Native<Tensor> {
    match tensor.tensor.dtype() {
        DType::I32 | DType::I64 => Ok(tensor.tensor.clone()),
        _ => Ok(copy::cast(tensor, IntDType::I64)?.tensor),
    }
}

/// The rows along `dim` that indices name.
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

/// The elements along `dim` that indices name.
pub(in super::super) fn gather(
    dim: usize,
    x: &CannTensor,
    places: &CannTensor,
) -> Native<CannTensor> {
    Ok(x.with(index::gather(x.on(), &x.tensor, dim, &indices(places)?)?))
}

/// What CANN does of what Burn wants of an element and a new one.
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

/// Elements put where [`gather`] would take them from.
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

/// Rows put where [`select`] would take them from.
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

/// Indices of rows as indices of the elements of `value`, repeated without a copy.
fn as_rows(places: &CannTensor, dim: usize, value: &CannTensor) -> Native<CannTensor> {
    let mut column = vec![1; value.sizes().len()];
    column[dim] = places.tensor.spec().len();
    let column = view::reshape(places, column.into())?;
    view::expand(&column, value.sizes().to_vec().into())
}

/// [`scatter`] of truth values: true where one is.
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

/// [`select_assign`] of truth values: true where one is.
pub(in super::super) fn select_or(
    x: &CannTensor,
    dim: usize,
    places: &CannTensor,
    value: &CannTensor,
) -> Native<CannTensor> {
    scatter_or(dim, x, &as_rows(places, dim, value)?, value)
}

/// The rows of a table.
pub(in super::super) fn embedding(table: &CannTensor, places: &CannTensor) -> Native<CannTensor> {
    Ok(table.with(index::embedding(
        table.on(),
        &table.tensor,
        &indices(places)?,
    )?))
}

/// The gradient of a table.
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
