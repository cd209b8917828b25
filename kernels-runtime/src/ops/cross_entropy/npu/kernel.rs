use crate::npu::Seen;
use crate::npu::backend::BASE;
use crate::npu::limits::{ask, indices};
use crate::ops::cross_entropy::{CrossEntropy, Launch, Operands, Settings, npu};
use crate::ops::fused::OpLaunch;
use crate::registry::{self, FloatType, Implementation};
use crate::semantics::{CrossEntropyKey, LogitCap, SemanticsKey};
use burn::backend::Remote;

/// Arbitrary numbers for a decision, which depends on none of them. `limits` functions don't receive the numbers.
pub(in crate::ops) fn any(cap: LogitCap) -> Settings {
    Settings {
        cap: (cap == LogitCap::Tanh).then_some(1.0),
        ..Settings::default()
    }
}

/// Returns the operators over logits in f32 that compute losses without a z-loss.
pub(in crate::ops) fn losses(cap: LogitCap) -> impl Iterator<Item = &'static str> {
    let cap: &[_] = match cap {
        LogitCap::None => &[],
        LogitCap::Tanh => &["aclnnMuls", "aclnnTanh", "aclnnMuls"],
    };
    cap.iter().copied().chain(["aclnnCrossEntropyLoss"])
}

pub(crate) const IMPLEMENTATION: Implementation = Implementation {
    accepts: |key| matches!(key, SemanticsKey::CrossEntropy(_)),
    limits: Some(|key, tensors| {
        let key: CrossEntropyKey = key.known();
        ask(tensors, |platform, mut specs| {
            let logits = specs.one();
            let tokens = logits.shape().first().copied().unwrap_or(0);
            let targets = Seen(indices(&[tokens])?);
            let operands = Operands::new(logits, targets, any(key.cap), key)?;
            npu::decide(platform, &operands)
        })
    }),
    operators: Some(|key, float, _| {
        let CrossEntropyKey { cap, .. } = key.known();
        let cast = (float != FloatType::F32).then_some("aclnnCast");
        Ok(cast.into_iter().chain(losses(cap)).collect())
    }),
    launch: registry::Launch::CrossEntropy(Launch(OpLaunch::of::<CrossEntropy, Remote>())),
    ..BASE
};
