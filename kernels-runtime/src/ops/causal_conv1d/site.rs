use super::live::{Convolved, Output};
use super::{Inputs, Operands, reference};
use crate::__private::first_use;
use crate::dispatch::At;
use crate::live::{self, Captured};
use crate::ops::attention::Lengths;
use crate::ops::linear::site::LinearParameters;
use crate::semantics::CausalConv1dKey;
use burn::tensor::Tensor;

/// The inputs, and those before the first tokens with the last ones, if the site has a state.
type Flowing = (Tensor<3>, Option<Tensor<3>>);

/// Runs the short convolution of a site without a state.
#[track_caller]
pub fn causal_conv1d(
    at: At,
    x: Tensor<3>,
    parameters: LinearParameters<'_>,
    lengths: Option<&[usize]>,
    reference: &mut dyn FnMut(Tensor<3>) -> Tensor<3>,
) -> Tensor<3> {
    let _span = at.enter();
    let mut reference = |(x, _): Flowing| (reference(x), None);
    either(&at, (x, None), parameters, lengths, &mut reference).0
}

/// Runs the short convolution of a site with a state.
#[track_caller]
pub fn causal_conv1d_from_state(
    at: At,
    [x, state]: [Tensor<3>; 2],
    parameters: LinearParameters<'_>,
    lengths: Option<&[usize]>,
    reference: &mut dyn FnMut((Tensor<3>, Tensor<3>)) -> (Tensor<3>, Tensor<3>),
) -> (Tensor<3>, Tensor<3>) {
    let _span = at.enter();
    let mut reference = |(x, state): Flowing| {
        let (y, state) = reference((x, state.expect("a state went in")));
        (y, Some(state))
    };
    let (y, state) = either(&at, (x, Some(state)), parameters, lengths, &mut reference);
    (y, state.expect("a state comes out"))
}

#[track_caller]
fn either(
    at: &At,
    (x, state): Flowing,
    parameters: LinearParameters<'_>,
    lengths: Option<&[usize]>,
    reference: &mut dyn FnMut(Flowing) -> Flowing,
) -> Flowing {
    let x = x.into_dispatch();
    if !at.peek([&x]).is_fused() {
        at.decide([&x]);
        return reference((Tensor::from_dispatch(x), state));
    }
    let x = Tensor::from_dispatch(x);
    if at.runs_body_first() {
        let state = state.clone().map(Tensor::detach);
        first_use::run(reference, (x.clone().detach(), state));
    }
    let (weight, bias) = parameters.read();
    let inputs = Inputs {
        x,
        weight,
        bias,
        state,
        lengths: lengths.map_or_else(Lengths::default, Lengths::new),
    };
    let convolved = Convolved::new(inputs, at.key());
    let route = at.decide(Operands::from(&convolved).all());
    let captured = Captured::These(&["weight", "bias"]);
    let found = live::decided(at, route, convolved, captured, |convolved| {
        let Inputs { x, state, .. } = convolved.inputs;
        let (y, state) = reference((x, state));
        Output { y, state }
    });
    (found.y, found.state)
}

/// Runs [`reference()`] without a state.
#[track_caller]
pub fn causal_conv1d_reference(
    x: Tensor<3>,
    parameters: LinearParameters<'_>,
    lengths: Option<&[usize]>,
    key: CausalConv1dKey,
) -> Tensor<3> {
    of_reference((x, None), parameters, lengths, key).0
}

/// Runs [`reference()`] with a state.
#[track_caller]
pub fn causal_conv1d_from_state_reference(
    [x, state]: [Tensor<3>; 2],
    parameters: LinearParameters<'_>,
    lengths: Option<&[usize]>,
    key: CausalConv1dKey,
) -> (Tensor<3>, Tensor<3>) {
    of_reference((x, Some(state)), parameters, lengths, key)
}

#[track_caller]
fn of_reference(
    (x, state): Flowing,
    parameters: LinearParameters<'_>,
    lengths: Option<&[usize]>,
    key: CausalConv1dKey,
) -> (Tensor<3>, Tensor<3>) {
    let (weight, bias) = parameters.read();
    let inputs = Inputs {
        x,
        weight,
        bias,
        state,
        lengths: lengths.map_or_else(Lengths::default, Lengths::new),
    };
    reference(inputs, key)
}
