use crate::npu::Seen;
use crate::npu::backend::{BASE, give, take};
use crate::npu::limits::ask;
use crate::ops::adam_w::{self, AdamWBackend, Operands, Settings, State, Tensors, npu};
use crate::ops::operands::checked;
use crate::registry::{Gradient, Implementation, Launch};
use crate::semantics::SemanticsKey;
use burn_cann::backend::{CannBackend, CannTensor};

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
            let state = State {
                parameter: specs.one(),
                moment_1: specs.one(),
                moment_2: specs.one(),
            };
            npu::decide(platform, &Operands::new(state, specs.one(), ANY)?)
        })
    }),
    launch: Launch::AdamW(adam_w::launch),
    ..BASE
};

impl AdamWBackend for CannBackend {
    fn adam_w(operands: Tensors<Self>) -> (CannTensor, CannTensor, CannTensor) {
        checked(operands.dtype());
        let stream = operands.gradient().stream().clone();
        let after = npu::step(&stream, operands.map(Seen::from));
        let State {
            parameter,
            moment_1,
            moment_2,
        } = take(after).map(|tensor| give(Ok(tensor)));
        (parameter, moment_1, moment_2)
    }
}
