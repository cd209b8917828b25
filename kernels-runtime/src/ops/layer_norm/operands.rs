use super::{Inputs, Settings};
use crate::ops::compute_dtype;
use crate::ops::define::{backward, operands};
use crate::ops::operands::{self, Described, Facts, Mismatch, checked, require};
use crate::semantics::{LayerNormKey, Shift};
use burn::backend::{DispatchTensor, Shape};
use burn::tensor::{DType, Tensor};
use serde::{Deserialize, Serialize};

const OP: &str = "LayerNorm";

operands! {
    /// The checked operands of a LayerNorm.
    Operands<T> {
        /// Returns the tensor to normalise, `[.., n]`.
        x: One,
        /// Returns the weight, `[n]`.
        weight: One,
        /// Returns the bias, `[n]`.
        bias: Maybe,
    }
    numbers {
        /// Returns the numbers of the call.
        settings: Settings,
        /// Returns the variant to compute.
        key: LayerNormKey,
    }
}

/// The gradients that are wanted beside that of `x`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wanted {
    /// True if the gradient of the weight is wanted.
    pub weight: bool,
    /// True if the gradient of the bias is wanted.
    pub bias: bool,
}

impl<T: Described> Operands<T> {
    /// Makes the operands. `x` is `[.., n]`, `weight` is `[n]`, and so is `bias`, which must be present exactly if the
    /// key has one.
    ///
    /// # Errors
    /// Returns an error if the operands don't match the key, or if the shapes don't fit together.
    pub fn new(
        x: T,
        weight: T,
        bias: Option<T>,
        settings: Settings,
        key: LayerNormKey,
    ) -> Result<Self, Mismatch> {
        require!(
            bias.is_some() == (key.shift == Shift::Bias),
            "LayerNorm: a bias is {}, but the semantics are {key}",
            if bias.is_some() { "given" } else { "missing" }
        );
        let shape = x.shape();
        let Some(n) = shape.last().copied() else {
            return Err(Mismatch::new("LayerNorm: x has no axis to normalise"));
        };
        for (name, parameter) in [("the weight", Some(&weight)), ("the bias", bias.as_ref())] {
            let Some(parameter) = parameter else { continue };
            let [elements] = operands::dims(OP, name, parameter)?;
            require!(
                elements == n,
                "LayerNorm: {name} has {elements} elements, but the last axis of x, {:?}, has {n}",
                shape.as_slice()
            );
        }
        Ok(Self {
            x,
            weight,
            bias,
            settings,
            key,
        })
    }

    /// Returns the common dtype of all tensors.
    ///
    /// # Errors
    /// Returns an error if the dtypes differ, or if kernels don't take the dtype.
    pub fn dtype(&self) -> Result<DType, Mismatch> {
        let bias = self.bias.as_ref().map(|bias| ("the bias", bias));
        let always = [("x", &self.x), ("the weight", &self.weight)];
        operands::one_dtype(OP, always.into_iter().chain(bias))
    }

    /// Returns the shape and dtype of a statistic: one value for each row, in f32 (f64 for f64 tensors).
    pub(crate) fn statistic(&self) -> (Shape, DType) {
        let mut shape = self.x.shape();
        if let Some(last) = shape.as_mut_slice().last_mut() {
            *last = 1;
        }
        (shape, compute_dtype(self.x.dtype()))
    }

    /// Adds the tensors that gradients are computed from: `dy`, the gradient of the result, and the statistics that
    /// the forward pass returned.
    ///
    /// # Errors
    /// Returns an error if `dy` does not have the shape and dtype of `x`, if a statistic does not have one value for
    /// each row in the right dtype, if the gradient of a missing bias is wanted, or if dtypes differ.
    pub fn backward(
        self,
        dy: T,
        mean: T,
        rstd: T,
        wanted: Wanted,
    ) -> Result<Backward<T>, Mismatch> {
        let dtype = self.dtype()?;
        operands::like(OP, ("dy", &dy), ("x", &self.x.shape(), dtype))?;
        let (shape, wide) = self.statistic();
        for (name, given) in [("the mean", &mean), ("rstd", &rstd)] {
            require!(
                given.shape().num_elements() == shape.num_elements() && given.dtype() == wide,
                "LayerNorm: {name} is {:?} of {:?}, but there are {} of {wide:?}",
                given.shape().as_slice(),
                given.dtype(),
                shape.num_elements()
            );
        }
        require!(
            self.bias.is_some() || !wanted.bias,
            "LayerNorm: the gradient of a bias is wanted, but {} has none",
            self.key
        );
        Ok(Backward {
            operands: self,
            dy,
            mean,
            rstd,
            wanted,
        })
    }
}

impl Operands<DispatchTensor> {
    /// # Panics
    /// Panics if [`Operands::new`] returns an error.
    #[track_caller]
    pub(crate) fn of<const D: usize>(
        inputs: Inputs<D>,
        settings: Settings,
        key: LayerNormKey,
    ) -> Self {
        checked(Self::new(
            inputs.x.into_dispatch(),
            inputs.weight.into_dispatch(),
            inputs.bias.map(Tensor::into_dispatch),
            settings,
            key,
        ))
    }

    pub(crate) fn into_inputs<const D: usize>(self) -> Inputs<D> {
        Inputs {
            x: Tensor::from_dispatch(self.x),
            weight: Tensor::from_dispatch(self.weight),
            bias: self.bias.map(Tensor::from_dispatch),
        }
    }
}

backward! {
    /// The operands of the backward pass.
    Backward<T> of Operands<T> {
        /// Returns the gradient of the result.
        dy: T,
        /// Returns the mean of each row, from the forward pass.
        mean: T,
        /// Returns the reciprocal of the standard deviation of each row, from the forward pass.
        rstd: T,
    }
    wanted {
        /// Returns the gradients that are wanted.
        wanted: Wanted
    }
}

/// Panics if [`Operands::new`] would return an error.
#[track_caller]
pub(super) fn check<const D: usize>(inputs: &Inputs<D>, settings: Settings, key: LayerNormKey) {
    checked(Operands::<Facts>::new(
        (&inputs.x).into(),
        (&inputs.weight).into(),
        inputs.bias.as_ref().map(Into::into),
        settings,
        key,
    ));
}
