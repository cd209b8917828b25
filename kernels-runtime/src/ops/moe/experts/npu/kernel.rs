use crate::npu::Seen;
use crate::npu::backend::{BASE, give, take};
use crate::npu::limits::{Specs, ask, indices};
use crate::ops::moe::experts::{
    self, Backward, ExpertsKernel, Gradients, Operands, Settings, Tensors, npu,
};
use crate::ops::operands::checked;
use crate::registry::{Implementation, Launch};
use crate::semantics::{MoeExpertsKey, Projections, SemanticsKey};
use burn_cann::Spec;
use burn_cann::backend::{CannBackend, CannTensor};

pub(crate) const IMPLEMENTATION: Implementation = Implementation {
    // The order in which the gradients of weights are summed is not fixed.
    deterministic: false,
    accepts: |key| matches!(key, SemanticsKey::MoeExperts(key) if npu::unit_of_key(*key).is_ok()),
    limits: Some(|key, tensors| {
        let key: MoeExpertsKey = key.known();
        ask(tensors, |platform, mut specs| {
            let settings = Settings { key, limit: None };
            let (x, routing) = (specs.one(), specs.one());
            let indices = Seen(indices(routing.shape())?);
            let operands = Operands::new(x, indices, routing, in_groups(specs, key), settings)?;
            npu::decide(platform, &operands)
        })
    }),
    launch: Launch::MoeExperts(experts::launch),
    ..BASE
};

/// Returns the six groups of weights for a key without biases.
fn in_groups(specs: Specs, key: MoeExpertsKey) -> Vec<Vec<Seen<Spec>>> {
    let weights: Vec<_> = specs.collect();
    let separate = key.projections == Projections::Separate;
    let count = if separate { 3 } else { 2 };
    let mut found = weights.chunks((weights.len() / count).max(1));
    let mut next = || found.next().unwrap_or_default().to_vec();
    let gate = next();
    let up = if separate { next() } else { Vec::new() };
    vec![gate, up, next(), Vec::new(), Vec::new(), Vec::new()]
}

impl ExpertsKernel for CannBackend {
    fn experts_forward(operands: Tensors<Self>, keep: bool) -> (CannTensor, Option<CannTensor>) {
        checked(operands.dtype());
        let stream = operands.x().stream().clone();
        let operands = operands.map(Seen::from, Seen::from);
        let (y, kept) = take(npu::forward(&stream, &operands, keep));
        (give(Ok(y)), kept.map(|kept| give(Ok(kept))))
    }

    fn experts_backward(backward: Backward<CannTensor, CannTensor>) -> Gradients<CannTensor> {
        let stream = backward.operands().x().stream().clone();
        let gradients = take(npu::backward(
            &stream,
            &backward.map(Seen::from, Seen::from),
        ));
        let back = |tensor: Option<_>| tensor.map(|tensor| give(Ok(tensor)));
        let group = |group: Vec<_>| group.into_iter().map(back).collect();
        Gradients {
            x: back(gradients.x),
            routing: back(gradients.routing),
            weights: gradients.weights.into_iter().map(group).collect(),
        }
    }
}
