use super::{BASE, give, take};
use crate::npu::limits::ask;
use crate::ops::glu::{self, Backward, GluKernel, Projected, Tensors, npu};
use crate::registry::{Implementation, Launch};
use crate::semantics::SemanticsKey;
use burn_cann::Stream;
use burn_cann::backend::{CannBackend, CannTensor};

pub(crate) const IMPLEMENTATION: Implementation = Implementation {
    accepts: |key| matches!(key, SemanticsKey::Glu(_)),
    limits: Some(|key, tensors| {
        let SemanticsKey::Glu(key) = *key else {
            unreachable!("other keys are not accepted")
        };
        ask(tensors, |platform, specs| {
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

fn tensors(operands: &Tensors<CannBackend>) -> npu::Tensors<burn_cann::Tensor> {
    match operands.projected() {
        Projected::Separate { gate, up } => npu::Tensors::Separate {
            gate: gate.tensor().clone(),
            up: up.tensor().clone(),
        },
        Projected::Packed(gate_up) => npu::Tensors::Packed(gate_up.tensor().clone()),
    }
}

fn stream(operands: &Tensors<CannBackend>) -> &Stream {
    let (Projected::Separate { gate: first, .. } | Projected::Packed(first)) = operands.projected();
    first.stream()
}

impl GluKernel for CannBackend {
    fn glu_forward(operands: Tensors<Self>) -> CannTensor {
        operands.kernel_dtype();
        let (settings, key) = (operands.settings(), operands.key());
        let stream = stream(&operands);
        give(npu::forward(stream, &tensors(&operands), settings, key))
    }

    fn glu_backward(backward: Backward<CannTensor>) -> Projected<CannTensor> {
        let operands = backward.operands();
        let gradients = npu::backward(
            stream(operands),
            backward.dy().tensor(),
            &tensors(operands),
            operands.settings(),
            operands.key(),
        );
        match take(gradients) {
            npu::Tensors::Separate { gate, up } => Projected::Separate {
                gate: give(Ok(gate)),
                up: give(Ok(up)),
            },
            npu::Tensors::Packed(gate_up) => Projected::Packed(give(Ok(gate_up))),
        }
    }
}
