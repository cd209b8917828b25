use crate::npu::backend::BASE;
use crate::npu::limits::ask;
use crate::ops::attention::{Attention, Launch, Lengths, Operands, Settings, npu};
use crate::ops::fused::OpLaunch;
use crate::registry::{self, Implementation};
use crate::semantics::{
    AttentionKey, AttentionMask, AttentionWindow, SemanticsKey, SequenceLengths, Sinks,
};
use burn::backend::Remote;

pub(crate) const IMPLEMENTATION: Implementation = Implementation {
    // The order in which the gradients of keys and values are summed is not fixed.
    deterministic: false,
    accepts: |key| matches!(key, SemanticsKey::Attention(key) if npu::has(*key).is_ok()),
    limits: Some(|key, tensors| {
        let key = AttentionKey {
            // Lengths, which the tensors don't tell, change the mask, but whatever they are, some mask computes them.
            lengths: SequenceLengths::None,
            ..key.known()
        };
        ask(tensors, |platform, mut specs| {
            let [q, k, v] = std::array::from_fn(|_| specs.one());
            let sinks = specs.one_if(key.sink == Sinks::Learned);
            let settings = Settings {
                // The smallest sizes stand for the site's, which the tensors don't tell.
                window: (key.window != AttentionWindow::None).then_some(1),
                prefix: (key.mask == AttentionMask::Prefix).then_some(1),
                ..Settings::default()
            };
            let lengths = Lengths::default();
            let operands = Operands::new(q, k, v, None, sinks, settings, lengths, key)?;
            npu::decide(platform, &operands)
        })
    }),
    operators: Some(|key, _, _| npu::operators(key.known()).map_err(|refused| refused.why)),
    launch: registry::Launch::Attention(Launch(OpLaunch::of::<Attention, Remote>())),
    ..BASE
};
