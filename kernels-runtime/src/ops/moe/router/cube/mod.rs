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

use super::super::cube::entries::{entries, returned};
use super::operands::weights_dtype;
use super::{Backward, Operands, RouterBackend, RouterKernel, Routing, Tensors};
use crate::gpu::launch::{
    contiguous, cubes, cubes_of, dim, element_of, uninitialised, uninitialised_as,
    uninitialised_ints, units,
};
use crate::gpu::{BASE, Deferred, like};
use crate::ops::operands::checked;
use crate::registry::{Implementation, Launch};
use crate::semantics::SemanticsKey;
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Cube, Shape, TensorMetadata};
use burn::tensor::DType;
use burn_cubecl::cubecl::prelude::BufferArg;
use burn_cubecl::tensor::CubeTensor;
use kernels::{NumbersLaunch, Terms};

pub(crate) const IMPLEMENTATION: Implementation = Implementation {
    name: "cubecl-router",
    launch: Launch::MoeBlock(super::launch),
    accepts: |key| matches!(key, SemanticsKey::MoeBlock(_)),
    ..BASE
};

impl RouterBackend for Cube {
    fn route(operands: Tensors<Self>) -> (FloatTensor<Self>, IntTensor<Self>) {
        let dtype = checked(operands.dtype());
        let mut deferred = Deferred::new("burn-kernels/router", operands.logits());
        let (ints, routing) = (operands.ints(), operands.routing());
        let shape = Shape::new([operands.logits().shape()[0], routing.top_k()]);
        let weights = weights_dtype(dtype, &routing);
        let results = [(shape.clone(), weights), (shape, DType::I32)];
        let operands = operands.map(|tensor| deferred.operand(tensor));
        let mut results = deferred.results(results, move |tensors| {
            forward(operands.clone().map(|operand| tensors.tensor(operand)))
        });
        let mut next = || results.next().expect("there are two results");
        (next(), returned(next(), ints))
    }
}

impl RouterKernel for Cube {
    fn route_backward(backward: Backward<FloatTensor<Self>, IntTensor<Self>>) -> FloatTensor<Self> {
        let mut deferred = Deferred::new("burn-kernels/router_backward", backward.logits());
        let (result, routing) = (like(backward.logits()), backward.routing());
        let indices = entries(backward.indices().clone());
        let tensors = [backward.dw().clone(), backward.logits().clone(), indices];
        let tensors = tensors.map(|tensor| deferred.operand(tensor));
        let mut results = deferred.results([result], move |resolve| {
            let tensors = tensors.clone().map(|operand| resolve.tensor(operand));
            vec![gradient(tensors, routing)]
        });
        results.next().expect("there is one result")
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
fn forward(operands: Operands<CubeTensor>) -> Vec<CubeTensor> {
    let operands = operands.map(contiguous);
    let (logits, routing) = (operands.logits(), operands.routing());
    let tokens = logits.shape()[0];
    let shape = Shape::new([tokens, routing.top_k()]);
    let dtype = weights_dtype(logits.dtype, &routing);
    let weights = uninitialised_as(logits, shape.clone(), dtype);
    let indices = uninitialised_ints(logits, shape);
    if tokens == 0 {
        return vec![weights, indices];
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
    vec![weights, indices]
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
