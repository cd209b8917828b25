use super::{decide, operators};
use crate::npu::backend::BASE;
use crate::npu::limits::{ask, of_float};
use crate::ops::add_rms_norm::record::TwoSteps;
use crate::ops::add_rms_norm::{AddRmsNorm, Launch, Operands, Settings};
use crate::ops::fused::OpLaunch;
use crate::ops::rms_norm::npu::width;
use crate::registry::{self, Implementation};
use crate::semantics::{AddRmsNormKey, Gating, Groups, Scale, SemanticsKey};
use burn::backend::Remote;

pub(crate) const IMPLEMENTATION: Implementation = Implementation {
    // The order in which the gradient of the weight is summed is not fixed.
    deterministic: false,
    accepts: |key| matches!(key, SemanticsKey::AddRmsNorm(_)),
    limits: Some(|key, tensors| {
        let key: AddRmsNormKey = key.known();
        ask(tensors, |platform, mut specs| {
            let (x, residual) = (specs.one(), specs.one());
            let weight = specs.one_if(key.scale == Scale::Weight);
            let gate = specs.one_if(key.gating != Gating::None);
            let settings = Settings {
                eps: 1e-6,
                // As of RMSNorm.
                group_size: (key.groups == Groups::Many).then(|| width(&x)),
            };
            let operands = Operands::new(x, residual, weight, gate, settings, key)?;
            decide(platform, &operands)
        })
    }),
    operators: Some(|key, float, _| Ok(operators(key.known(), of_float(float)))),
    launch: registry::Launch::AddRmsNorm(Launch(
        OpLaunch::recorded::<AddRmsNorm, Remote, TwoSteps>(),
    )),
    ..BASE
};
