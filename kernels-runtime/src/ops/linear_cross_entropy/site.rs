use super::live::Loss;
use crate::dispatch::At;
use crate::live::{self, Captured};
use crate::ops::cross_entropy::site::LossNumbers;
use crate::ops::linear_cross_entropy::{self, Inputs, Operands};
use crate::semantics::LinearCrossEntropyKey;
use burn::tensor::{Int, Tensor};

/// The tensors that a body takes besides a bias: hidden states, weight and targets.
type Flowing = (Tensor<2>, Tensor<2>, Tensor<1, Int>);
/// The tensors that a body takes, with a bias.
type FlowingBiased = (Tensor<2>, Tensor<2>, Tensor<1>, Tensor<1, Int>);

/// Runs the linear cross-entropy of a site without a bias.
#[track_caller]
pub fn linear_cross_entropy(
    at: At,
    (hidden, weight, targets): Flowing,
    numbers: LossNumbers,
    reference: &mut dyn FnMut(Flowing) -> Tensor<1>,
) -> Tensor<1> {
    let _span = at.enter();
    let inputs = Inputs {
        hidden,
        weight,
        bias: None,
        targets,
    };
    let mut reference = |inputs: Inputs| reference((inputs.hidden, inputs.weight, inputs.targets));
    either(&at, inputs, numbers, &mut reference)
}

/// Runs the linear cross-entropy of a site with a bias.
#[track_caller]
pub fn linear_cross_entropy_biased(
    at: At,
    (hidden, weight, bias, targets): FlowingBiased,
    numbers: LossNumbers,
    reference: &mut dyn FnMut(FlowingBiased) -> Tensor<1>,
) -> Tensor<1> {
    let _span = at.enter();
    let inputs = Inputs {
        hidden,
        weight,
        bias: Some(bias),
        targets,
    };
    let mut reference = |inputs: Inputs| {
        let bias = inputs.bias.expect("a bias went in");
        reference((inputs.hidden, inputs.weight, bias, inputs.targets))
    };
    either(&at, inputs, numbers, &mut reference)
}

#[track_caller]
fn either(
    at: &At,
    inputs: Inputs,
    numbers: LossNumbers,
    reference: &mut dyn FnMut(Inputs) -> Tensor<1>,
) -> Tensor<1> {
    let hidden = inputs.hidden.into_dispatch();
    let fused = at.peek([&hidden]).is_fused();
    if !fused {
        at.decide([&hidden]);
    }
    let inputs = Inputs {
        hidden: Tensor::from_dispatch(hidden),
        ..inputs
    };
    if !fused {
        return reference(inputs);
    }
    let operands = Operands::of(inputs, numbers.into(), at.key());
    let route = at.decide(operands.all());
    let captured = Captured::These(&[]);
    live::decided(at, route, Loss::from(operands), captured, |loss| {
        reference(loss.inputs)
    })
}

/// Runs [`linear_cross_entropy::reference`] without a bias.
#[track_caller]
pub fn linear_cross_entropy_reference(
    (hidden, weight, targets): Flowing,
    numbers: LossNumbers,
    key: LinearCrossEntropyKey,
) -> Tensor<1> {
    let inputs = Inputs {
        hidden,
        weight,
        bias: None,
        targets,
    };
    linear_cross_entropy::reference(inputs, numbers.into(), key)
}

/// Runs [`linear_cross_entropy::reference`] with a bias.
#[track_caller]
pub fn linear_cross_entropy_biased_reference(
    (hidden, weight, bias, targets): FlowingBiased,
    numbers: LossNumbers,
    key: LinearCrossEntropyKey,
) -> Tensor<1> {
    let inputs = Inputs {
        hidden,
        weight,
        bias: Some(bias),
        targets,
    };
    linear_cross_entropy::reference(inputs, numbers.into(), key)
}
