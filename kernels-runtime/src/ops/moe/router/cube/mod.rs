//! Routers on GPUs: one cube for each token, which takes the best of the remaining experts as often as a token chooses.
//!
//! | pass | kernels |
//! |---|---|
//! | forward | [`kernels::choose`]; before it, if the choice is limited to groups, [`kernels::score_groups`] and [`kernels::open_groups`] |
//! | backward | [`kernels::backward`] |
//!
//! **Order.** Values are compared together with their places, so that the choice is the reference's if values are equal.
//! Scores are not kept: they are computed again for each choice, from logits that the cache holds.
//!
//! **Half types.** Logits are read as they are. Scores, and the bias that corrects a choice, are in f32, and weights and
//! gradients are rounded once, if they are not in f32 too.
//!
//! **Mistakes.** If an index that the backward pass gets is no expert's, the gradient of its token is NaN.

mod kernels;

use super::operands::weights_dtype;
use super::{Each, Launch, Operands, Router, Routing};
use crate::gpu::launch::{
    contiguous, cubes, cubes_of, dim, element_of, uninitialised, uninitialised_as,
    uninitialised_ints, units, zeros_as,
};
use crate::gpu::{BASE, OnGpu};
use crate::ops::fused::{Backward, Made, OpLaunch};
use crate::ops::operands::array;
use crate::registry::{self, Implementation};
use crate::semantics::SemanticsKey;
use burn::backend::{Cube, Shape, TensorMetadata};
use burn_cubecl::cubecl::prelude::BufferArg;
use burn_cubecl::tensor::CubeTensor;
use kernels::{NumbersLaunch, Terms};

pub(crate) const IMPLEMENTATION: Implementation = Implementation {
    name: "cubecl-router",
    launch: registry::Launch::MoeBlock(Launch(OpLaunch::of::<Router, Cube>())),
    accepts: |key| matches!(key, SemanticsKey::MoeBlock(_)),
    ..BASE
};

impl OnGpu for Router {
    fn forward(operands: Operands<CubeTensor>, _: Option<&Each<bool>>) -> Made<CubeTensor> {
        let [weights, indices] = forward(operands);
        Made::new(weights).and_ints(indices)
    }

    fn backward(backward: Backward<Self, CubeTensor>) -> Each<Option<CubeTensor>> {
        let (operands, dw, _, ints, wanted) = backward.into_parts();
        let [indices] = array(ints);
        let logits = operands.logits().clone();
        let bias = operands.bias().filter(|_| wanted.bias);
        Each {
            bias: bias.map(|bias| zeros_as(bias, bias.shape(), bias.dtype)),
            logits: Some(gradient([dw, logits, indices], operands.routing())),
        }
    }
}

/// Returns the variant of the kernels.
fn terms(routing: Routing) -> Terms {
    let key = routing.key();
    Terms {
        scoring: key.scoring,
        by_logits: routing.chooses_by_logits(),
        grouping: key.grouping,
        renormalise: key.renormalise,
    }
}

/// Returns the numbers of the kernels.
fn numbers(routing: Routing, tokens: usize) -> NumbersLaunch {
    let (experts, groups) = (routing.num_experts(), groups(routing));
    NumbersLaunch::new(
        tokens,
        experts,
        routing.top_k(),
        experts / groups,
        routing.scale() as f32,
        f32::INFINITY,
        f32::NAN,
    )
}

/// Returns the number of groups, one if they don't limit the choice.
fn groups(routing: Routing) -> usize {
    routing.group_limit().map_or(1, |(groups, _)| groups)
}

/// Returns the weights and the experts.
fn forward(operands: Operands<CubeTensor>) -> [CubeTensor; 2] {
    let operands = operands.map(contiguous);
    let (logits, routing) = (operands.logits(), operands.routing());
    let tokens = logits.shape()[0];
    let shape = Shape::new([tokens, routing.top_k()]);
    let dtype = weights_dtype(logits.dtype, &routing);
    let weights = uninitialised_as(logits, shape.clone(), dtype);
    let indices = uninitialised_ints(logits, shape);
    if tokens == 0 {
        return [weights, indices];
    }
    let open = routing
        .group_limit()
        .map(|(groups, chosen)| open_groups(&operands, groups, chosen));
    let units = units(routing.num_experts());
    // SAFETY: there are `experts` logits and `choices` weights and indices for each token, a number for each expert in the
    // bias, and one for each group of each token in `open`. A cube touches the numbers of its token alone, and cubes beyond
    // the tokens end at once. A chosen index is that of an expert: there are as many in the groups as are chosen.
    unsafe {
        kernels::choose::launch_unchecked(
            &logits.client,
            cubes(logits, tokens),
            dim(units),
            logits.clone().into_buffer_arg(),
            bias(&operands).into(),
            open.map(CubeTensor::into_buffer_arg).into(),
            weights.clone().into_buffer_arg(),
            indices.clone().into_buffer_arg(),
            numbers(routing, tokens),
            terms(routing),
            units,
            [logits, &weights].map(element_of),
        );
    }
    [weights, indices]
}

fn bias(operands: &Operands<CubeTensor>) -> Option<BufferArg> {
    operands.bias().cloned().map(CubeTensor::into_buffer_arg)
}

/// Returns 1 for each group that a token chooses from, and 0 for others, `[tokens, groups]`.
fn open_groups(operands: &Operands<CubeTensor>, groups: usize, chosen: usize) -> CubeTensor {
    let (logits, routing) = (operands.logits(), operands.routing());
    let tokens = logits.shape()[0];
    let (shape, all) = (Shape::new([tokens, groups]), tokens * groups);
    let scores = uninitialised(logits, shape.clone());
    let open = uninitialised_ints(logits, shape);
    let units_of_token = units(routing.num_experts());
    let (cubes_of_all, dim_of_all) = cubes_of(logits, units(all), all);
    // SAFETY: as in `forward`, and there is a score for each group of each token, as in `open`. Units beyond them end at
    // once.
    unsafe {
        kernels::score_groups::launch_unchecked(
            &logits.client,
            cubes(logits, tokens),
            dim(units_of_token),
            logits.clone().into_buffer_arg(),
            bias(operands).into(),
            scores.clone().into_buffer_arg(),
            numbers(routing, tokens),
            terms(routing),
            units_of_token,
            element_of(logits),
        );
        kernels::open_groups::launch_unchecked(
            &logits.client,
            cubes_of_all,
            dim_of_all,
            scores.into_buffer_arg(),
            open.clone().into_buffer_arg(),
            all,
            groups,
            chosen,
        );
    }
    open
}

/// Returns the gradient of the logits, given that of the weights, the logits and the chosen experts.
fn gradient(tensors: [CubeTensor; 3], routing: Routing) -> CubeTensor {
    let [dw, logits, indices] = tensors.map(contiguous);
    let d_logits = uninitialised_as(&logits, logits.shape(), logits.dtype);
    let elements = [&logits, &dw].map(element_of);
    let (tokens, units) = (logits.shape()[0], units(routing.num_experts()));
    if tokens == 0 {
        return d_logits;
    }
    // SAFETY: as in `forward`; the gradient of the weights has the shape of the indices, and the result that of the logits.
    // An index that is no expert's is not used as a place.
    unsafe {
        kernels::backward::launch_unchecked(
            &logits.client.clone(),
            cubes(&logits, tokens),
            dim(units),
            dw.into_buffer_arg(),
            logits.clone().into_buffer_arg(),
            indices.into_buffer_arg(),
            d_logits.clone().into_buffer_arg(),
            numbers(routing, tokens),
            terms(routing),
            units,
            elements,
        );
    }
    d_logits
}
