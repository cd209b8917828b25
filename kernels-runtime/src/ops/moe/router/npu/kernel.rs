use crate::npu::backend::{BASE, give, take};
use crate::npu::limits::ask;
use crate::npu::{Refused, Seen};
use crate::ops::moe::Routing;
use crate::ops::moe::router::{self, Backward, RouterBackend, RouterKernel, Tensors, npu};
use crate::ops::operands::checked;
use crate::reason::Reason;
use crate::registry::{Implementation, Launch};
use crate::semantics::{Grouping, MoeBlockKey, SemanticsKey};
use burn_cann::backend::{CannBackend, CannTensor};

/// The number of choices that `limits` assumes, unless there are fewer experts. `limits` functions don't receive the
/// actual number.
const CHOICES: usize = 64;

/// The largest number of experts in groups. Then as many as 32 groups are within CANN's limit, which counts each as a
/// multiple of 32 experts. `limits` functions don't receive the number of groups.
const GROUPED: usize = 1024;

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
            if key.grouping != Grouping::None && experts > GROUPED {
                let why = format!("{experts} experts in groups are more than {GROUPED}");
                return Err(Refused::new(Reason::Shape, why));
            }
            npu::decide_routing(platform, &logits, &routing)
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
