use crate::npu::backend::BASE;
use crate::npu::limits::ask;
use crate::ops::attention::{Attention, Launch, Lengths, Operands, Settings, npu};
use crate::ops::fused::OpLaunch;
use crate::reason::Reason;
use crate::registry::{self, FloatType, Implementation};
use crate::semantics::{
    AttentionBias, AttentionKey, AttentionMask, AttentionWindow, ScoreCap, SemanticsKey,
    SequenceLengths, Sinks,
};
use burn::backend::{DispatchTensor, Remote};

pub(crate) const IMPLEMENTATION: Implementation = Implementation {
    // The order in which the gradients of keys and values are summed is not fixed.
    deterministic: false,
    accepts: |key| accepts(key, false),
    limits: Some(limits),
    operators: Some(|key, float, mode| {
        Ok(npu::operators(key.known(), float != FloatType::F32, mode))
    }),
    launch: registry::Launch::Attention(Launch(OpLaunch::of::<Attention, Remote>())),
    ..BASE
};

/// Attention with a cap or a bias, of several operators.
pub(crate) const COMPOSED: Implementation = Implementation {
    name: "aclnn-matmul-softmax",
    deterministic: true,
    accepts: |key| accepts(key, true),
    ..IMPLEMENTATION
};

fn accepts(key: &SemanticsKey, composed: bool) -> bool {
    matches!(key, SemanticsKey::Attention(key) if npu::is_composed(*key) == composed)
}

fn limits(key: &SemanticsKey, tensors: &[&DispatchTensor]) -> Result<(), Reason> {
    let key = AttentionKey {
        // Lengths, which the tensors don't tell, change the mask, but whatever they are, some mask computes them.
        lengths: SequenceLengths::None,
        ..key.known()
    };
    ask(tensors, |platform, mut specs| {
        let [q, k, v] = std::array::from_fn(|_| specs.one());
        let bias = specs.one_if(key.bias == AttentionBias::Additive);
        let sinks = specs.one_if(key.sink == Sinks::Learned);
        let settings = Settings {
            // The smallest sizes stand for the site's, which the tensors don't tell.
            window: (key.window != AttentionWindow::None).then_some(1),
            prefix: (key.mask == AttentionMask::Prefix).then_some(1),
            // Any cap: it changes no limit.
            cap: (key.cap == ScoreCap::Tanh).then_some(1.0),
            ..Settings::default()
        };
        let lengths = Lengths::default();
        let operands = Operands::new(q, k, v, bias, sinks, settings, lengths, key)?;
        npu::decide(platform, &operands)
    })
}
