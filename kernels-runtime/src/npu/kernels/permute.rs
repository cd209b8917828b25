use super::{give, ints, take};
use crate::ops::moe::permute::{PermuteBackend, PermuteKernel, npu};
use burn::tensor::IntDType;
use burn_cann::backend::{CannBackend, CannTensor};

impl PermuteBackend for CannBackend {
    fn sort_slots(
        indices: CannTensor,
        num_experts: usize,
        rows: usize,
        dtype: IntDType,
    ) -> (CannTensor, CannTensor) {
        let stream = indices.stream();
        let sorted = npu::sort_slots(stream, indices.tensor(), num_experts, rows, ints(dtype));
        let (row_map, counts) = take(sorted);
        (give(Ok(row_map)), give(Ok(counts)))
    }

    fn spread(tokens: CannTensor, row_map: CannTensor, rows: usize) -> CannTensor {
        let stream = tokens.stream();
        give(npu::spread(stream, tokens.tensor(), row_map.tensor(), rows))
    }

    fn sum_rows(rows: CannTensor, row_map: CannTensor) -> CannTensor {
        give(npu::sum_rows(
            rows.stream(),
            rows.tensor(),
            row_map.tensor(),
        ))
    }

    fn weigh_rows(rows: CannTensor, row_map: CannTensor, probs: CannTensor) -> CannTensor {
        let (row_map, probs) = (row_map.tensor(), probs.tensor());
        give(npu::weigh_rows(
            rows.stream(),
            rows.tensor(),
            row_map,
            probs,
        ))
    }
}

impl PermuteKernel for CannBackend {
    fn weigh_rows_d_rows(
        dy: CannTensor,
        row_map: CannTensor,
        probs: CannTensor,
        rows: usize,
    ) -> CannTensor {
        let (row_map, probs) = (row_map.tensor(), probs.tensor());
        let stream = dy.stream();
        give(npu::weigh_rows_d_rows(
            stream,
            dy.tensor(),
            row_map,
            probs,
            rows,
        ))
    }

    fn weigh_rows_backward(
        dy: CannTensor,
        rows: CannTensor,
        row_map: CannTensor,
        probs: CannTensor,
    ) -> (CannTensor, CannTensor) {
        let (row_map, probs) = (row_map.tensor(), probs.tensor());
        let stream = dy.stream();
        let (d_rows, d_probs) = take(npu::weigh_rows_backward(
            stream,
            dy.tensor(),
            rows.tensor(),
            row_map,
            probs,
        ));
        (give(Ok(d_rows)), give(Ok(d_probs)))
    }
}
