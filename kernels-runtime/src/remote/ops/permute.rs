//! Moving tokens to the rows of experts and back. Tensors travel in the order of the functions'
//! parameters.

use crate::ops::moe::permute::{PermuteBackend, PermuteKernel};
use crate::remote::call::{Call, exactly, like, send};
use crate::remote::wire::{Malformed, Writer};
use burn::backend::ir::BackendIr;
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Remote, Shape, TensorMetadata};
use burn::tensor::IntDType;

pub(super) const SORT: &str = "burn-kernels/sort_slots";
pub(super) const SPREAD: &str = "burn-kernels/spread";
pub(super) const SUM: &str = "burn-kernels/sum_rows";
pub(super) const WEIGH: &str = "burn-kernels/weigh_rows";
pub(super) const WEIGH_D_ROWS: &str = "burn-kernels/weigh_rows_d_rows";
pub(super) const WEIGH_BACKWARD: &str = "burn-kernels/weigh_rows_backward";

impl PermuteBackend for Remote {
    fn sort_slots(
        indices: IntTensor<Self>,
        num_experts: usize,
        rows: usize,
        ints: IntDType,
    ) -> (IntTensor<Self>, IntTensor<Self>) {
        let row_map = (indices.shape(), ints.into());
        let counts = (Shape::new([num_experts]), ints.into());
        let numbers = Writer::new().number(num_experts).number(rows);
        let [row_map, counts] = exactly(send(SORT, vec![indices], vec![row_map, counts], numbers));
        (row_map, counts)
    }

    fn spread(
        tokens: FloatTensor<Self>,
        row_map: IntTensor<Self>,
        rows: usize,
    ) -> FloatTensor<Self> {
        let width = tokens.shape()[1];
        let outputs = vec![(Shape::new([rows, width]), tokens.dtype())];
        let numbers = Writer::new().number(rows);
        let [y] = exactly(send(SPREAD, vec![tokens, row_map], outputs, numbers));
        y
    }

    fn sum_rows(rows: FloatTensor<Self>, row_map: IntTensor<Self>) -> FloatTensor<Self> {
        let shape = Shape::new([row_map.shape()[0], rows.shape()[1]]);
        let outputs = vec![(shape, rows.dtype())];
        let [y] = exactly(send(SUM, vec![rows, row_map], outputs, Writer::new()));
        y
    }

    fn weigh_rows(
        rows: FloatTensor<Self>,
        row_map: IntTensor<Self>,
        probs: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        let shape = Shape::new([row_map.shape()[0], rows.shape()[1]]);
        let outputs = vec![(shape, rows.dtype())];
        let inputs = vec![rows, row_map, probs];
        let [y] = exactly(send(WEIGH, inputs, outputs, Writer::new()));
        y
    }
}

impl PermuteKernel for Remote {
    fn weigh_rows_d_rows(
        dy: FloatTensor<Self>,
        row_map: IntTensor<Self>,
        probs: FloatTensor<Self>,
        rows: usize,
    ) -> FloatTensor<Self> {
        let outputs = vec![(Shape::new([rows, dy.shape()[1]]), dy.dtype())];
        let numbers = Writer::new().number(rows);
        let [d_rows] = exactly(send(
            WEIGH_D_ROWS,
            vec![dy, row_map, probs],
            outputs,
            numbers,
        ));
        d_rows
    }

    fn weigh_rows_backward(
        dy: FloatTensor<Self>,
        rows: FloatTensor<Self>,
        row_map: IntTensor<Self>,
        probs: FloatTensor<Self>,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        let outputs = vec![like(&rows), like(&probs)];
        let inputs = vec![dy, rows, row_map, probs];
        let [d_rows, d_probs] = exactly(send(WEIGH_BACKWARD, inputs, outputs, Writer::new()));
        (d_rows, d_probs)
    }
}

pub(super) fn sort_slots<B>(call: &mut Call<'_, B>) -> Result<(), Malformed>
where
    B: BackendIr + PermuteKernel,
{
    let (num_experts, rows) = (call.size_of_result()?, call.scalars.number()?);
    let ints = super::router::ints(call.last_output())?;
    let (row_map, counts) = B::sort_slots(call.int()?, num_experts, rows, ints);
    call.give_int(row_map)?;
    call.give_int(counts)
}

pub(super) fn spread<B>(call: &mut Call<'_, B>) -> Result<(), Malformed>
where
    B: BackendIr + PermuteKernel,
{
    let rows = call.size_of_result()?;
    let y = B::spread(call.float()?, call.int()?, rows);
    call.give(y)
}

pub(super) fn sum_rows<B>(call: &mut Call<'_, B>) -> Result<(), Malformed>
where
    B: BackendIr + PermuteKernel,
{
    let y = B::sum_rows(call.float()?, call.int()?);
    call.give(y)
}

pub(super) fn weigh_rows<B>(call: &mut Call<'_, B>) -> Result<(), Malformed>
where
    B: BackendIr + PermuteKernel,
{
    let y = B::weigh_rows(call.float()?, call.int()?, call.float()?);
    call.give(y)
}

pub(super) fn weigh_rows_d_rows<B>(call: &mut Call<'_, B>) -> Result<(), Malformed>
where
    B: BackendIr + PermuteKernel,
{
    let rows = call.size_of_result()?;
    let d_rows = B::weigh_rows_d_rows(call.float()?, call.int()?, call.float()?, rows);
    call.give(d_rows)
}

pub(super) fn weigh_rows_backward<B>(call: &mut Call<'_, B>) -> Result<(), Malformed>
where
    B: BackendIr + PermuteKernel,
{
    let (dy, rows) = (call.float()?, call.float()?);
    let (d_rows, d_probs) = B::weigh_rows_backward(dy, rows, call.int()?, call.float()?);
    call.give(d_rows)?;
    call.give(d_probs)
}
