//! The remote moving of tokens to the rows of experts and back. Float tensors are sent first, in the order of
//! their names in the operands, then integer tensors.

use crate::ops::moe::permute::{
    PermuteBackend, PermuteKernel, Sort, SortTensors, Spread, SpreadTensors, SpreadWeighed, Sum,
    SumTensors, Weigh, WeighBackward, WeighTensors,
};
use crate::remote::Kernels;
use crate::remote::call::{Like, like, send};
use burn::backend::ir::BackendIr;
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Remote, Shape, TensorMetadata};

const SORT: &str = "burn-kernels/sort_slots";
const SPREAD: &str = "burn-kernels/spread";
const SUM: &str = "burn-kernels/sum_rows";
const WEIGH: &str = "burn-kernels/weigh_rows";
const WEIGH_D_ROWS: &str = "burn-kernels/weigh_rows_d_rows";
const WEIGH_BACKWARD: &str = "burn-kernels/weigh_rows_backward";

/// What the slots of rows and the sums over rows take, which are on the host on a CPU. Rows without elements have them too.
const BYTES_OF_A_ROW: usize = 24;

/// Adds the server's handlers of the operations.
pub(crate) fn handlers<B: BackendIr + PermuteKernel>(kernels: Kernels<B>) -> Kernels<B> {
    kernels
        .handle(SORT, |call, (num_experts, rows): (usize, usize)| {
            call.expect_size(num_experts)?;
            let ints = call.ints_of_result()?;
            let slots: SortTensors<B> = Sort::new(call.int()?, num_experts, rows, ints)?;
            call.expect(&sorted(&slots))?;
            let (row_map, counts) = B::sort_slots(slots);
            call.give_int(row_map)?;
            call.give_int(counts)
        })
        .handle(SPREAD, |call, rows: usize| {
            call.expect_size(rows)?;
            call.room(rows.saturating_mul(BYTES_OF_A_ROW));
            let operands = Spread::of_gradient(call.float()?, call.int()?, rows)?;
            let result = (operands.result(), operands.dtype()?);
            call.answer([result], || [B::spread(operands)])
        })
        .handle(SUM, |call, (): ()| {
            let operands = Sum::new(call.float()?, call.int()?)?;
            let result = (operands.result(), operands.dtype()?);
            call.answer([result], || [B::sum_rows(operands)])
        })
        .handle(WEIGH, |call, (): ()| {
            let (rows, probs) = (call.float()?, call.float()?);
            let operands = Weigh::new(rows, call.int()?, probs)?;
            let result = (operands.result(), operands.dtype()?);
            call.answer([result], || [B::weigh_rows(operands)])
        })
        .handle(WEIGH_D_ROWS, |call, rows: usize| {
            call.expect_size(rows)?;
            call.room(rows.saturating_mul(BYTES_OF_A_ROW));
            let (dy, probs) = (call.float()?, call.float()?);
            let operands = SpreadWeighed::new(dy, call.int()?, probs, rows)?;
            let result = (operands.result(), operands.dtype()?);
            call.answer([result], || [B::weigh_rows_d_rows(operands)])
        })
        .handle(WEIGH_BACKWARD, |call, (): ()| {
            let (dy, rows, probs) = (call.float()?, call.float()?, call.float()?);
            let operands = WeighBackward::new(dy, rows, call.int()?, probs)?;
            operands.dtype()?;
            let count = operands.rows().shape()[0];
            call.room(count.saturating_mul(BYTES_OF_A_ROW));
            let results = [like(operands.rows()), like(operands.probs())];
            call.answer(results, || B::weigh_rows_backward(operands).into())
        })
}

impl PermuteBackend for Remote {
    fn sort_slots(slots: SortTensors<Self>) -> (IntTensor<Self>, IntTensor<Self>) {
        let numbers = (slots.num_experts(), slots.rows());
        let inputs = slots.ints().cloned();
        send(SORT, inputs, sorted(&slots), &numbers).into()
    }

    fn spread(operands: SpreadTensors<Self>) -> FloatTensor<Self> {
        let result = (operands.result(), operands.tokens().dtype());
        let inputs = operands.floats().chain(operands.ints()).cloned();
        let [y] = send(SPREAD, inputs, [result], &operands.rows());
        y
    }

    fn sum_rows(operands: SumTensors<Self>) -> FloatTensor<Self> {
        let result = (operands.result(), operands.rows().dtype());
        let inputs = operands.floats().chain(operands.ints()).cloned();
        let [y] = send(SUM, inputs, [result], &());
        y
    }

    fn weigh_rows(operands: WeighTensors<Self>) -> FloatTensor<Self> {
        let result = (operands.result(), operands.rows().dtype());
        let inputs = operands.floats().chain(operands.ints()).cloned();
        let [y] = send(WEIGH, inputs, [result], &());
        y
    }
}

impl PermuteKernel for Remote {
    fn weigh_rows_d_rows(
        operands: SpreadWeighed<FloatTensor<Self>, IntTensor<Self>>,
    ) -> FloatTensor<Self> {
        let result = (operands.result(), operands.dy().dtype());
        let inputs = operands.floats().chain(operands.ints()).cloned();
        let [d_rows] = send(WEIGH_D_ROWS, inputs, [result], &operands.rows());
        d_rows
    }

    fn weigh_rows_backward(
        operands: WeighBackward<FloatTensor<Self>, IntTensor<Self>>,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        let results = [like(operands.rows()), like(operands.probs())];
        let inputs = operands.floats().chain(operands.ints()).cloned();
        send(WEIGH_BACKWARD, inputs, results, &()).into()
    }
}

/// Describes the row map and the counts.
fn sorted<F, I: TensorMetadata>(slots: &Sort<F, I>) -> [Like; 2] {
    let ints = slots.integers().into();
    [
        (slots.indices().shape(), ints),
        (Shape::new([slots.num_experts()]), ints),
    ]
}
