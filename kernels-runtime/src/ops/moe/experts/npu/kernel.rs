use crate::npu::Seen;
use crate::npu::backend::BASE;
use crate::npu::limits::{Specs, ask, indices};
use crate::ops::fused::OpLaunch;
use crate::ops::moe::experts::{Experts, Launch, Operands, Settings, npu};
use crate::registry::{self, FloatType, Implementation};
use crate::semantics::{Clamp, ExpertBias, MoeExpertsKey, Projections, SemanticsKey};
use burn::backend::Remote;
use burn_cann::Spec;

pub(crate) const IMPLEMENTATION: Implementation = Implementation {
    // The order in which the gradients of weights are summed is not fixed.
    deterministic: false,
    accepts: |key| matches!(key, SemanticsKey::MoeExperts(key) if npu::unit_of_key(*key).is_ok()),
    limits: Some(|key, tensors| {
        let key: MoeExpertsKey = key.known();
        ask(tensors, |platform, mut specs| {
            // Any limit: it changes nothing here.
            let limit = (key.clamp == Clamp::Limit).then_some(1.0);
            let settings = Settings { key, limit };
            let (x, routing) = (specs.one(), specs.one());
            let indices = Seen(indices(routing.shape())?);
            let operands = Operands::new(x, routing, in_groups(specs, key), indices, settings)?;
            npu::decide(platform, &operands)
        })
    }),
    operators: Some(|key, float, mode| {
        let operators = npu::operators(key.known(), float != FloatType::F32, mode);
        operators.map_err(|refused| refused.why)
    }),
    launch: registry::Launch::MoeExperts(Launch(OpLaunch::of::<Experts, Remote>())),
    ..BASE
};

/// Returns the six groups of weights and biases.
fn in_groups(specs: Specs, key: MoeExpertsKey) -> Vec<Vec<Seen<Spec>>> {
    let weights: Vec<_> = specs.collect();
    let (separate, biased) = (
        key.projections == Projections::Separate,
        key.bias == ExpertBias::All,
    );
    let projections = if separate { 3 } else { 2 };
    let groups = if biased { 2 * projections } else { projections };
    let mut found = weights.chunks((weights.len() / groups).max(1));
    let mut next = |there: bool| match there {
        true => found.next().unwrap_or_default().to_vec(),
        false => Vec::new(),
    };
    let is_there = [true, separate, true];
    let weights = is_there.map(&mut next);
    let biases = is_there.map(|there| next(there && biased));
    weights.into_iter().chain(biases).collect()
}
