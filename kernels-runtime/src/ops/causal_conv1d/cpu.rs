//! Short causal convolutions on Flex: [`kernels_simd::causal_conv`] on its tensors.

use super::{CausalConv1d, Each, Launch, Operands};
use crate::cpu::{BASE, empty, readable_rows, tensor, view};
use crate::ops::fused::{BackwardOn, FusedKernel, Gradients, Made, MadeOn, OpLaunch, Tensors};
use crate::ops::operands::checked;
use crate::registry::{self, Implementation};
use crate::semantics::{ConvActivation, SemanticsKey};
use burn::backend::flex::FlexTensor;
use burn::backend::{Flex, Shape};
use kernels_simd::{Values, causal_conv};
use std::borrow::Cow;

pub(super) const IMPLEMENTATION: Implementation = Implementation {
    launch: registry::Launch::CausalConv1d(Launch(OpLaunch::of::<CausalConv1d, Flex>())),
    accepts: |key| matches!(key, SemanticsKey::CausalConv1d(_)),
    ..BASE
};

impl FusedKernel<CausalConv1d> for Flex {
    fn forward(operands: Tensors<CausalConv1d, Self>, _: Option<&Each<bool>>) -> MadeOn<Self> {
        let dtype = checked(operands.dtype());
        let sizes = operands.sizes();
        if sizes.channels == 0 {
            // The number of sequences may be any.
            let [y, state] = [sizes.result(), sizes.states()].map(|shape| empty(shape, dtype));
            return Made::new(y).and([state]);
        }
        let found = Readable::new(&operands).with(&operands, causal_conv::forward);
        let state = tensor(found.state, Shape::new(sizes.states()));
        Made::new(tensor(found.y, Shape::new(sizes.result()))).and([state])
    }

    fn backward(backward: BackwardOn<CausalConv1d, Self>) -> Gradients<CausalConv1d, Self> {
        let (operands, others) = (backward.operands(), backward.others());
        checked(operands.dtype());
        if operands.sizes().channels == 0 {
            return Each {
                x: Some(operands.x().clone()),
                weight: Some(operands.weight().clone()),
                bias: operands.bias().cloned(),
                state: operands.state().cloned(),
            };
        }
        let dy = readable_rows(backward.dy());
        let dstate = others[0].to_contiguous();
        let found = Readable::new(operands).with(operands, |operands| {
            causal_conv::backward(operands, &view(&dy), Some(&view(&dstate)))
        });
        let like = |values: Values, of: &FlexTensor| tensor(values, of.layout().shape().clone());
        Each {
            x: Some(like(found.x, operands.x())),
            weight: Some(like(found.weight, operands.weight())),
            bias: operands.bias().map(|bias| like(found.bias, bias)),
            state: operands.state().map(|state| like(found.state, state)),
        }
    }
}

/// Tensors that can be read in place.
struct Readable<'a> {
    x: Cow<'a, FlexTensor>,
    weight: FlexTensor,
    bias: Option<FlexTensor>,
    state: Option<FlexTensor>,
}

impl<'a> Readable<'a> {
    fn new(operands: &'a Operands<FlexTensor>) -> Self {
        Self {
            x: readable_rows(operands.x()),
            weight: operands.weight().to_contiguous(),
            bias: operands.bias().map(FlexTensor::to_contiguous),
            state: operands.state().map(FlexTensor::to_contiguous),
        }
    }

    fn with<R>(
        &self,
        operands: &Operands<FlexTensor>,
        compute: impl FnOnce(&causal_conv::Operands<'_>) -> R,
    ) -> R {
        let lengths = operands.lengths();
        compute(&causal_conv::Operands {
            x: view(&self.x),
            weight: view(&self.weight),
            bias: self.bias.as_ref().map(view),
            state: self.state.as_ref().map(view),
            lengths: lengths.get(),
            silu: operands.key().activation == ConvActivation::Silu,
        })
    }
}
