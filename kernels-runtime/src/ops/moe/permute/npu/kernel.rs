use crate::npu::backend::{give, ints, take};
use crate::npu::limits::ask_slice;
use crate::ops::moe::permute::{
    PermuteBackend, PermuteKernel, SortTensors, SpreadTensors, SpreadWeighed, SumTensors,
    WeighBackward, WeighTensors, npu,
};
use crate::ops::operands::checked;
use crate::reason::Reason;
use burn::backend::DispatchTensor;
use burn_cann::backend::{CannBackend, CannTensor};
use smallvec::SmallVec;

/// Asks CANN's limits of moving tokens to rows.
pub(crate) fn takes_tokens(
    tokens: &DispatchTensor,
    indices: &DispatchTensor,
    num_experts: usize,
    rows: usize,
) -> Result<(), Reason> {
    ask_slice(&[tokens, indices], |platform, specs| {
        let [tokens, indices] = specs else {
            unreachable!("as many as were given")
        };
        npu::decide_sort(platform, indices, num_experts, rows)?;
        let width = tokens.shape()[1];
        npu::decide_move(platform, tokens.dtype, width, indices, None, rows)
    })
}

/// Asks CANN's limits of adding rows up by token.
pub(crate) fn takes_rows(
    rows: &DispatchTensor,
    row_map: &DispatchTensor,
    probs: Option<&DispatchTensor>,
) -> Result<(), Reason> {
    let tensors: SmallVec<[_; 3]> = [rows, row_map].into_iter().chain(probs).collect();
    ask_slice(&tensors, |platform, specs| {
        let ([rows, row_map], probs) = (&specs[..2], specs.get(2)) else {
            unreachable!("as many as were given")
        };
        let [count, width] = [rows.shape()[0], rows.shape()[1]];
        npu::decide_move(platform, rows.dtype, width, row_map, probs, count)
    })
}

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
        checked(operands.dtype());
        let (tokens, row_map) = (operands.tokens(), operands.row_map().tensor());
        give(npu::spread(
            tokens.stream(),
            tokens.tensor(),
            row_map,
            operands.rows(),
        ))
    }

    fn sum_rows(operands: SumTensors<Self>) -> CannTensor {
        checked(operands.dtype());
        let (rows, row_map) = (operands.rows(), operands.row_map().tensor());
        give(npu::sum_rows(rows.stream(), rows.tensor(), row_map))
    }

    fn weigh_rows(operands: WeighTensors<Self>) -> CannTensor {
        checked(operands.dtype());
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
        checked(operands.dtype());
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
        checked(operands.dtype());
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
