use crate::npu::Seen;
use crate::npu::backend::{BASE, give, take};
use crate::npu::limits::ask;
use crate::ops::operands::checked;
use crate::ops::rms_norm::{
    self, Backward, Gradients, Operands, RmsNormKernel, Settings, Tensors, npu,
};
use crate::registry::{Implementation, Launch};
use crate::semantics::{Gating, RmsNormKey, Scale, SemanticsKey};
use burn_cann::backend::{CannBackend, CannTensor};

pub(crate) const IMPLEMENTATION: Implementation = Implementation {
    // The order in which the gradient of the weight is summed is not fixed.
    deterministic: false,
    accepts: |key| matches!(key, SemanticsKey::RmsNorm(key) if npu::is_dispatched(*key)),
    limits: Some(|key, tensors| {
        let key: RmsNormKey = key.known();
        let settings = Settings {
            eps: 1e-6,
            group_size: None,
        };
        ask(tensors, |platform, mut specs| {
            let x = specs.one();
            let weight = specs.one_if(key.scale == Scale::Weight);
            let gate = specs.one_if(key.gating != Gating::None);
            let operands = Operands::new(x, weight, gate, settings, key)?;
            npu::decide_dispatch(platform, &operands)
        })
    }),
    launch: Launch::RmsNorm(rms_norm::launch),
    ..BASE
};

impl RmsNormKernel for CannBackend {
    fn rms_norm_forward(operands: Tensors<Self>) -> (CannTensor, CannTensor) {
        checked(operands.dtype());
        let stream = operands.x().stream().clone();
        let (y, rstd) = take(npu::forward(&stream, &operands.map(Seen::from)));
        (give(Ok(y)), give(Ok(rstd)))
    }

    fn rms_norm_backward(backward: Backward<CannTensor>) -> Gradients<CannTensor> {
        let stream = backward.operands().x().stream().clone();
        let gradients = take(npu::backward(&stream, &backward.map(Seen::from)));
        gradients.map(|tensor| give(Ok(tensor)))
    }
}
