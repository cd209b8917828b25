use super::{BASE, give};
use crate::npu::limits::ask;
use crate::ops::rope::{self, RopeKernel, npu};
use crate::registry::{Implementation, Launch};
use crate::semantics::{RopeKey, SemanticsKey};
use burn_cann::backend::{CannBackend, CannTensor};

pub(crate) const IMPLEMENTATION: Implementation = Implementation {
    accepts: |key| matches!(key, SemanticsKey::Rope(_)),
    limits: Some(|key, tensors| {
        let SemanticsKey::Rope(key) = *key else {
            unreachable!("other keys are not accepted")
        };
        ask(tensors, |platform, specs| {
            let [q, k, cos, sin] = specs else {
                unreachable!("a rotation has four operands")
            };
            npu::decide(platform, q, cos, sin, key)?;
            npu::decide(platform, k, cos, sin, key)
        })
    }),
    launch: Launch::Rope(rope::launch),
    ..BASE
};

impl RopeKernel for CannBackend {
    fn rope_forward(x: CannTensor, cos: CannTensor, sin: CannTensor, key: RopeKey) -> CannTensor {
        let (cos, sin) = (cos.tensor(), sin.tensor());
        give(npu::forward(x.stream(), x.tensor(), cos, sin, key))
    }

    fn rope_backward(dy: CannTensor, cos: CannTensor, sin: CannTensor, key: RopeKey) -> CannTensor {
        let (cos, sin) = (cos.tensor(), sin.tensor());
        give(npu::backward(dy.stream(), dy.tensor(), cos, sin, key))
    }
}
