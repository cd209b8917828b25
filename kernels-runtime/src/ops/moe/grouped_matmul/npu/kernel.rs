use crate::npu::backend::{give, take};
use crate::npu::limits::ask_slice;
use crate::ops::moe::grouped_matmul::{Backward, Gradients, GroupedMatmulKernel, Tensors, npu};
use crate::ops::operands::checked;
use crate::reason::Reason;
use crate::semantics::ExpertLayout;
use burn::backend::DispatchTensor;
use burn_cann::Spec;
use burn_cann::backend::{CannBackend, CannTensor};
use smallvec::SmallVec;

/// Asks CANN's limits of products of rows grouped by expert.
pub(crate) fn takes(
    x: &DispatchTensor,
    counts: &DispatchTensor,
    weights: &[DispatchTensor],
    layout: ExpertLayout,
) -> Result<(), Reason> {
    let tensors: SmallVec<[_; 4]> = [x, counts].into_iter().chain(weights).collect();
    ask_slice(&tensors, |platform, specs| {
        let weights: SmallVec<[&Spec; 2]> = specs[2..].iter().collect();
        npu::decide(platform, &specs[0], &specs[1], &weights, layout)
    })
}

fn weights(operands: &Tensors<CannBackend>) -> Vec<burn_cann::Tensor> {
    let weights = operands.weights().iter();
    weights.map(|weight| weight.tensor().clone()).collect()
}

impl GroupedMatmulKernel for CannBackend {
    fn grouped_matmul_forward(operands: Tensors<Self>) -> CannTensor {
        checked(operands.dtype());
        let x = operands.x();
        give(npu::forward(
            x.stream(),
            x.tensor(),
            operands.counts().tensor(),
            &weights(&operands),
            operands.layout(),
        ))
    }

    fn grouped_matmul_backward(
        backward: Backward<CannTensor, CannTensor>,
    ) -> Gradients<CannTensor> {
        let (operands, wanted) = (backward.operands(), backward.wanted());
        let x = operands.x();
        let (dx, dw) = take(npu::backward(
            x.stream(),
            backward.dy().tensor(),
            x.tensor(),
            operands.counts().tensor(),
            &weights(operands),
            operands.layout(),
            wanted.x,
            &wanted.weights,
        ));
        let back = |tensor: Option<_>| tensor.map(|tensor| give(Ok(tensor)));
        Gradients {
            x: back(dx),
            weights: dw.into_iter().map(back).collect(),
        }
    }
}
