use super::live::Distilled;
use super::{Inputs, Operands, Settings, reference};
use crate::dispatch::At;
use crate::live::{self, Captured};
use crate::semantics::LinearDivergenceKey;
use burn::tensor::Tensor;

/// The numbers of a divergence that a site reads. Those that are missing have the usual values.
#[derive(Clone, Copy, Debug)]
pub struct DivergenceNumbers {
    /// The weight of the teacher in the mixture.
    pub mixture: f64,
    /// The number that logits are divided by.
    pub temperature: Option<f64>,
    /// The limit of the student's logits. Infinity is none.
    pub cap: Option<f64>,
    /// The limit of the teacher's logits. Infinity is none.
    pub teacher_cap: Option<f64>,
}

impl From<DivergenceNumbers> for Settings {
    fn from(numbers: DivergenceNumbers) -> Self {
        let cap = |cap: Option<f64>| cap.filter(|cap| *cap != f64::INFINITY);
        Self {
            mixture: numbers.mixture,
            temperature: numbers.temperature.unwrap_or(1.0),
            cap: cap(numbers.cap),
            teacher_cap: cap(numbers.teacher_cap),
        }
    }
}

/// The tensors that a body takes without biases: hidden states and weight of the student, those of the teacher, and factors.
type Flowing = (Tensor<2>, Tensor<2>, Tensor<2>, Tensor<2>, Tensor<1>);
/// The hidden states, weight and bias of the student, those of the teacher, and factors.
type FlowingBiased = (
    Tensor<2>,
    Tensor<2>,
    Tensor<1>,
    Tensor<2>,
    Tensor<2>,
    Tensor<1>,
    Tensor<1>,
);

fn plain((hidden, weight, teacher_hidden, teacher_weight, factors): Flowing) -> Inputs {
    Inputs {
        hidden,
        weight,
        bias: None,
        teacher_hidden,
        teacher_weight,
        teacher_bias: None,
        factors,
    }
}

fn biased(
    (hidden, weight, bias, teacher_hidden, teacher_weight, teacher_bias, factors): FlowingBiased,
) -> Inputs {
    Inputs {
        hidden,
        weight,
        bias: Some(bias),
        teacher_hidden,
        teacher_weight,
        teacher_bias: Some(teacher_bias),
        factors,
    }
}

/// Runs the divergence of a site without biases.
#[track_caller]
pub fn linear_divergence(
    at: At,
    flowing: Flowing,
    numbers: DivergenceNumbers,
    reference: &mut dyn FnMut(Flowing) -> Tensor<1>,
) -> Tensor<1> {
    let _span = at.enter();
    either(&at, plain(flowing), numbers, &mut |inputs| {
        reference((
            inputs.hidden,
            inputs.weight,
            inputs.teacher_hidden,
            inputs.teacher_weight,
            inputs.factors,
        ))
    })
}

/// Runs the divergence of a site with biases.
#[track_caller]
pub fn linear_divergence_biased(
    at: At,
    flowing: FlowingBiased,
    numbers: DivergenceNumbers,
    reference: &mut dyn FnMut(FlowingBiased) -> Tensor<1>,
) -> Tensor<1> {
    let _span = at.enter();
    either(&at, biased(flowing), numbers, &mut |inputs| {
        reference((
            inputs.hidden,
            inputs.weight,
            inputs.bias.expect("a bias went in"),
            inputs.teacher_hidden,
            inputs.teacher_weight,
            inputs.teacher_bias.expect("a bias went in"),
            inputs.factors,
        ))
    })
}

#[track_caller]
fn either(
    at: &At,
    inputs: Inputs,
    numbers: DivergenceNumbers,
    reference: &mut dyn FnMut(Inputs) -> Tensor<1>,
) -> Tensor<1> {
    let operands = Operands::of(inputs, numbers.into(), at.key());
    let route = at.decide(operands.all());
    let captured = Captured::These(&[]);
    live::decided(at, route, Distilled::from(operands), captured, |of| {
        reference(of.inputs)
    })
}

/// Runs [`reference()`] without biases.
#[track_caller]
pub fn linear_divergence_reference(
    flowing: Flowing,
    numbers: DivergenceNumbers,
    key: LinearDivergenceKey,
) -> Tensor<1> {
    reference(plain(flowing), numbers.into(), key)
}

/// Runs [`reference()`] with biases.
#[track_caller]
pub fn linear_divergence_biased_reference(
    flowing: FlowingBiased,
    numbers: DivergenceNumbers,
    key: LinearDivergenceKey,
) -> Tensor<1> {
    reference(biased(flowing), numbers.into(), key)
}
