use crate::npu::backend::BASE;
use crate::npu::limits::ask;
use crate::ops::fused::OpLaunch;
use crate::ops::layer_norm::{Launch, LayerNorm, Operands, Settings, npu};
use crate::registry::{self, Implementation};
use crate::semantics::{LayerNormKey, SemanticsKey, Shift};
use burn::backend::Remote;

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
    operators: Some(|_, _, _| Ok(vec!["aclnnLayerNorm"])),
    launch: registry::Launch::LayerNorm(Launch(OpLaunch::of::<LayerNorm, Remote>())),
    ..BASE
};
