use crate::npu::Seen;
use crate::npu::backend::{BASE, give, take};
use crate::npu::limits::ask;
use crate::ops::layer_norm::{
    self, Backward, Gradients, LayerNormKernel, Normalised, Operands, Settings, Tensors, npu,
};
use crate::ops::operands::checked;
use crate::registry::{Implementation, Launch};
use crate::semantics::{LayerNormKey, SemanticsKey, Shift};
use burn_cann::backend::{CannBackend, CannTensor};

pub(crate) const IMPLEMENTATION: Implementation = Implementation {
    accepts: |key| matches!(key, SemanticsKey::LayerNorm(_)),
    limits: Some(|key, tensors| {
        let key: LayerNormKey = key.known();
        ask(tensors, |platform, mut specs| {
            let (x, weight) = (specs.one(), specs.one());
            let bias = specs.one_if(key.shift == Shift::Bias);
            let operands = Operands::new(x, weight, bias, Settings { eps: 1e-5 }, key)?;
            npu::decide(platform, &operands)
        })
    }),
    launch: Launch::LayerNorm(layer_norm::launch),
    ..BASE
};

impl LayerNormKernel for CannBackend {
    fn layer_norm_forward(operands: Tensors<Self>) -> Normalised<CannTensor> {
        checked(operands.dtype());
        let stream = operands.x().stream().clone();
        let found = take(npu::forward(&stream, &operands.map(Seen::from)));
        let Normalised { y, mean, rstd } = found;
        let [y, mean, rstd] = [y, mean, rstd].map(|tensor| give(Ok(tensor)));
        Normalised { y, mean, rstd }
    }

    fn layer_norm_backward(backward: Backward<CannTensor>) -> Gradients<CannTensor> {
        let stream = backward.operands().x().stream().clone();
        let found = take(npu::backward(&stream, &backward.map(Seen::from)));
        let of = |tensor| give(Ok(tensor));
        Gradients {
            x: of(found.x),
            weight: found.weight.map(of),
            bias: found.bias.map(of),
        }
    }
}
