//! Sites of experts, as expansions of the attribute call them.

mod listed;
mod stacked;

pub use listed::ListedExpert;
pub use stacked::StackedExperts;

use super::live::Experts;
use crate::__private::first_use;
use crate::device::{DeviceKind, DeviceKinds};
use crate::dispatch::{At, Decision};
use crate::kernel;
use crate::live::{self, Captured};
use crate::ops::glu;
use crate::ops::moe::chosen;
use crate::ops::moe::experts::{self, Weights};
use crate::ops::operands::refuse;
use crate::registry::Implementation;
use crate::semantics::MoeExpertsKey;
use burn::tensor::{Int, Tensor};
use listed::{Unused, is_lazy, listed};

/// Returns the number of experts, which must be the number that the annotated item states.
///
/// # Panics
/// Panics if the numbers differ.
#[track_caller]
pub fn same_count(count: usize, expected: usize) -> usize {
    if count != expected {
        refuse(format_args!(
            "npu_fused_moe: there are {count} experts, but `num_experts` is {expected}"
        ));
    }
    count
}
/// The tensors that a body takes: the tokens, their experts and the experts' weights.
type Flowing = (Tensor<2>, Tensor<2, Int>, Tensor<2>);

/// Runs the experts of a site whose weights are stacked.
#[track_caller]
pub fn experts(
    at: At,
    x: Tensor<2>,
    indices: Tensor<2, Int>,
    routing: Tensor<2>,
    weights: StackedExperts<'_>,
    limit: Option<f64>,
    reference: &mut dyn FnMut(Flowing) -> Tensor<2>,
) -> Tensor<2> {
    let _span = at.enter();
    let flowing = (x, indices, routing);
    let is_lazy = || at.runs_body_first();
    let weights = |_| Some(weights.read());
    either(&at, flowing, &is_lazy, &weights, limit, reference)
}

/// Runs the experts of a site that are layers of a list of `count`. A kernel runs only if every
/// projection of `expert(0)`, `expert(1)` and so on is a plain `Linear`.
///
/// The tokens decide which experts a body uses first. The body therefore runs before the kernel while any layer is
/// not initialised. A layer that it did not use has no tokens in this call, and stays uninitialised.
#[track_caller]
#[allow(clippy::too_many_arguments)] // These are the operands of the operation.
pub fn experts_list<'a>(
    at: At,
    x: Tensor<2>,
    indices: Tensor<2, Int>,
    routing: Tensor<2>,
    count: usize,
    expert: &dyn Fn(usize) -> ListedExpert<'a>,
    limit: Option<f64>,
    reference: &mut dyn FnMut(Flowing) -> Tensor<2>,
) -> Tensor<2> {
    let _span = at.enter();
    let flowing = (x, indices, routing);
    let is_lazy = || at.may_repeat() && is_lazy((0..count).map(expert));
    let weights = |unused| listed(count, expert, unused, at.key());
    either(&at, flowing, &is_lazy, &weights, limit, reference)
}

/// Runs `reference` if no kernel takes tensors like `x` or the weights can't be read, and counts that. Otherwise
/// decides again with all tensors, and runs the kernel or the reference.
#[track_caller]
fn either(
    at: &At,
    (x, indices, routing): Flowing,
    is_lazy: &dyn Fn() -> bool,
    weights: &dyn Fn(Unused) -> Option<Weights>,
    limit: Option<f64>,
    reference: &mut dyn FnMut(Flowing) -> Tensor<2>,
) -> Tensor<2> {
    let x = x.into_dispatch();
    let Decision::Fused(implementation) = at.peek([&x]) else {
        at.decide([&x]);
        return reference((Tensor::from_dispatch(x), indices, routing));
    };
    let x = Tensor::from_dispatch(x);
    let unused = match is_lazy() {
        true => {
            let inputs = (
                x.clone().detach(),
                indices.clone(),
                routing.clone().detach(),
            );
            first_use::run(reference, inputs);
            Unused::HasNoTokens
        }
        false => Unused::IsRead,
    };
    let Some(weights) = weights(unused) else {
        let x = x.into_dispatch();
        at.opaque().decide([&x]);
        return reference((Tensor::from_dispatch(x), indices, routing));
    };
    let key = at.key();
    experts::check(&x, &indices, &routing, &weights, limit, key);
    chosen::check(&indices, weights.experts());
    let operands = Experts {
        x,
        told: indices.clone(),
        indices,
        routing,
        weights,
        limit,
        key,
    };
    let captured = Captured::These(Experts::CAPTURED);
    let mut body = |experts: Experts| reference((experts.x, experts.told, experts.routing));
    if operands.weights.are_quantised() {
        // The body multiplies the rows of each expert with its bytes.
        at.opaque().decide([&operands.x.clone().into_dispatch()]);
        return body(operands);
    }
    if operands.weights.are_adapted() {
        let decision = decide_adapted(at, implementation, &operands.x);
        return live::decided(at, decision, operands, captured, body);
    }
    kernel::either(at, operands, captured, &mut body)
}

/// Counts a call of experts with adapters, which no implementation takes as a whole. On a CPU and on a GPU, grouped
/// kernels compute them, and are checked as the implementation would be. Elsewhere, the body does.
#[track_caller]
fn decide_adapted(at: &At, implementation: &'static Implementation, x: &Tensor<2>) -> Decision {
    let x = x.clone().into_dispatch();
    let kinds = implementation.device;
    if !kinds.contains(DeviceKind::Cpu) && kinds != DeviceKinds::GPU {
        return at.opaque().decide([&x]).decision();
    }
    at.adapted().decide([&x]);
    Decision::Fused(implementation)
}
/// Runs [`experts::reference`](experts::reference()) with stacked weights.
#[track_caller]
pub fn experts_reference(
    x: Tensor<2>,
    indices: Tensor<2, Int>,
    routing: Tensor<2>,
    weights: StackedExperts<'_>,
    limit: Option<f64>,
    key: MoeExpertsKey,
) -> Tensor<2> {
    let weights = weights.read();
    chosen::check(&indices, weights.experts());
    experts::reference(x, indices, routing, weights, limit, key)
}

/// Gate and up of one expert's rows, as its projections return them.
pub type UnitInputs = glu::Inputs<2>;

/// Runs [`experts::each`](experts::each()) with `count` layers. `gate_up(e, rows)` and `down(e, hidden)` are
/// the projections of expert `e`, called through their own `forward`.
#[track_caller]
#[allow(clippy::too_many_arguments)] // These are the operands of the operation.
pub fn experts_list_reference(
    x: Tensor<2>,
    indices: Tensor<2, Int>,
    routing: Tensor<2>,
    count: usize,
    gate_up: &dyn Fn(usize, Tensor<2>) -> UnitInputs,
    down: &dyn Fn(usize, Tensor<2>) -> Tensor<2>,
    limit: Option<f64>,
    key: MoeExpertsKey,
) -> Tensor<2> {
    chosen::check(&indices, count);
    let settings = glu::Settings {
        limit,
        sparsity: None,
    };
    experts::each(x, indices, routing, count, |expert, rows| {
        down(
            expert,
            glu::reference(gate_up(expert, rows), settings, key.unit()),
        )
    })
}
