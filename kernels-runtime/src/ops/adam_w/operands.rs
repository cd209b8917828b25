use super::{Settings, State};
use crate::ops::fused::declare::operation;
use crate::ops::fused::{Like, Saved};
use crate::ops::operands::{Described, Facts, Mismatch, checked, require};
use burn::backend::DispatchTensor;
use burn::tensor::Tensor;

operation! {
    /// A step of AdamW. The parameter after it is the result, and the moments are results besides.
    AdamW {
        name: "adam_w",
        title: "AdamW",
        kernel: "npu_fused_adam_w",
        saved: 0,
        others: 2,
        no_gradient: true,
    }
    /// The checked operands of a step, in the order in which `limits` functions receive them. All have one shape.
    Operands<T> {
        /// θ, the parameter.
        parameter: One "the parameter",
        /// m, the first moment.
        moment_1: One "the first moment",
        /// v, the second moment.
        moment_2: One "the second moment",
        /// g, the gradient.
        gradient: One "the gradient",
    }
    numbers {
        /// The numbers of the step.
        settings: Settings,
    }
}

impl<T: Described> Operands<T> {
    fn check(&self) -> Result<(), Mismatch> {
        let shape = self.parameter.shape();
        for (what, tensor) in [
            ("the first moment", &self.moment_1),
            ("the second moment", &self.moment_2),
            ("the gradient", &self.gradient),
        ] {
            require!(
                tensor.shape() == shape,
                "AdamW: {what} is {:?}, but the parameter {:?}",
                tensor.shape().as_slice(),
                shape.as_slice()
            );
        }
        check_settings(self.settings)
    }

    fn results(&self) -> [Like; 3] {
        [&self.parameter, &self.moment_1, &self.moment_2]
            .map(|tensor| (tensor.shape(), tensor.dtype()))
    }

    fn saved(&self) -> [Saved; 0] {
        []
    }

    /// Makes the operands of a state.
    ///
    /// # Errors
    /// Returns an error as [`new`](Self::new) does.
    pub fn of_state(state: State<T>, gradient: T, settings: Settings) -> Result<Self, Mismatch> {
        let State {
            parameter,
            moment_1,
            moment_2,
        } = state;
        Self::new(parameter, moment_1, moment_2, gradient, settings)
    }
}

impl<T> Operands<T> {
    /// Returns the tensors that the step changes, and the gradient.
    pub fn into_parts(self) -> (State<T>, T) {
        let state = State {
            parameter: self.parameter,
            moment_1: self.moment_1,
            moment_2: self.moment_2,
        };
        (state, self.gradient)
    }
}

impl Operands<DispatchTensor> {
    /// # Panics
    /// Panics if [`Operands::new`] returns an error.
    #[track_caller]
    pub(crate) fn of<const D: usize>(
        state: State<Tensor<D>>,
        gradient: Tensor<D>,
        settings: Settings,
    ) -> Self {
        let state = state.map(Tensor::into_dispatch);
        checked(Self::of_state(state, gradient.into_dispatch(), settings))
    }
}

/// Panics if [`Operands::new`] would return an error.
#[track_caller]
pub(super) fn check<const D: usize>(
    state: &State<Tensor<D>>,
    gradient: &Tensor<D>,
    settings: Settings,
) {
    let state = State {
        parameter: Facts::from(&state.parameter),
        moment_1: (&state.moment_1).into(),
        moment_2: (&state.moment_2).into(),
    };
    checked(Operands::of_state(state, gradient.into(), settings));
}

fn check_settings(settings: Settings) -> Result<(), Mismatch> {
    let Settings {
        learning_rate,
        beta_1,
        beta_2,
        epsilon,
        weight_decay,
        step,
    } = settings;
    for (name, beta) in [("β₁", beta_1), ("β₂", beta_2)] {
        require!(
            (0.0..1.0).contains(&beta),
            "AdamW: {name} is {beta}, which is not from 0 to below 1"
        );
    }
    for (name, number) in [
        ("the learning rate", learning_rate),
        ("the weight decay", weight_decay),
    ] {
        require!(
            number.is_finite(),
            "AdamW: {name} is {number}, which is not a finite number"
        );
    }
    require!(
        epsilon.is_finite() && epsilon >= 0.0,
        "AdamW: ε is {epsilon}, but must be a number of at least 0"
    );
    require!(step > 0, "AdamW: steps are counted from 1");
    Ok(())
}
