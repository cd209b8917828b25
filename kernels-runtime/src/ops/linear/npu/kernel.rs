use crate::npu::backend::BASE;
use crate::npu::limits::ask;
use crate::ops::fused::OpLaunch;
use crate::ops::linear::{Launch, Linear, Operands, npu};
use crate::registry::{self, Implementation};
use crate::semantics::{LinearKey, SemanticsKey, Shift};
use burn::backend::Remote;

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
    operators: Some(|key, _, _| {
        let LinearKey { shift, .. } = key.known();
        Ok(match shift {
            Shift::None => vec!["aclnnMatmul"],
            Shift::Bias => vec!["aclnnInplaceCopy", "aclnnInplaceAddmm"],
        })
    }),
    launch: registry::Launch::Linear(Launch(OpLaunch::of::<Linear, Remote>())),
    ..BASE
};
