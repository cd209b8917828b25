use super::{give, ints, take};
use crate::ops::moe::permute::operands::kernel_dtype;
use crate::ops::moe::permute::{
    PermuteBackend, PermuteKernel, SortTensors, SpreadTensors, SpreadWeighed, SumTensors,
    WeighBackward, WeighTensors, npu,
};
use burn_cann::backend::{CannBackend, CannTensor};

impl PermuteBackend for CannBackend {
    fn sort_slots(slots: SortTensors<Self>) -> (CannTensor, CannTensor) {
        let indices = slots.indices();
        let (row_map, counts) = take(npu::sort_slots(
            indices.stream(),
            indices.tensor(),
            slots.num_experts(),
            slots.rows(),
            ints(slots.integers()),
        ));
        (give(Ok(row_map)), give(Ok(counts)))
    }

    fn spread(operands: SpreadTensors<Self>) -> CannTensor {
        kernel_dtype(operands.dtype());
        let (tokens, row_map) = (operands.tokens(), operands.row_map().tensor());
        give(npu::spread(
            tokens.stream(),
            tokens.tensor(),
            row_map,
            operands.rows(),
        ))
    }

    fn sum_rows(operands: SumTensors<Self>) -> CannTensor {
        kernel_dtype(operands.dtype());
        let (rows, row_map) = (operands.rows(), operands.row_map().tensor());
        give(npu::sum_rows(rows.stream(), rows.tensor(), row_map))
    }

    fn weigh_rows(operands: WeighTensors<Self>) -> CannTensor {
        kernel_dtype(operands.dtype());
        let (row_map, probs) = (operands.row_map().tensor(), operands.probs().tensor());
        let rows = operands.rows();
        give(npu::weigh_rows(
            rows.stream(),
            rows.tensor(),
            row_map,
            probs,
        ))
    }
}

impl PermuteKernel for CannBackend {
    fn weigh_rows_d_rows(operands: SpreadWeighed<CannTensor, CannTensor>) -> CannTensor {
        kernel_dtype(operands.dtype());
        let (row_map, probs) = (operands.row_map().tensor(), operands.probs().tensor());
        let dy = operands.dy();
        give(npu::weigh_rows_d_rows(
            dy.stream(),
            dy.tensor(),
            row_map,
            probs,
            operands.rows(),
        ))
    }

    fn weigh_rows_backward(
        operands: WeighBackward<CannTensor, CannTensor>,
    ) -> (CannTensor, CannTensor) {
        kernel_dtype(operands.dtype());
        let (row_map, probs) = (operands.row_map().tensor(), operands.probs().tensor());
        let dy = operands.dy();
        let (d_rows, d_probs) = take(npu::weigh_rows_backward(
            dy.stream(),
            dy.tensor(),
            operands.rows().tensor(),
            row_map,
            probs,
        ));
        (give(Ok(d_rows)), give(Ok(d_probs)))
    }
}
