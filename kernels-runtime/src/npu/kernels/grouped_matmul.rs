use super::{give, take};
use crate::ops::moe::Many;
use crate::ops::moe::grouped_matmul::{GroupedMatmulKernel, npu};
use crate::semantics::ExpertLayout;
use burn_cann::backend::{CannBackend, CannTensor};

fn weights(weights: &Many<CannBackend>) -> Vec<burn_cann::Tensor> {
    super::groups(weights).into_iter().flatten().collect()
}

impl GroupedMatmulKernel for CannBackend {
    fn grouped_matmul_forward(
        x: CannTensor,
        counts: CannTensor,
        given: Many<Self>,
        layout: ExpertLayout,
    ) -> CannTensor {
        let (counts, weights) = (counts.tensor(), weights(&given));
        give(npu::forward(
            x.stream(),
            x.tensor(),
            counts,
            &weights,
            layout,
        ))
    }

    fn grouped_matmul_backward(
        dy: CannTensor,
        x: CannTensor,
        counts: CannTensor,
        given: Many<Self>,
        layout: ExpertLayout,
        x_gradient: bool,
        wanted: Vec<Vec<bool>>,
    ) -> (Option<CannTensor>, Vec<Vec<Option<CannTensor>>>) {
        let flat: Vec<bool> = wanted.into_iter().flatten().collect();
        let (dx, dw) = take(npu::backward(
            x.stream(),
            dy.tensor(),
            x.tensor(),
            counts.tensor(),
            &weights(&given),
            layout,
            x_gradient,
            &flat,
        ));
        let back = |tensor: Option<_>| tensor.map(|tensor| give(Ok(tensor)));
        // There is one group.
        (back(dx), vec![dw.into_iter().map(back).collect()])
    }
}
