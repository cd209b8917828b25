use super::{give, take};
use crate::ops::moe::grouped_matmul::{Backward, Gradients, GroupedMatmulKernel, Tensors, npu};
use burn_cann::backend::{CannBackend, CannTensor};

fn weights(operands: &Tensors<CannBackend>) -> Vec<burn_cann::Tensor> {
    let weights = operands.weights().iter();
    weights.map(|weight| weight.tensor().clone()).collect()
}

impl GroupedMatmulKernel for CannBackend {
    fn grouped_matmul_forward(operands: Tensors<Self>) -> CannTensor {
        operands.kernel_dtype();
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
