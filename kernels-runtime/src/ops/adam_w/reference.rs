use super::{Settings, State, check};
use crate::kernel::rounded;
use crate::ops::{compute_dtype, same_dtype_as};
use burn::tensor::Tensor;

/// Computes a step with plain tensor operations.
///
/// # Panics
/// Panics as [`fused`](super::fused) does.
#[track_caller]
pub fn reference<const D: usize>(
    state: State<Tensor<D>>,
    gradient: Tensor<D>,
    settings: Settings,
) -> State<Tensor<D>> {
    check(&state, &gradient, settings);
    let dtype = state.parameter.dtype();
    let wide = |tensor| same_dtype_as(tensor, compute_dtype(dtype));
    let State {
        parameter,
        moment_1,
        moment_2,
    } = state.map(wide);
    let gradient = wide(gradient);
    let Settings {
        learning_rate,
        beta_1,
        beta_2,
        epsilon,
        weight_decay,
        ..
    } = settings;
    let (correction_1, correction_2) = settings.corrections();

    let moment_1 = rounded(moment_1 * beta_1) + rounded(gradient.clone() * (1.0 - beta_1));
    let moment_2 = rounded(moment_2 * beta_2) + rounded(gradient.square() * (1.0 - beta_2));
    let update =
        moment_1.clone() / correction_1 / ((moment_2.clone() / correction_2).sqrt() + epsilon);
    let decayed = parameter * (1.0 - learning_rate * weight_decay);
    let parameter = rounded(decayed) - rounded(update * learning_rate);

    let state = State {
        parameter,
        moment_1,
        moment_2,
    };
    state.map(|tensor| same_dtype_as(tensor, dtype))
}
