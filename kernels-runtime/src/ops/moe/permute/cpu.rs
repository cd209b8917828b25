//! Moving tokens to rows and back on Flex: [`kernels_simd::moe::permute`] on its tensors.

use super::{
    PermuteBackend, PermuteKernel, SortTensors, SpreadTensors, SpreadWeighed, SumTensors,
    WeighBackward, WeighTensors,
};
use crate::cpu::{tensor, view};
use crate::ops::moe::integers;
use crate::ops::operands::checked;
use burn::backend::flex::FlexTensor;
use burn::backend::{Flex, Shape};
use burn::tensor::DType;
use kernels_simd::moe::permute::{RowMap, counts, gather, gather_backward, row_map, spread};

impl PermuteBackend for Flex {
    fn sort_slots(slots: SortTensors<Self>) -> (FlexTensor, FlexTensor) {
        let sizes = dims(slots.indices());
        let (experts, ints) = (slots.num_experts(), slots.integers());
        let groups = integers::sort(slots.indices(), experts);
        (
            integers::tensor(row_map(&groups), sizes, ints),
            integers::tensor(counts(&groups, slots.rows()), [experts], ints),
        )
    }

    fn spread(operands: SpreadTensors<Self>) -> FlexTensor {
        let dtype = checked(operands.dtype());
        let (shape, tokens) = (operands.result(), operands.tokens());
        spread_in(dtype, shape, tokens, operands.row_map(), None)
    }

    fn sum_rows(operands: SumTensors<Self>) -> FlexTensor {
        checked(operands.dtype());
        let (shape, rows) = (operands.result(), operands.rows());
        gather_in(shape, rows, operands.row_map(), None)
    }

    fn weigh_rows(operands: WeighTensors<Self>) -> FlexTensor {
        checked(operands.dtype());
        let (shape, rows, probs) = (operands.result(), operands.rows(), operands.probs());
        gather_in(shape, rows, operands.row_map(), Some(probs))
    }
}

impl PermuteKernel for Flex {
    fn weigh_rows_d_rows(operands: SpreadWeighed<FlexTensor, FlexTensor>) -> FlexTensor {
        let dtype = checked(operands.dtype());
        let (shape, dy, probs) = (operands.result(), operands.dy(), operands.probs());
        spread_in(dtype, shape, dy, operands.row_map(), Some(probs))
    }

    fn weigh_rows_backward(
        operands: WeighBackward<FlexTensor, FlexTensor>,
    ) -> (FlexTensor, FlexTensor) {
        let dtype = checked(operands.dtype());
        let (rows, row_map, probs) = (operands.rows(), operands.row_map(), operands.probs());
        let shape = |tensor: &FlexTensor| tensor.layout().shape().clone();
        if dims(rows)[1] == 0 {
            // As in `spread_in`.
            return (
                FlexTensor::empty(shape(rows), dtype),
                FlexTensor::zeros(shape(probs), probs.dtype()),
            );
        }
        let [dy, of, weights] = [operands.dy(), rows, probs].map(FlexTensor::to_contiguous);
        let entries = integers::read(row_map);
        let map = RowMap::new(&entries, dims(row_map));
        let found = gather_backward(&view(&dy), &view(&of), map, &view(&weights));
        (
            tensor(found.rows, shape(rows)),
            tensor(found.probs, shape(probs)),
        )
    }
}

fn dims(tensor: &FlexTensor) -> [usize; 2] {
    tensor.layout().shape().dims()
}

fn spread_in(
    dtype: DType,
    shape: Shape,
    tokens: &FlexTensor,
    row_map: &FlexTensor,
    probs: Option<&FlexTensor>,
) -> FlexTensor {
    let [rows, width] = shape.dims();
    if width == 0 {
        // Rows without elements take no memory, so there may be more than have a slot in an inverse.
        return FlexTensor::empty(shape, dtype);
    }
    let (tokens, probs) = (tokens.to_contiguous(), probs.map(FlexTensor::to_contiguous));
    let entries = integers::read(row_map);
    let map = RowMap::new(&entries, dims(row_map));
    let y = spread(&view(&tokens), map, probs.as_ref().map(view).as_ref(), rows);
    tensor(y, shape)
}

fn gather_in(
    shape: Shape,
    rows: &FlexTensor,
    row_map: &FlexTensor,
    probs: Option<&FlexTensor>,
) -> FlexTensor {
    let (rows, probs) = (rows.to_contiguous(), probs.map(FlexTensor::to_contiguous));
    let entries = integers::read(row_map);
    let map = RowMap::new(&entries, dims(row_map));
    let y = gather(&view(&rows), map, probs.as_ref().map(view).as_ref());
    tensor(y, shape)
}
