use super::{BASE, give, ints, take};
use crate::dispatch::Reason;
use crate::npu::Refused;
use crate::npu::limits::ask;
use crate::ops::moe::Routing;
use crate::ops::moe::router::{self, RouterBackend, RouterKernel, npu};
use crate::registry::{Implementation, Launch};
use crate::semantics::{Grouping, SemanticsKey};
use burn::tensor::IntDType;
use burn_cann::backend::{CannBackend, CannTensor};

/// The most experts that a token chooses, of which a decision is asked: how many it is, limits are not
/// told.
const CHOICES: usize = 64;

pub(crate) const IMPLEMENTATION: Implementation = Implementation {
    name: "aclnn-router",
    // How many groups a choice is limited to is a number of the call, which limits are not told.
    accepts: |key| matches!(key, SemanticsKey::MoeBlock(key) if key.grouping == Grouping::None),
    limits: Some(|key, tensors| {
        let SemanticsKey::MoeBlock(key) = *key else {
            unreachable!("other keys are not accepted")
        };
        ask(&tensors[..1], |platform, specs| {
            let experts = specs[0].shape().last().copied().unwrap_or(0);
            let routing = Routing::new(key.router(), experts, experts.min(CHOICES));
            let routing =
                routing.map_err(|error| Refused::new(Reason::Shape, error.to_string()))?;
            npu::decide(platform, &specs[0], &routing)
        })
    }),
    launch: Launch::Router(router::launch),
    ..BASE
};

impl RouterBackend for CannBackend {
    fn route(
        logits: CannTensor,
        _: CannTensor,
        routing: Routing,
        dtype: IntDType,
    ) -> (CannTensor, CannTensor) {
        let routed = npu::forward(logits.stream(), logits.tensor(), &routing, ints(dtype));
        let (weights, indices) = take(routed);
        (give(Ok(weights)), give(Ok(indices)))
    }
}

impl RouterKernel for CannBackend {
    fn route_backward(
        dw: CannTensor,
        logits: CannTensor,
        indices: CannTensor,
        routing: Routing,
    ) -> CannTensor {
        let (logits, indices) = (logits.tensor(), indices.tensor());
        give(npu::backward(
            dw.stream(),
            dw.tensor(),
            logits,
            indices,
            &routing,
        ))
    }
}
