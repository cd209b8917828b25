use crate::npu::Seen;
use crate::npu::backend::{give, take};
use crate::npu::limits::ask;
use crate::ops::moe::grouped_matmul::{
    Backward, Gradients, GroupedMatmulKernel, Operands, Tensors, npu,
};
use crate::ops::operands::checked;
use crate::reason::Reason;
use crate::semantics::ExpertLayout;
use burn::backend::DispatchTensor;
use burn_cann::backend::{CannBackend, CannTensor};
use smallvec::SmallVec;

/// Checks CANN's limits on products of rows grouped by expert.
pub(crate) fn takes(
    x: &DispatchTensor,
    counts: &DispatchTensor,
    weights: &[DispatchTensor],
    layout: ExpertLayout,
) -> Result<(), Reason> {
    let tensors: SmallVec<[_; 4]> = [x, counts].into_iter().chain(weights).collect();
    ask(&tensors, |platform, mut specs| {
        let (x, counts) = (specs.one(), specs.one());
        npu::decide(
            platform,
            &Operands::new(x, counts, specs.collect(), layout)?,
        )
    })
}

impl GroupedMatmulKernel for CannBackend {
    fn grouped_matmul_forward(operands: Tensors<Self>) -> CannTensor {
        checked(operands.dtype());
        let stream = operands.x().stream().clone();
        give(npu::forward(&stream, &operands.map(Seen::from, Seen::from)))
    }

    fn grouped_matmul_backward(
        backward: Backward<CannTensor, CannTensor>,
    ) -> Gradients<CannTensor> {
        let stream = backward.operands().x().stream().clone();
        let found = take(npu::backward(
            &stream,
            &backward.map(Seen::from, Seen::from),
        ));
        let back = |tensor: Option<_>| tensor.map(|tensor| give(Ok(tensor)));
        Gradients {
            x: back(found.x),
            weights: found.weights.into_iter().map(back).collect(),
        }
    }
}
