//! The experts of a mixture on GPUs. One operation of Burn's fusion sorts the slots by expert and computes all experts
//! together.
//!
//! | step | kernels |
//! |---|---|
//! | the rows of each expert | those of the [sort](super::super::cube::sort), and the plan of the grouped products |
//! | gate and up of each row | a grouped product that reads the tokens through the sort |
//! | the gated unit | that of gated linear units |
//! | down | a grouped product |
//! | the weighted sum by token | that of `moe_unpermute` |
//!
//! Gate and up are kept for the backward pass, in one tensor. There, the unit is computed again, and the weights' gradients
//! read tokens and their gradients through the sort too: neither is copied to rows.
//!
//! **Half types.** Sums are in f32. Gate and up, the unit and the gradients of all three are rounded, as in the reference. The
//! results of the experts, and the gradients of their inputs, stay in f32 until they are added up by token.
//!
//! **Lists.** The weights of a list are copied to one tensor first, since a kernel takes seven at most: their memory is needed
//! twice while the experts are computed.
//!
//! **Mistakes.** Nothing reads the indices on the host. The result of a token with an index that is no expert's, and not one
//! past the last, is NaN, and so are the gradients of the token and of the index's routing weight.

mod backward;
mod kernels;
mod launch;
mod layer;

use super::super::cube::{entries::entries, stack};
use super::super::grouped_matmul::cube::multiplies;
use super::operands::{BIASES, DOWN};
use super::{
    Backward, ExpertsBackend, ExpertsKernel, Gradients, Operands, Settings, Tensors, Wanted,
};
use crate::gpu::{BASE, Deferred, Like, indexable, like};
use crate::ops::moe::cube::sort::sorts;
use crate::ops::operands::checked;
use crate::reason::Reason;
use crate::registry::{Implementation, Launch};
use crate::semantics::SemanticsKey;
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Cube, DispatchTensor, Shape, TensorMetadata};
use layer::Layer;

pub(super) const IMPLEMENTATION: Implementation = Implementation {
    launch: Launch::MoeExperts(super::launch),
    accepts: |key| matches!(key, SemanticsKey::MoeExperts(_)),
    limits: Some(|_, tensors| takes(tensors)),
    ..BASE
};

/// Returns the reason if kernels don't take tensors of these sizes: the tokens, and for a call also the routing weights and
/// the experts' weights.
fn takes(tensors: &[&DispatchTensor]) -> Result<(), Reason> {
    indexable(tensors)?;
    let [_, routing, weights @ ..] = tensors else {
        return Ok(());
    };
    let slots = routing.shape().num_elements();
    let fits = |experts: usize, sizes: [usize; 2]| {
        sorts(slots, experts) && multiplies(slots, experts, sizes)
    };
    // Those of a list are counted together, with the other projections: they become stacked tensors.
    let of_lists = weights
        .iter()
        .filter(|one| one.shape().num_dims() == 2)
        .count();
    let all = weights
        .iter()
        .all(|weight| match *weight.shape().as_slice() {
            [experts, a, b] => fits(experts, [a, b]),
            [a, b] => fits(of_lists, [a, b]),
            _ => true,
        });
    match all {
        true => Ok(()),
        false => Err(Reason::Shape),
    }
}

/// Panics if the sizes of a call that nobody [decided](takes) are beyond the kernels' limits.
fn assert_fits(operands: &Tensors<Cube>) {
    let slots = operands.indices().shape().num_elements();
    let (width, hidden) = (operands.width(), operands.x().shape()[1]);
    let experts = match &operands.weights()[2][..] {
        [down] if down.shape().num_dims() == 3 => down.shape()[0],
        list => list.len(),
    };
    assert!(
        sorts(slots, experts) && multiplies(slots, experts, [hidden, 2 * width]),
        "experts: kernels for GPUs don't take {slots} slots of {experts} experts from {hidden} to {width} features"
    );
}

impl ExpertsBackend for Cube {
    fn experts(operands: Tensors<Self>) -> FloatTensor<Self> {
        Self::experts_forward(operands, false).0
    }
}

impl ExpertsKernel for Cube {
    fn experts_forward(
        operands: Tensors<Self>,
        keep: bool,
    ) -> (FloatTensor<Self>, Option<FloatTensor<Self>>) {
        let dtype = checked(operands.dtype());
        assert_fits(&operands);
        let mut deferred = Deferred::new("burn-kernels/moe_experts", operands.x());
        let kept = Shape::new([
            operands.indices().shape().num_elements(),
            2 * operands.width(),
        ]);
        let results = std::iter::once(like(operands.x())).chain(keep.then_some((kept, dtype)));
        let call = Call::new(&operands).map(|tensor| deferred.operand(tensor));
        let mut results = deferred.results(results.collect::<Vec<_>>(), move |tensors| {
            let layer = Layer::new(call.clone().map(|operand| tensors.tensor(operand)));
            let (y, kept) = layer.forward();
            std::iter::once(y).chain(keep.then_some(kept)).collect()
        });
        let y = results.next().expect("there is a result");
        (y, results.next())
    }

    fn experts_backward(
        backward: Backward<FloatTensor<Self>, IntTensor<Self>>,
    ) -> Gradients<FloatTensor<Self>> {
        let (operands, dy, kept, wanted) = backward.into_parts();
        checked(operands.dtype());
        assert_fits(&operands);
        let slots = operands.indices().shape().num_elements();
        assert_eq!(
            kept.shape()[0],
            slots,
            "experts: the forward pass on a GPU keeps a row for each slot"
        );
        let mut deferred = Deferred::new("burn-kernels/moe_experts_backward", &dy);
        let call = Call::new(&operands);
        let wants = Wants::new(&wanted);
        let results = wants.results(&call);
        let call = call.map(|tensor| deferred.operand(tensor));
        let [dy, kept] = [dy, kept].map(|tensor| deferred.operand(tensor));
        let mut results = deferred.results(results, move |tensors| {
            let layer = Layer::new(call.clone().map(|operand| tensors.tensor(operand)));
            let [dy, kept] = [&dy, &kept].map(|operand| tensors.tensor(operand.clone()));
            backward::gradients(&layer, dy, kept, wants)
        });
        let mut next = || results.next().expect("there are as many as were wanted");
        let [x, routing] = [wants.x, wants.routing].map(|wants| wants.then(&mut next));
        let groups = operands.weights().iter().zip(wants.weights);
        let of_group = |(group, wants): (&Vec<FloatTensor<Self>>, bool)| match wants {
            true => stack::apart(next(), group),
            false => vec![None; group.len()],
        };
        Gradients {
            x,
            routing,
            weights: groups.map(of_group).collect(),
        }
    }
}

/// The number of groups of weights and biases.
const GROUPS: usize = 2 * BIASES;

/// A call, with the weights of each group in one tensor and the indices in i32.
#[derive(Clone)]
struct Call<T> {
    x: T,
    routing: T,
    indices: T,
    weights: [Option<T>; GROUPS],
    settings: Settings,
}

impl Call<FloatTensor<Cube>> {
    fn new(operands: &Operands<FloatTensor<Cube>, IntTensor<Cube>>) -> Self {
        let groups = operands.weights();
        let stacked = |group: usize| {
            let rank = if group < BIASES { 3 } else { 2 };
            let tensors = &groups[group];
            (!tensors.is_empty()).then(|| stack::stacked(tensors, rank))
        };
        Self {
            x: operands.x().clone(),
            routing: operands.routing().clone(),
            indices: entries(operands.indices().clone()),
            weights: std::array::from_fn(stacked),
            settings: operands.settings(),
        }
    }
}

impl<T> Call<T> {
    fn map<U>(self, mut each: impl FnMut(T) -> U) -> Call<U> {
        Call {
            x: each(self.x),
            routing: each(self.routing),
            indices: each(self.indices),
            weights: self.weights.map(|group| group.map(&mut each)),
            settings: self.settings,
        }
    }

    /// Returns the weights of down, which there always are.
    fn down(&self) -> &T {
        self.weights[DOWN]
            .as_ref()
            .expect("experts have a projection of down")
    }
}

/// The wanted gradients, one flag for each group of weights.
#[derive(Clone, Copy)]
struct Wants {
    x: bool,
    routing: bool,
    weights: [bool; GROUPS],
}

impl Wants {
    fn new(wanted: &Wanted) -> Self {
        Self {
            x: wanted.x,
            routing: wanted.routing,
            weights: std::array::from_fn(|group| wanted.weights[group].contains(&true)),
        }
    }

    /// Returns the shapes of the wanted gradients.
    fn results(self, call: &Call<FloatTensor<Cube>>) -> Vec<Like> {
        let plain = [(self.x, &call.x), (self.routing, &call.routing)];
        let groups = self.weights.into_iter().zip(&call.weights);
        let groups = groups.filter_map(|(wants, group)| Some((wants, group.as_ref()?)));
        let all = plain.into_iter().chain(groups);
        all.filter(|(wants, _)| *wants)
            .map(|(_, tensor)| like(tensor))
            .collect()
    }
}
