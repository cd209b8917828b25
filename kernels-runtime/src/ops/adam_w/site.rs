use super::live::Step;
use crate::dispatch::At;
use crate::live::{self, Captured};
use crate::ops::adam_w::{Operands, Settings, State};
use burn::tensor::Tensor;

/// Runs a step of a site. `moments` is `None` before the first step; only the kernel needs zeros then.
#[track_caller]
pub fn adam_w<const D: usize>(
    at: At,
    parameter: Tensor<D>,
    gradient: Tensor<D>,
    moments: Option<[Tensor<D>; 2]>,
    settings: Settings,
    mut reference: impl FnMut(Tensor<D>, Tensor<D>, Option<[Tensor<D>; 2]>) -> State<Tensor<D>>,
) -> State<Tensor<D>> {
    let _span = at.enter();
    let parameter = parameter.into_dispatch();
    let gradient = gradient.into_dispatch();
    if !at.peek([&parameter, &gradient]).is_fused() {
        // Counts the call, and panics if the policy requires the kernel.
        at.decide([&parameter, &gradient]);
        let [parameter, gradient] = [parameter, gradient].map(Tensor::from_dispatch);
        return reference(parameter, gradient, moments);
    }
    let parameter = Tensor::from_dispatch(parameter);
    let [moment_1, moment_2] =
        moments.unwrap_or_else(|| [parameter.zeros_like(), parameter.zeros_like()]);
    let state = State {
        parameter,
        moment_1,
        moment_2,
    };
    let gradient = Tensor::from_dispatch(gradient);
    let operands = Operands::of(state, gradient, settings);
    let body = |step: Step<D>| {
        let State {
            parameter,
            moment_1,
            moment_2,
        } = step.state;
        reference(parameter, step.gradient, Some([moment_1, moment_2]))
    };
    let route = at.decide(operands.all());
    let captured = Captured::These(&[]);
    live::decided(&at, route, Step::from(operands), captured, body)
}

/// Counts a step of a site whose condition is false. Panics if the policy requires the kernel.
#[track_caller]
pub fn declined<const D: usize>(at: At, parameter: Tensor<D>) -> Tensor<D> {
    let _span = at.enter();
    let parameter = parameter.into_dispatch();
    at.decide([&parameter]);
    Tensor::from_dispatch(parameter)
}
