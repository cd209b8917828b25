use crate::npu::backend::BASE;
use crate::npu::limits::ask;
use crate::ops::adam_w::{AdamW, Launch, Operands, Settings, npu};
use crate::ops::fused::OpLaunch;
use crate::registry::{self, Gradient, Implementation};
use crate::semantics::SemanticsKey;
use burn::backend::Remote;

/// Arbitrary numbers for a decision, which depends on none of them. `limits` functions don't receive the numbers.
const ANY: Settings = Settings {
    learning_rate: 0.0,
    beta_1: 0.0,
    beta_2: 0.0,
    epsilon: 0.0,
    weight_decay: 0.0,
    step: 1,
};

pub(crate) const IMPLEMENTATION: Implementation = Implementation {
    gradient: Gradient::None,
    accepts: |key| matches!(key, SemanticsKey::AdamW(_)),
    limits: Some(|_, tensors| {
        ask(tensors, |platform, mut specs| {
            let mut next = || specs.one();
            let operands = Operands::new(next(), next(), next(), next(), ANY)?;
            npu::decide(platform, &operands)
        })
    }),
    operators: Some(|_, _, _| Ok(vec![npu::OPERATORS[1]])),
    launch: registry::Launch::AdamW(Launch(OpLaunch::of::<AdamW, Remote>())),
    ..BASE
};
