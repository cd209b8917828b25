use super::{BASE, give, groups, take};
use crate::npu::limits::{ask, indices};
use crate::ops::moe::Many;
use crate::ops::moe::experts::{self, ExpertsKernel, Gradients, Settings, Wanted, npu};
use crate::registry::{Implementation, Launch};
use crate::semantics::{MoeKey, Projections, SemanticsKey};
use burn_cann::Spec;
use burn_cann::backend::{CannBackend, CannTensor};

pub(crate) const IMPLEMENTATION: Implementation = Implementation {
    // The gradients of weights are summed in any order.
    deterministic: false,
    accepts: |key| matches!(key, SemanticsKey::Moe(_)),
    limits: Some(|key, tensors| {
        let SemanticsKey::Moe(key) = *key else {
            unreachable!("other keys are not accepted")
        };
        ask(tensors, |platform, specs| {
            let [x, routing, weights @ ..] = specs else {
                unreachable!("experts have tokens and routing weights")
            };
            let indices = indices(routing.shape())?;
            let tensors = npu::Tensors {
                x,
                indices: &indices,
                routing,
                weights: in_groups(weights, key),
            };
            // A key with a clamp is refused whatever its limit is.
            npu::decide(platform, &tensors, Settings { key, limit: None })
        })
    }),
    launch: Launch::Moe(experts::launch),
    ..BASE
};

/// The six groups of weights. Those of a key with biases, which is refused anyway, are not told apart.
fn in_groups(weights: &[Spec], key: MoeKey) -> Vec<Vec<&Spec>> {
    let separate = key.projections == Projections::Separate;
    let count = if separate { 3 } else { 2 };
    let mut found = weights.chunks((weights.len() / count).max(1));
    let mut next = || found.next().unwrap_or_default().iter().collect();
    let gate = next();
    let up = if separate { next() } else { Vec::new() };
    vec![gate, up, next(), Vec::new(), Vec::new(), Vec::new()]
}

fn tensors(
    x: &CannTensor,
    indices: &CannTensor,
    routing: &CannTensor,
    weights: &Many<CannBackend>,
) -> npu::Tensors<burn_cann::Tensor> {
    npu::Tensors {
        x: x.tensor().clone(),
        indices: indices.tensor().clone(),
        routing: routing.tensor().clone(),
        weights: groups(weights),
    }
}

impl ExpertsKernel for CannBackend {
    fn experts_forward(
        x: CannTensor,
        indices: CannTensor,
        routing: CannTensor,
        weights: Many<Self>,
        settings: Settings,
        keep: bool,
    ) -> (CannTensor, Option<CannTensor>) {
        let tensors = tensors(&x, &indices, &routing, &weights);
        let (y, kept) = take(npu::forward(x.stream(), &tensors, settings, keep));
        (give(Ok(y)), kept.map(|kept| give(Ok(kept))))
    }

    fn experts_backward(
        dy: CannTensor,
        x: CannTensor,
        indices: CannTensor,
        routing: CannTensor,
        weights: Many<Self>,
        kept: CannTensor,
        settings: Settings,
        wanted: Wanted,
    ) -> Gradients<Self> {
        let tensors = tensors(&x, &indices, &routing, &weights);
        let gradients = take(npu::backward(
            x.stream(),
            dy.tensor(),
            &tensors,
            kept.tensor(),
            settings,
            &wanted,
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
