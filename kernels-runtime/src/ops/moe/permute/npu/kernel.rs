use crate::npu::Seen;
use crate::npu::backend::{give, take};
use crate::npu::limits::ask;
use crate::ops::moe::permute::{
    PermuteBackend, PermuteKernel, Sort, SortTensors, Spread, SpreadTensors, SpreadWeighed, Sum,
    SumTensors, Weigh, WeighBackward, WeighTensors, npu,
};
use crate::ops::operands::checked;
use crate::reason::Reason;
use burn::backend::DispatchTensor;
use burn::tensor::IntDType;
use burn_cann::Spec;
use burn_cann::backend::{CannBackend, CannTensor};
use smallvec::SmallVec;

/// Checks CANN's limits on moving tokens to rows.
pub(crate) fn takes_tokens(
    tokens: &DispatchTensor,
    indices: &DispatchTensor,
    num_experts: usize,
    rows: usize,
) -> Result<(), Reason> {
    ask(&[tokens, indices], |platform, mut specs| {
        let (tokens, indices) = (specs.one(), specs.one());
        let row_map = indices.clone();
        let slots = Sort::<Seen<Spec>, _>::new(indices, num_experts, rows, IntDType::I64)?;
        npu::decide_sort(platform, &slots)?;
        npu::decide_move(platform, &Spread::new(tokens, row_map, rows)?)
    })
}

/// Checks CANN's limits on adding rows by token.
pub(crate) fn takes_rows(
    rows: &DispatchTensor,
    row_map: &DispatchTensor,
    probs: Option<&DispatchTensor>,
) -> Result<(), Reason> {
    let tensors: SmallVec<[_; 3]> = [rows, row_map].into_iter().chain(probs).collect();
    ask(&tensors, |platform, mut specs| {
        let (rows, row_map) = (specs.one(), specs.one());
        match specs.next() {
            None => npu::decide_move(platform, &Sum::new(rows, row_map)?),
            Some(probs) => npu::decide_move(platform, &Weigh::new(rows, row_map, probs)?),
        }
    })
}

impl PermuteBackend for CannBackend {
    fn sort_slots(slots: SortTensors<Self>) -> (CannTensor, CannTensor) {
        let stream = slots.indices().stream().clone();
        let slots = slots.map(Seen::<burn_cann::Tensor>::from, Seen::from);
        let (row_map, counts) = take(npu::sort_slots(&stream, &slots));
        (give(Ok(row_map)), give(Ok(counts)))
    }

    fn spread(operands: SpreadTensors<Self>) -> CannTensor {
        checked(operands.dtype());
        let stream = operands.tokens().stream().clone();
        give(npu::spread(&stream, &operands.map(Seen::from, Seen::from)))
    }

    fn sum_rows(operands: SumTensors<Self>) -> CannTensor {
        checked(operands.dtype());
        let stream = operands.rows().stream().clone();
        give(npu::sum_rows(
            &stream,
            &operands.map(Seen::from, Seen::from),
        ))
    }

    fn weigh_rows(operands: WeighTensors<Self>) -> CannTensor {
        checked(operands.dtype());
        let stream = operands.rows().stream().clone();
        give(npu::weigh_rows(
            &stream,
            &operands.map(Seen::from, Seen::from),
        ))
    }
}

impl PermuteKernel for CannBackend {
    fn weigh_rows_d_rows(operands: SpreadWeighed<CannTensor, CannTensor>) -> CannTensor {
        checked(operands.dtype());
        let stream = operands.dy().stream().clone();
        let operands = operands.map(Seen::from, Seen::from);
        give(npu::weigh_rows_d_rows(&stream, &operands))
    }

    fn weigh_rows_backward(
        operands: WeighBackward<CannTensor, CannTensor>,
    ) -> (CannTensor, CannTensor) {
        checked(operands.dtype());
        let stream = operands.dy().stream().clone();
        let operands = operands.map(Seen::from, Seen::from);
        let (d_rows, d_probs) = take(npu::weigh_rows_backward(&stream, &operands));
        (give(Ok(d_rows)), give(Ok(d_probs)))
    }
}
