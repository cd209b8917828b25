//! Routing on Flex: [`kernels_simd::moe::router`] on its tensors.

use super::{Each, Launch, Router, Routing};
use crate::cpu::{BASE, readable_rows, tensor, view};
use crate::ops::fused::{BackwardOn, FusedKernel, Gradients, Made, MadeOn, OpLaunch, Tensors};
use crate::ops::moe::integers;
use crate::ops::operands::{array, checked};
use crate::registry::{self, Implementation};
use crate::semantics::SemanticsKey;
use burn::backend::flex::FlexTensor;
use burn::backend::{Flex, Shape};
use kernels_simd::moe::router;

pub(crate) const IMPLEMENTATION: Implementation = Implementation {
    name: "cpu-router",
    accepts: |key| matches!(key, SemanticsKey::MoeBlock(_)),
    launch: registry::Launch::MoeBlock(Launch(OpLaunch::of::<Router, Flex>())),
    ..BASE
};

impl FusedKernel<Router> for Flex {
    fn forward(operands: Tensors<Router, Self>, _: Option<&Each<bool>>) -> MadeOn<Self> {
        checked(operands.dtype());
        let routing = operands.routing();
        let logits = readable_rows(operands.logits());
        let bias = operands.bias().map(FlexTensor::to_contiguous);
        let bias = bias.as_ref().map(view);
        let found = router::forward(&view(&logits), bias.as_ref(), &settings(&routing));
        let shape = [logits.layout().shape()[0], routing.top_k()];
        Made::new(tensor(found.weights, Shape::new(shape))).and_ints(integers::tensor(
            found.indices,
            shape,
            operands.ints(),
        ))
    }

    fn backward(backward: BackwardOn<Router, Self>) -> Gradients<Router, Self> {
        let (operands, [indices]) = (backward.operands(), array(backward.ints()));
        let dw = readable_rows(backward.dy());
        let logits = readable_rows(operands.logits());
        let (indices, settings) = (integers::read(indices), settings(&operands.routing()));
        let d_logits = router::backward(&view(&dw), &view(&logits), &indices, &settings);
        let zeros =
            |bias: &FlexTensor| FlexTensor::zeros(bias.layout().shape().clone(), bias.dtype());
        Each {
            logits: Some(tensor(d_logits, logits.layout().shape().clone())),
            bias: operands
                .bias()
                .filter(|_| backward.wanted().bias)
                .map(zeros),
        }
    }
}

fn settings(routing: &Routing) -> router::Settings {
    let key = routing.key();
    router::Settings {
        scoring: key.scoring,
        grouping: key.grouping,
        renormalise: key.renormalise,
        weights: key.weights,
        experts: routing.num_experts(),
        top_k: routing.top_k(),
        group_limit: routing.group_limit(),
        scale: routing.scale(),
    }
}
