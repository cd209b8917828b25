use super::{Inputs, Settings};
use crate::ops::define::operands;
use crate::ops::operands::{self, Described, Facts, Mismatch, checked, require};
use crate::ops::rms_norm;
use crate::semantics::AddRmsNormKey;
use burn::backend::DispatchTensor;
use burn::tensor::{DType, Tensor};

const OP: &str = "AddRMSNorm";

operands! {
    /// The checked operands of a sum and its RMSNorm.
    Operands<T> {
        /// Returns the first term of the sum, `[.., n]`.
        x: One,
        /// Returns the second term, with the shape of `x`.
        residual: One,
        /// Returns the weight, `[n]`.
        weight: Maybe,
        /// Returns the gate, with the shape of `x`.
        gate: Maybe,
    }
    numbers {
        /// Returns the numbers of the call.
        settings: Settings,
        /// Returns the variant to compute.
        key: AddRmsNormKey,
    }
}

impl<T: Described> Operands<T> {
    /// Makes the operands. `x` and `residual` are `[.., n]`, of one shape; the others are those of an RMSNorm of `x`.
    ///
    /// # Errors
    /// Returns an error if the operands don't match the key, or if the shapes don't fit together.
    pub fn new(
        x: T,
        residual: T,
        weight: Option<T>,
        gate: Option<T>,
        settings: Settings,
        key: AddRmsNormKey,
    ) -> Result<Self, Mismatch> {
        require!(
            residual.shape() == x.shape(),
            "{OP}: the residual is {:?}, but x is {:?}",
            residual.shape().as_slice(),
            x.shape().as_slice()
        );
        // The sum has the shape of `x`.
        let norm = rms_norm::Operands::new(x, weight, gate, settings, key.norm());
        let (x, weight, gate) = norm.map_err(|mismatch| mismatch.of(OP))?.into_parts();
        Ok(Self {
            x,
            residual,
            weight,
            gate,
            settings,
            key,
        })
    }

    /// Returns the common dtype of all tensors.
    ///
    /// # Errors
    /// Returns an error if the dtypes differ, or if kernels don't take the dtype.
    pub fn dtype(&self) -> Result<DType, Mismatch> {
        let others = [("the weight", self.weight()), ("the gate", self.gate())];
        let others = others
            .into_iter()
            .filter_map(|(name, tensor)| Some((name, tensor?)));
        let terms = [("x", &self.x), ("the residual", &self.residual)];
        operands::one_dtype(OP, terms.into_iter().chain(others))
    }

    /// Returns the shape and dtype of `rstd`, which are those of an RMSNorm of `x`.
    #[cfg(any(feature = "gpu", feature = "remote"))]
    pub(crate) fn rstd(&self) -> (burn::backend::Shape, DType) {
        self.settings.rstd_of(&self.x)
    }

    /// Returns the operands of the norm of the sum. `sum` adds the two terms.
    pub(super) fn norm_of(self, sum: impl FnOnce(T, T) -> T) -> rms_norm::Operands<T> {
        let shape = self.x.shape();
        let sum = sum(self.x, self.residual);
        assert_eq!(sum.shape(), shape, "a sum is like its terms");
        let (settings, key) = (self.settings, self.key.norm());
        checked(rms_norm::Operands::new(
            sum,
            self.weight,
            self.gate,
            settings,
            key,
        ))
    }
}

impl Operands<DispatchTensor> {
    /// # Panics
    /// Panics if [`Operands::new`] returns an error.
    #[track_caller]
    pub(crate) fn of<const D: usize>(
        inputs: Inputs<D>,
        settings: Settings,
        key: AddRmsNormKey,
    ) -> Self {
        checked(Self::new(
            inputs.x.into_dispatch(),
            inputs.residual.into_dispatch(),
            inputs.weight.map(Tensor::into_dispatch),
            inputs.gate.map(Tensor::into_dispatch),
            settings,
            key,
        ))
    }

    pub(crate) fn into_inputs<const D: usize>(self) -> Inputs<D> {
        Inputs {
            x: Tensor::from_dispatch(self.x),
            residual: Tensor::from_dispatch(self.residual),
            weight: self.weight.map(Tensor::from_dispatch),
            gate: self.gate.map(Tensor::from_dispatch),
        }
    }
}

/// Panics if [`Operands::new`] would return an error.
#[track_caller]
pub(super) fn check<const D: usize>(inputs: &Inputs<D>, settings: Settings, key: AddRmsNormKey) {
    checked(Operands::<Facts>::new(
        (&inputs.x).into(),
        (&inputs.residual).into(),
        inputs.weight.as_ref().map(Into::into),
        inputs.gate.as_ref().map(Into::into),
        settings,
        key,
    ));
}
