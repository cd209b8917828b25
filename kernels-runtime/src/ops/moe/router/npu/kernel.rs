use crate::npu::Refused;
use crate::npu::backend::{BASE, give, ints, take};
use crate::npu::limits::ask_slice;
use crate::ops::moe::Routing;
use crate::ops::moe::router::{self, Backward, RouterBackend, RouterKernel, Tensors, npu};
use crate::ops::operands::checked;
use crate::reason::Reason;
use crate::registry::{Implementation, Launch};
use crate::semantics::{Grouping, MoeBlockKey, SemanticsKey};
use burn_cann::backend::{CannBackend, CannTensor};

/// The most experts that a token chooses, of which a decision is asked: how many it is, limits are not
/// told.
const CHOICES: usize = 64;

pub(crate) const IMPLEMENTATION: Implementation = Implementation {
    name: "aclnn-router",
    // How many groups a choice is limited to is a number of the call, which limits are not told.
    accepts: |key| matches!(key, SemanticsKey::MoeBlock(key) if key.grouping == Grouping::None),
    limits: Some(|key, tensors| {
        let key: MoeBlockKey = key.known();
        ask_slice(&tensors[..1], |platform, specs| {
            let experts = specs[0].shape().last().copied().unwrap_or(0);
            let routing = Routing::new(key.router(), experts, experts.min(CHOICES));
            let routing =
                routing.map_err(|error| Refused::new(Reason::Shape, error.to_string()))?;
            npu::decide(platform, &specs[0], &routing)
        })
    }),
    launch: Launch::MoeBlock(router::launch),
    ..BASE
};

impl RouterBackend for CannBackend {
    fn route(operands: Tensors<Self>) -> (CannTensor, CannTensor) {
        checked(operands.dtype());
        let (logits, routing) = (operands.logits(), operands.routing());
        let ints = ints(operands.ints());
        let (weights, indices) = take(npu::forward(
            logits.stream(),
            logits.tensor(),
            &routing,
            ints,
        ));
        (give(Ok(weights)), give(Ok(indices)))
    }
}

impl RouterKernel for CannBackend {
    fn route_backward(backward: Backward<CannTensor, CannTensor>) -> CannTensor {
        give(npu::backward(
            backward.dw().stream(),
            backward.dw().tensor(),
            backward.logits().tensor(),
            backward.indices().tensor(),
            &backward.routing(),
        ))
    }
}
