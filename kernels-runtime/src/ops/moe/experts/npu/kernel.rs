use crate::npu::backend::{BASE, give, take};
use crate::npu::limits::{ask_slice, indices};
use crate::ops::moe::experts::{self, Backward, ExpertsKernel, Gradients, Settings, Tensors, npu};
use crate::ops::operands::checked;
use crate::registry::{Implementation, Launch};
use crate::semantics::{MoeExpertsKey, Projections, SemanticsKey};
use burn_cann::Spec;
use burn_cann::backend::{CannBackend, CannTensor};

pub(crate) const IMPLEMENTATION: Implementation = Implementation {
    // The gradients of weights are summed in any order.
    deterministic: false,
    accepts: |key| matches!(key, SemanticsKey::MoeExperts(_)),
    limits: Some(|key, tensors| {
        let key: MoeExpertsKey = key.known();
        ask_slice(tensors, |platform, specs| {
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
    launch: Launch::MoeExperts(experts::launch),
    ..BASE
};

/// The six groups of weights. Those of a key with biases, which is refused anyway, are not told apart.
fn in_groups(weights: &[Spec], key: MoeExpertsKey) -> Vec<Vec<&Spec>> {
    let separate = key.projections == Projections::Separate;
    let count = if separate { 3 } else { 2 };
    let mut found = weights.chunks((weights.len() / count).max(1));
    let mut next = || found.next().unwrap_or_default().iter().collect();
    let gate = next();
    let up = if separate { next() } else { Vec::new() };
    vec![gate, up, next(), Vec::new(), Vec::new(), Vec::new()]
}

fn tensors(operands: &Tensors<CannBackend>) -> npu::Tensors<burn_cann::Tensor> {
    let inner = |tensor: &CannTensor| tensor.tensor().clone();
    let group = |group: &Vec<CannTensor>| group.iter().map(inner).collect();
    npu::Tensors {
        x: inner(operands.x()),
        indices: inner(operands.indices()),
        routing: inner(operands.routing()),
        weights: operands.weights().iter().map(group).collect(),
    }
}

impl ExpertsKernel for CannBackend {
    fn experts_forward(operands: Tensors<Self>, keep: bool) -> (CannTensor, Option<CannTensor>) {
        checked(operands.dtype());
        let (stream, settings) = (operands.x().stream(), operands.settings());
        let (y, kept) = take(npu::forward(stream, &tensors(&operands), settings, keep));
        (give(Ok(y)), kept.map(|kept| give(Ok(kept))))
    }

    fn experts_backward(backward: Backward<CannTensor, CannTensor>) -> Gradients<CannTensor> {
        let operands = backward.operands();
        let gradients = take(npu::backward(
            operands.x().stream(),
            backward.dy().tensor(),
            &tensors(operands),
            backward.kept().tensor(),
            operands.settings(),
            backward.wanted(),
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
