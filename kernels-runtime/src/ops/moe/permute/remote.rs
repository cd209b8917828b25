//! Moving tokens to the rows of experts and back. Tensors travel as those of floats, in the order of
//! their names in the operands, and then those of integers.

use crate::ops::moe::permute::{
    PermuteBackend, PermuteKernel, Sort, SortTensors, Spread, SpreadTensors, SpreadWeighed, Sum,
    SumTensors, Weigh, WeighBackward, WeighTensors,
};
use crate::remote::call::{Call, Like, exactly, like, send};
use crate::remote::wire::{Malformed, Writer};
use crate::remote::{Host, Kernels};
use burn::backend::ir::BackendIr;
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Remote, Shape, TensorMetadata};

const SORT: &str = "burn-kernels/sort_slots";
const SPREAD: &str = "burn-kernels/spread";
const SUM: &str = "burn-kernels/sum_rows";
const WEIGH: &str = "burn-kernels/weigh_rows";
const WEIGH_D_ROWS: &str = "burn-kernels/weigh_rows_d_rows";
const WEIGH_BACKWARD: &str = "burn-kernels/weigh_rows_backward";

/// Adds what a server does of it.
pub(crate) fn handlers<B: Host + PermuteKernel>(kernels: Kernels<B>) -> Kernels<B> {
    kernels
        .handle(SORT, sort_slots)
        .handle(SPREAD, spread)
        .handle(SUM, sum_rows)
        .handle(WEIGH, weigh_rows)
        .handle(WEIGH_D_ROWS, weigh_rows_d_rows)
        .handle(WEIGH_BACKWARD, weigh_rows_backward)
}

impl PermuteBackend for Remote {
    fn sort_slots(slots: SortTensors<Self>) -> (IntTensor<Self>, IntTensor<Self>) {
        let numbers = Writer::new()
            .number(slots.num_experts())
            .number(slots.rows());
        let inputs = vec![slots.indices().clone()];
        let [row_map, counts] = exactly(send(SORT, inputs, sorted(&slots), numbers));
        (row_map, counts)
    }

    fn spread(operands: SpreadTensors<Self>) -> FloatTensor<Self> {
        let outputs = vec![(operands.result(), operands.tokens().dtype())];
        let numbers = Writer::new().number(operands.rows());
        let inputs = operands.floats().chain(operands.ints()).cloned().collect();
        let [y] = exactly(send(SPREAD, inputs, outputs, numbers));
        y
    }

    fn sum_rows(operands: SumTensors<Self>) -> FloatTensor<Self> {
        let outputs = vec![(operands.result(), operands.rows().dtype())];
        let inputs = operands.floats().chain(operands.ints()).cloned().collect();
        let [y] = exactly(send(SUM, inputs, outputs, Writer::new()));
        y
    }

    fn weigh_rows(operands: WeighTensors<Self>) -> FloatTensor<Self> {
        let outputs = vec![(operands.result(), operands.rows().dtype())];
        let inputs = operands.floats().chain(operands.ints()).cloned().collect();
        let [y] = exactly(send(WEIGH, inputs, outputs, Writer::new()));
        y
    }
}

impl PermuteKernel for Remote {
    fn weigh_rows_d_rows(
        operands: SpreadWeighed<FloatTensor<Self>, IntTensor<Self>>,
    ) -> FloatTensor<Self> {
        let outputs = vec![(operands.result(), operands.dy().dtype())];
        let numbers = Writer::new().number(operands.rows());
        let inputs = operands.floats().chain(operands.ints()).cloned().collect();
        let [d_rows] = exactly(send(WEIGH_D_ROWS, inputs, outputs, numbers));
        d_rows
    }

    fn weigh_rows_backward(
        operands: WeighBackward<FloatTensor<Self>, IntTensor<Self>>,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        let outputs = vec![like(operands.rows()), like(operands.probs())];
        let inputs = operands.floats().chain(operands.ints()).cloned().collect();
        let [d_rows, d_probs] = exactly(send(WEIGH_BACKWARD, inputs, outputs, Writer::new()));
        (d_rows, d_probs)
    }
}

/// The row map and the counts.
fn sorted<F, I: TensorMetadata>(slots: &Sort<F, I>) -> Vec<Like> {
    let ints = slots.integers().into();
    vec![
        (slots.indices().shape(), ints),
        (Shape::new([slots.num_experts()]), ints),
    ]
}

fn sort_slots<B>(call: &mut Call<'_, B>) -> Result<(), Malformed>
where
    B: BackendIr + PermuteKernel,
{
    let (num_experts, rows) = (call.size_of_result()?, call.scalars.number()?);
    let ints = crate::ops::moe::router::remote::ints(call.last_output())?;
    let slots: SortTensors<B> = Sort::new(call.int()?, num_experts, rows, ints)?;
    call.expect(&sorted(&slots))?;
    let (row_map, counts) = B::sort_slots(slots);
    call.give_int(row_map)?;
    call.give_int(counts)
}

fn spread<B>(call: &mut Call<'_, B>) -> Result<(), Malformed>
where
    B: BackendIr + PermuteKernel,
{
    let rows = call.size_of_result()?;
    let operands = Spread::new(call.float()?, call.int()?, rows)?;
    call.expect(&[(operands.result(), operands.dtype()?)])?;
    call.give(B::spread(operands))
}

fn sum_rows<B>(call: &mut Call<'_, B>) -> Result<(), Malformed>
where
    B: BackendIr + PermuteKernel,
{
    let operands = Sum::new(call.float()?, call.int()?)?;
    call.expect(&[(operands.result(), operands.dtype()?)])?;
    call.give(B::sum_rows(operands))
}

fn weigh_rows<B>(call: &mut Call<'_, B>) -> Result<(), Malformed>
where
    B: BackendIr + PermuteKernel,
{
    let (rows, probs) = (call.float()?, call.float()?);
    let operands = Weigh::new(rows, call.int()?, probs)?;
    call.expect(&[(operands.result(), operands.dtype()?)])?;
    call.give(B::weigh_rows(operands))
}

fn weigh_rows_d_rows<B>(call: &mut Call<'_, B>) -> Result<(), Malformed>
where
    B: BackendIr + PermuteKernel,
{
    let rows = call.size_of_result()?;
    let (dy, probs) = (call.float()?, call.float()?);
    let operands = SpreadWeighed::new(dy, call.int()?, probs, rows)?;
    call.expect(&[(operands.result(), operands.dtype()?)])?;
    call.give(B::weigh_rows_d_rows(operands))
}

fn weigh_rows_backward<B>(call: &mut Call<'_, B>) -> Result<(), Malformed>
where
    B: BackendIr + PermuteKernel,
{
    let (dy, rows, probs) = (call.float()?, call.float()?, call.float()?);
    let operands = WeighBackward::new(dy, rows, call.int()?, probs)?;
    operands.dtype()?;
    call.expect(&[like(operands.rows()), like(operands.probs())])?;
    let (d_rows, d_probs) = B::weigh_rows_backward(operands);
    call.give(d_rows)?;
    call.give(d_probs)
}
