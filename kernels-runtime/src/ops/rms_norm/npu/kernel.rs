use crate::npu::Seen;
use crate::npu::backend::BASE;
use crate::npu::limits::{ask, of_float};
use crate::ops::fused::OpLaunch;
use crate::ops::rms_norm::{Launch, Operands, RmsNorm, Settings, npu};
use crate::registry::{self, Implementation};
use crate::semantics::{Gating, Groups, RmsNormKey, Scale, SemanticsKey, Shift};
use burn::backend::Remote;
use burn_cann::Spec;

pub(crate) const IMPLEMENTATION: Implementation = Implementation {
    // The order in which the gradient of the weight is summed is not fixed.
    deterministic: false,
    accepts: |key| matches!(key, SemanticsKey::RmsNorm(_)),
    limits: Some(|key, tensors| {
        let key: RmsNormKey = key.known();
        ask(tensors, |platform, mut specs| {
            let x = specs.one();
            let settings = Settings {
                eps: 1e-6,
                // One group stands for the site's, whose size the tensors don't tell.
                group_size: (key.groups == Groups::Many).then(|| width(&x)),
            };
            let weight = specs.one_if(key.scale == Scale::Weight);
            let gate = specs.one_if(key.gating != Gating::None);
            let bias = specs.one_if(key.shift == Shift::Bias);
            let operands = Operands::with_later(x, weight, gate, bias, settings, key)?;
            npu::decide(platform, &operands)
        })
    }),
    operators: Some(|key, float, _| Ok(npu::operators(key.known(), of_float(float)))),
    launch: registry::Launch::RmsNorm(Launch(OpLaunch::of::<RmsNorm, Remote>())),
    ..BASE
};

/// Returns the size of a tensor's last axis as that of a group, which is not empty.
pub(crate) fn width(x: &Seen<Spec>) -> usize {
    x.shape().last().copied().unwrap_or(1).max(1)
}
