use crate::npu::Seen;
use crate::npu::backend::{BASE, give, take};
use crate::npu::limits::ask;
use crate::ops::linear::{
    self, Backward, Gradients, LinearBackend, LinearKernel, Operands, Tensors, npu,
};
use crate::ops::operands::checked;
use crate::registry::{Implementation, Launch};
use crate::semantics::{LinearKey, SemanticsKey, Shift};
use burn_cann::backend::{CannBackend, CannTensor};

pub(crate) const IMPLEMENTATION: Implementation = Implementation {
    accepts: |key| matches!(key, SemanticsKey::Linear(_)),
    limits: Some(|key, tensors| {
        let key: LinearKey = key.known();
        ask(tensors, |platform, mut specs| {
            let (x, weight) = (specs.one(), specs.one());
            let bias = specs.one_if(key.shift == Shift::Bias);
            npu::decide(platform, &Operands::new(x, weight, bias, key)?)
        })
    }),
    launch: Launch::Linear(linear::launch),
    ..BASE
};

impl LinearBackend for CannBackend {
    fn fused_linear(operands: Tensors<Self>) -> CannTensor {
        Self::fused_linear_forward(operands)
    }
}

impl LinearKernel for CannBackend {
    fn fused_linear_forward(operands: Tensors<Self>) -> CannTensor {
        checked(operands.dtype());
        let stream = operands.x().stream().clone();
        give(npu::forward(&stream, &operands.map(Seen::from)))
    }

    fn fused_linear_backward(backward: Backward<CannTensor>) -> Gradients<CannTensor> {
        let stream = backward.operands().x().stream().clone();
        let found = take(npu::backward(&stream, &backward.map(Seen::from)));
        let of = |tensor| give(Ok(tensor));
        Gradients {
            x: found.x.map(of),
            weight: found.weight.map(of),
            bias: found.bias.map(of),
        }
    }
}
