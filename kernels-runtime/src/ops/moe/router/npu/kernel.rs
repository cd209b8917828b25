use crate::npu::Refused;
use crate::npu::backend::BASE;
use crate::npu::limits::ask;
use crate::ops::fused::OpLaunch;
use crate::ops::moe::Routing;
use crate::ops::moe::router::{Launch, Router, npu};
use crate::reason::Reason;
use crate::registry::{self, Implementation};
use crate::semantics::{Grouping, MoeBlockKey, SemanticsKey};
use burn::backend::Remote;

/// The number of choices that `limits` assumes, unless there are fewer experts. `limits` functions don't receive the
/// actual number.
const CHOICES: usize = 64;

/// The largest number of experts in groups. Then as many as 32 groups are within CANN's limit, which counts each as a
/// multiple of 32 experts. `limits` functions don't receive the number of groups.
const GROUPED: usize = 1024;

pub(crate) const IMPLEMENTATION: Implementation = Implementation {
    name: "aclnn-router",
    accepts: |key| matches!(key, SemanticsKey::MoeBlock(key) if npu::operators(key.router(), key.grouping != Grouping::None).is_ok()),
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
    operators: Some(|key, _, _| {
        let key: MoeBlockKey = key.known();
        let is_limited = key.grouping != Grouping::None;
        npu::operators(key.router(), is_limited).map_err(|refused| refused.why)
    }),
    launch: registry::Launch::MoeBlock(Launch(OpLaunch::of::<Router, Remote>())),
    ..BASE
};
