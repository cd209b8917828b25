use super::{BASE, give, take};
use crate::npu::limits::ask;
use crate::ops::glu::{self, GluKernel, Settings, Tensors, npu};
use crate::registry::{Implementation, Launch};
use crate::semantics::{GluKey, SemanticsKey};
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

fn tensors(tensors: &Tensors<CannBackend>) -> npu::Tensors<burn_cann::Tensor> {
    match tensors {
        Tensors::Separate { gate, up } => npu::Tensors::Separate {
            gate: gate.tensor().clone(),
            up: up.tensor().clone(),
        },
        Tensors::Packed(gate_up) => npu::Tensors::Packed(gate_up.tensor().clone()),
    }
}

fn first(tensors: &Tensors<CannBackend>) -> &CannTensor {
    match tensors {
        Tensors::Separate { gate, .. } => gate,
        Tensors::Packed(gate_up) => gate_up,
    }
}

impl GluKernel for CannBackend {
    fn glu_forward(given: Tensors<Self>, settings: Settings, key: GluKey) -> CannTensor {
        let stream = first(&given).stream();
        give(npu::forward(stream, &tensors(&given), settings, key))
    }

    fn glu_backward(
        dy: CannTensor,
        given: Tensors<Self>,
        settings: Settings,
        key: GluKey,
    ) -> Tensors<Self> {
        let stream = first(&given).stream();
        let gradients = npu::backward(stream, dy.tensor(), &tensors(&given), settings, key);
        match take(gradients) {
            npu::Tensors::Separate { gate, up } => Tensors::Separate {
                gate: give(Ok(gate)),
                up: give(Ok(up)),
            },
            npu::Tensors::Packed(gate_up) => Tensors::Packed(give(Ok(gate_up))),
        }
    }
}
