use crate::npu::backend::{BASE, give, take};
use crate::npu::limits::ask_slice;
use crate::ops::glu::{self, Backward, GluKernel, Projected, Tensors, npu};
use crate::ops::operands::checked;
use crate::registry::{Implementation, Launch};
use crate::semantics::{GluKey, SemanticsKey};
use burn_cann::backend::{CannBackend, CannTensor};

pub(crate) const IMPLEMENTATION: Implementation = Implementation {
    accepts: |key| matches!(key, SemanticsKey::Glu(_)),
    limits: Some(|key, tensors| {
        let key: GluKey = key.known();
        ask_slice(tensors, |platform, specs| {
            let tensors = match specs {
                [gate, up] => npu::Tensors::Separate { gate, up },
                specs => npu::Tensors::Packed(&specs[0]),
            };
            npu::decide(platform, &tensors, key)
        })
    }),
    launch: Launch::Glu(glu::launch),
    ..BASE
};

fn tensors(operands: &Tensors<CannBackend>) -> Projected<burn_cann::Tensor> {
    let projected = operands.projected();
    projected.map(|tensor| tensor.tensor().clone())
}

impl GluKernel for CannBackend {
    fn glu_forward(operands: Tensors<Self>) -> CannTensor {
        checked(operands.dtype());
        let (settings, key) = (operands.settings(), operands.key());
        let stream = operands.projected().first().stream();
        give(npu::forward(stream, &tensors(&operands), settings, key))
    }

    fn glu_backward(backward: Backward<CannTensor>) -> Projected<CannTensor> {
        let operands = backward.operands();
        let gradients = npu::backward(
            operands.projected().first().stream(),
            backward.dy().tensor(),
            &tensors(operands),
            operands.settings(),
            operands.key(),
        );
        take(gradients).map(|tensor| give(Ok(tensor)))
    }
}
