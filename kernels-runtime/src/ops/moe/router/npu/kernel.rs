use crate::npu::backend::{BASE, give, take};
use crate::npu::limits::ask;
use crate::npu::{Refused, Seen};
use crate::ops::moe::Routing;
use crate::ops::moe::router::{
    self, Backward, Operands, RouterBackend, RouterKernel, Tensors, npu,
};
use crate::ops::operands::checked;
use crate::reason::Reason;
use crate::registry::{Implementation, Launch};
use crate::semantics::{MoeBlockKey, SemanticsKey};
use burn::tensor::IntDType;
use burn_cann::backend::{CannBackend, CannTensor};

/// The number of choices that `limits` assumes, unless there are fewer experts. `limits` functions don't receive the
/// actual number.
const CHOICES: usize = 64;

pub(crate) const IMPLEMENTATION: Implementation = Implementation {
    name: "aclnn-router",
    accepts: |key| matches!(key, SemanticsKey::MoeBlock(key) if npu::is_dispatched(*key)),
    limits: Some(|key, tensors| {
        let key: MoeBlockKey = key.known();
        ask(&tensors[..1], |platform, mut specs| {
            let logits = specs.one();
            let experts = logits.shape().last().copied().unwrap_or(0);
            let routing = Routing::new(key.router(), experts, experts.min(CHOICES));
            let routing =
                routing.map_err(|error| Refused::new(Reason::Shape, error.to_string()))?;
            // A key with a correction is refused, whatever the correction is.
            npu::of_routing(&routing)?;
            let operands = Operands::new(logits, None, routing, IntDType::I64)?;
            npu::decide(platform, &operands)
        })
    }),
    launch: Launch::MoeBlock(router::launch),
    ..BASE
};

impl RouterBackend for CannBackend {
    fn route(operands: Tensors<Self>) -> (CannTensor, CannTensor) {
        checked(operands.dtype());
        let stream = operands.logits().stream().clone();
        let (weights, indices) = take(npu::forward(&stream, &operands.map(Seen::from)));
        (give(Ok(weights)), give(Ok(indices)))
    }
}

impl RouterKernel for CannBackend {
    fn route_backward(backward: Backward<CannTensor, CannTensor>) -> CannTensor {
        let stream = backward.logits().stream().clone();
        give(npu::backward(
            &stream,
            &backward.map(Seen::from, Seen::from),
        ))
    }
}
