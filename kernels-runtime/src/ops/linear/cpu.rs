//! A linear layer on Flex: [`kernels_simd::linear`] on its tensors.

use super::{Each, Launch, Linear};
use crate::cpu::{
    BASE, gradient_sum, is_half_type, readable, readable_rows, slice_mut, tensor, view,
};
use crate::ops::fused::{BackwardOn, FusedKernel, Gradients, Made, MadeOn, OpLaunch, Tensors};
use crate::ops::operands::checked;
use crate::registry::{self, Implementation};
use crate::semantics::SemanticsKey;
use burn::backend::Flex;
use burn::backend::Shape;
use burn::backend::flex::FlexTensor;
use kernels_simd::linear;

pub(super) const IMPLEMENTATION: Implementation = Implementation {
    launch: registry::Launch::Linear(Launch(OpLaunch::of::<Linear, Flex>())),
    accepts: |key| matches!(key, SemanticsKey::Linear(_)),
    ..BASE
};

impl FusedKernel<Linear> for Flex {
    fn forward(operands: Tensors<Linear, Self>, _: Option<&Each<bool>>) -> MadeOn<Self> {
        checked(operands.dtype());
        let (x, weight) = (operands.x().to_contiguous(), readable(operands.weight()));
        let bias = operands.bias().map(FlexTensor::to_contiguous);
        let bias = bias.as_ref().map(view);
        let layout = operands.key().layout;
        let y = linear::forward(&view(&x), &view(&weight), layout, bias.as_ref());
        Made::new(tensor(y, operands.result()))
    }

    fn backward(backward: BackwardOn<Linear, Self>) -> Gradients<Linear, Self> {
        gradients(&backward, None)
    }

    fn backward_added(
        backward: BackwardOn<Linear, Self>,
        before: FlexTensor,
    ) -> Gradients<Linear, Self> {
        checked(backward.check_before(&before));
        gradients(&backward, Some(before))
    }
}

/// Returns the wanted gradients, that of `x` with `before`.
fn gradients(
    backward: &BackwardOn<Linear, Flex>,
    before: Option<FlexTensor>,
) -> Gradients<Linear, Flex> {
    let dtype = checked(backward.operands().dtype());
    let wanted = backward.wanted();
    let dy = backward.dy().to_contiguous();
    let of_x = || match before {
        Some(before) => of_x_added(backward, &dy, before),
        None => of_x(backward, &dy),
    };
    let of_x = || wanted.x.then(of_x);
    let of_weight = || wanted.weight.then(|| of_weight(backward, &dy));
    // Half types are copied before threads share a product, and one copies while another multiplies. In f32 each product is
    // the threads' own, and two at once push each other's operands out of the caches.
    let (x, weight) = match is_half_type(dtype) {
        true => rayon::join(of_x, of_weight),
        false => (of_x(), of_weight()),
    };
    Each {
        x,
        weight,
        bias: wanted.bias.then(|| of_bias(backward.dy())),
    }
}

/// Returns `dy · wᵀ`.
fn of_x(backward: &BackwardOn<Linear, Flex>, dy: &FlexTensor) -> FlexTensor {
    let operands = backward.operands();
    let weight = readable(operands.weight());
    let layout = operands.key().layout;
    let x = linear::gradient_of_x(&view(dy), &view(&weight), layout);
    tensor(x, operands.x().layout().shape().clone())
}

/// Returns `before + dy · wᵀ`. Products in a type that is not rounded are added in the memory of `before`.
fn of_x_added(
    backward: &BackwardOn<Linear, Flex>,
    dy: &FlexTensor,
    mut before: FlexTensor,
) -> FlexTensor {
    let operands = backward.operands();
    if before.is_contiguous()
        && let Some(to) = slice_mut(&mut before)
    {
        let weight = readable(operands.weight());
        let layout = operands.key().layout;
        if linear::add_gradient_of_x(&view(dy), &view(&weight), layout, to) {
            return before;
        }
    }
    gradient_sum(of_x(backward, dy), &before)
}

/// Returns `xᵀ · dy`, or its transpose, as the weight is laid out.
fn of_weight(backward: &BackwardOn<Linear, Flex>, dy: &FlexTensor) -> FlexTensor {
    let operands = backward.operands();
    let x = operands.x().to_contiguous();
    let weight = linear::gradient_of_weight(&view(&x), &view(dy), operands.key().layout);
    tensor(weight, operands.weight().layout().shape().clone())
}

/// Returns the sum of the rows of `dy`.
fn of_bias(dy: &FlexTensor) -> FlexTensor {
    let width = dy.layout().shape().last().copied().unwrap_or(1);
    let dy = readable_rows(dy);
    tensor(linear::gradient_of_bias(&view(&dy)), Shape::new([width]))
}
