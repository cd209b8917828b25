use super::{Settings, State};
use burn::tensor::Tensor;

/// Refuses shapes that differ and numbers that no step has.
#[track_caller]
pub(crate) fn check<const D: usize>(
    state: &State<Tensor<D>>,
    gradient: &Tensor<D>,
    settings: Settings,
) {
    let shape = state.parameter.dims();
    for (what, tensor) in [
        ("the first moment", &state.moment_1),
        ("the second moment", &state.moment_2),
        ("the gradient", gradient),
    ] {
        assert!(
            tensor.dims() == shape,
            "AdamW: {what} is {:?}, but the parameter {shape:?}",
            tensor.dims()
        );
    }
    check_settings(settings);
}

#[track_caller]
fn check_settings(settings: Settings) {
    let Settings {
        learning_rate,
        beta_1,
        beta_2,
        epsilon,
        weight_decay,
        step,
    } = settings;
    for (name, beta) in [("β₁", beta_1), ("β₂", beta_2)] {
        assert!(
            (0.0..1.0).contains(&beta),
            "AdamW: {name} is {beta}, which is not from 0 to below 1"
        );
    }
    for (name, number) in [
        ("the learning rate", learning_rate),
        ("the weight decay", weight_decay),
    ] {
        assert!(number.is_finite(), "AdamW: {name} is {number}");
    }
    assert!(
        epsilon.is_finite() && epsilon >= 0.0,
        "AdamW: ε is {epsilon}, which is no number from 0 on"
    );
    assert!(step > 0, "AdamW: steps are counted from 1");
}
