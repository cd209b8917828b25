use super::{Settings, State};
use crate::ops::define::operands;
use crate::ops::operands::{self, Described, Facts, Mismatch, checked, require};
use burn::backend::DispatchTensor;
use burn::tensor::{DType, Tensor};

operands! {
    /// The checked operands of a step, in the order in which `limits` functions receive them.
    Operands<T> {
        /// Returns θ, the parameter.
        parameter: One,
        /// Returns m, the first moment.
        moment_1: One,
        /// Returns v, the second moment.
        moment_2: One,
        /// Returns g, the gradient.
        gradient: One,
    }
    numbers {
        /// Returns the numbers of the step.
        settings: Settings,
    }
}

impl<T: Described> Operands<T> {
    /// Makes the operands of tensors that all have one shape.
    ///
    /// # Errors
    /// Returns an error if the shapes differ, or if a number is outside the range that [`Settings`] documents.
    pub fn new(state: State<T>, gradient: T, settings: Settings) -> Result<Self, Mismatch> {
        let State {
            parameter,
            moment_1,
            moment_2,
        } = state;
        let shape = parameter.shape();
        for (what, tensor) in [
            ("the first moment", &moment_1),
            ("the second moment", &moment_2),
            ("the gradient", &gradient),
        ] {
            require!(
                tensor.shape() == shape,
                "AdamW: {what} is {:?}, but the parameter {:?}",
                tensor.shape().as_slice(),
                shape.as_slice()
            );
        }
        check_settings(settings)?;
        Ok(Self {
            parameter,
            moment_1,
            moment_2,
            gradient,
            settings,
        })
    }

    /// Returns the common dtype of all tensors.
    ///
    /// # Errors
    /// Returns an error if the dtypes differ, or if kernels don't take the dtype.
    pub fn dtype(&self) -> Result<DType, Mismatch> {
        let names = [
            "the parameter",
            "the first moment",
            "the second moment",
            "the gradient",
        ];
        operands::one_dtype("AdamW", names.into_iter().zip(self.tensors()))
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
        checked(Self::new(state, gradient.into_dispatch(), settings))
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
    checked(Operands::new(state, gradient.into(), settings));
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
            "AdamW: {name} is {number}, which is no finite number"
        );
    }
    require!(
        epsilon.is_finite() && epsilon >= 0.0,
        "AdamW: ε is {epsilon}, which is no number from 0 on"
    );
    require!(step > 0, "AdamW: steps are counted from 1");
    Ok(())
}
