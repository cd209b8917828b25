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

use super::super::cube::stack;
use super::super::grouped_matmul::cube::multiplies;
use super::operands::{BIASES, DOWN};
use super::{Each, Experts, Launch, Operands, Settings};
use crate::gpu::launch::contiguous;
use crate::gpu::{BASE, OnGpu, indexable};
use crate::ops::fused::{Backward, Made, OpLaunch, Tensors};
use crate::ops::moe::cube::sort::sorts;
use crate::ops::operands::{Mismatch, array, require};
use crate::reason::Reason;
use crate::registry::{self, Implementation};
use crate::semantics::SemanticsKey;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Cube, DispatchTensor, TensorMetadata};
use burn_cubecl::tensor::CubeTensor;
use layer::Layer;

pub(super) const IMPLEMENTATION: Implementation = Implementation {
    launch: registry::Launch::MoeExperts(Launch(OpLaunch::of::<Experts, Cube>())),
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

impl OnGpu for Experts {
    /// Checks the sizes of a call that nobody [decided](takes), and that a GPU has kept what it gets.
    fn fits(operands: &Tensors<Self, Cube>, saved: &[FloatTensor<Cube>]) -> Result<(), Mismatch> {
        let slots = operands.indices().shape().num_elements();
        let (width, hidden) = (operands.width(), operands.x().shape()[1]);
        let experts = operands.experts();
        require!(
            sorts(slots, experts) && multiplies(slots, experts, [hidden, 2 * width]),
            "experts: kernels for GPUs don't take {slots} slots of {experts} experts from {hidden} to {width} features"
        );
        for kept in saved {
            let rows = kept.shape()[0];
            require!(
                rows == slots,
                "experts: the forward pass on a GPU keeps a row for each slot, but there are {rows} rows for {slots}"
            );
        }
        Ok(())
    }

    fn forward(
        operands: Operands<CubeTensor, CubeTensor>,
        wanted: Option<&Each<bool>>,
    ) -> Made<CubeTensor> {
        let (y, kept) = Layer::new(Call::new(&operands)).forward();
        Made::new(y).saving(wanted.map(|_| kept))
    }

    fn backward(backward: Backward<Self, CubeTensor>) -> Each<Option<CubeTensor>> {
        let (operands, dy, saved, _, wanted) = backward.into_parts();
        let [kept] = array(saved);
        let layer = Layer::new(Call::new(&operands));
        let wants = Wants::new(&wanted);
        let mut found = backward::gradients(&layer, dy, kept, wants).into_iter();
        let mut next = || found.next().expect("there are as many as were wanted");
        let [x, routing] = [wants.x, wants.routing].map(|wants| wants.then(&mut next));
        let groups = operands.weights().iter().zip(wants.weights);
        let of_group = |(group, wants): (&Vec<CubeTensor>, bool)| match wants {
            true => stack::apart(next(), group),
            false => vec![None; group.len()],
        };
        Each {
            x,
            routing,
            weights: groups.map(of_group).collect(),
        }
    }
}

/// The number of groups of weights and biases.
const GROUPS: usize = 2 * BIASES;

/// A call, with contiguous tensors, the weights of each group in one, and the indices in i32.
struct Call {
    x: CubeTensor,
    routing: CubeTensor,
    indices: CubeTensor,
    weights: [Option<CubeTensor>; GROUPS],
    settings: Settings,
}

impl Call {
    fn new(operands: &Operands<CubeTensor, CubeTensor>) -> Self {
        let groups = operands.weights();
        let stacked = |group: usize| {
            let rank = if group < BIASES { 3 } else { 2 };
            let tensors = &groups[group];
            (!tensors.is_empty()).then(|| contiguous(stack::stacked(tensors, rank)))
        };
        Self {
            x: contiguous(operands.x().clone()),
            routing: contiguous(operands.routing().clone()),
            indices: contiguous(operands.indices().clone()),
            weights: std::array::from_fn(stacked),
            settings: operands.settings(),
        }
    }

    /// Returns the weights of down, which there always are.
    fn down(&self) -> &CubeTensor {
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
    fn new(wanted: &Each<bool>) -> Self {
        Self {
            x: wanted.x,
            routing: wanted.routing,
            weights: std::array::from_fn(|group| wanted.weights[group].contains(&true)),
        }
    }
}
