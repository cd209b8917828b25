use crate::npu::backend::{BASE, give, take};
use crate::npu::limits::ask_slice;
use crate::ops::adam_w::{self, AdamWBackend, State, Tensors, npu};
use crate::ops::operands::checked;
use crate::registry::{Implementation, Launch};
use crate::semantics::SemanticsKey;
use burn_cann::backend::{CannBackend, CannTensor};

pub(crate) const IMPLEMENTATION: Implementation = Implementation {
    gradient: false,
    accepts: |key| matches!(key, SemanticsKey::AdamW(_)),
    limits: Some(|_, tensors| {
        ask_slice(tensors, |platform, specs| {
            let [parameter, moment_1, moment_2, gradient] = specs else {
                unreachable!("a step has four tensors")
            };
            let state = State {
                parameter,
                moment_1,
                moment_2,
            };
            npu::decide(platform, &state, gradient)
        })
    }),
    launch: Launch::AdamW(adam_w::launch),
    ..BASE
};

impl AdamWBackend for CannBackend {
    fn adam_w(operands: Tensors<Self>) -> (CannTensor, CannTensor, CannTensor) {
        checked(operands.dtype());
        let settings = operands.settings();
        let (state, gradient) = operands.into_parts();
        let state = state.map(CannTensor::into_tensor);
        let after = npu::step(gradient.stream(), state, gradient.tensor(), settings);
        let State {
            parameter,
            moment_1,
            moment_2,
        } = take(after).map(|tensor| give(Ok(tensor)));
        (parameter, moment_1, moment_2)
    }
}
