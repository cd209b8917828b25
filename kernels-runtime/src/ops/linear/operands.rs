use super::Inputs;
use crate::ops::define::{backward, operands};
use crate::ops::operands::{self, Described, Facts, Mismatch, checked, require};
use crate::semantics::{LinearKey, OutputLayout, Shift};
use burn::backend::{DispatchTensor, Shape};
use burn::tensor::{DType, Tensor};
use serde::{Deserialize, Serialize};

const OP: &str = "Linear";

operands! {
    /// The checked operands of a linear layer.
    Operands<T> {
        /// Returns the rows to multiply, `[.., inputs]`.
        x: One,
        /// Returns the weight, `[inputs, outputs]` or `[outputs, inputs]`.
        weight: One,
        /// Returns the bias, `[outputs]`.
        bias: Maybe,
    }
    numbers {
        /// Returns the variant to compute.
        key: LinearKey,
        /// Returns the sizes of the product.
        sizes: Sizes,
    }
}

/// The sizes of the product of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// The number of rows: the product of all axes of `x` but the last.
    pub rows: usize,
    /// The number of elements of a row of `x`.
    pub inputs: usize,
    /// The number of elements of a row of the result.
    pub outputs: usize,
}

/// The gradients that are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wanted {
    /// True if the gradient of `x` is wanted.
    pub x: bool,
    /// True if the gradient of the weight is wanted.
    pub weight: bool,
    /// True if the gradient of the bias is wanted.
    pub bias: bool,
}

impl<T: Described> Operands<T> {
    /// Makes the operands. The shapes are those of [`Inputs`]; the bias must be present exactly if the key has one.
    ///
    /// # Errors
    /// Returns an error if the operands don't match the key, or if the shapes don't fit together.
    pub fn new(x: T, weight: T, bias: Option<T>, key: LinearKey) -> Result<Self, Mismatch> {
        require!(
            bias.is_some() == (key.shift == Shift::Bias),
            "{OP}: a bias is {}, but the semantics are {key}",
            if bias.is_some() { "given" } else { "missing" }
        );
        let shape = x.shape();
        let Some((width, lead)) = shape.as_slice().split_last() else {
            return Err(Mismatch::new("Linear: x has no axis to multiply"));
        };
        let axes: [usize; 2] = operands::dims(OP, "the weight", &weight)?;
        let [inputs, outputs] = match key.layout {
            OutputLayout::InputMajor => axes,
            OutputLayout::OutputMajor => [axes[1], axes[0]],
        };
        require!(
            inputs == *width,
            "{OP}: the weight, {axes:?}, takes {inputs} elements with {key}, but the last axis of x, {:?}, has {width}",
            shape.as_slice()
        );
        if let Some(bias) = &bias {
            let [elements] = operands::dims(OP, "the bias", bias)?;
            require!(
                elements == outputs,
                "{OP}: the bias has {elements} elements, but the weight, {axes:?}, has {outputs} outputs with {key}"
            );
        }
        let sizes = Sizes {
            // Empty tensors may have axes whose product is beyond all memory.
            rows: lead.iter().fold(1, |rows, axis| rows.saturating_mul(*axis)),
            inputs,
            outputs,
        };
        Ok(Self {
            x,
            weight,
            bias,
            key,
            sizes,
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

    /// Returns the shape of the result.
    pub(crate) fn result(&self) -> Shape {
        let mut shape = self.x.shape();
        if let Some(last) = shape.as_mut_slice().last_mut() {
            *last = self.sizes.outputs;
        }
        shape
    }

    /// Adds `dy`, the gradient of the result.
    ///
    /// # Errors
    /// Returns an error if `dy` does not have the shape and dtype of the result, if the gradient of a missing bias is
    /// wanted, or if dtypes differ.
    pub fn backward(self, dy: T, wanted: Wanted) -> Result<Backward<T>, Mismatch> {
        let dtype = self.dtype()?;
        operands::like(OP, ("dy", &dy), ("the result", &self.result(), dtype))?;
        require!(
            self.bias.is_some() || !wanted.bias,
            "{OP}: the gradient of a bias is wanted, but {} has none",
            self.key
        );
        Ok(Backward {
            operands: self,
            dy,
            wanted,
        })
    }
}

impl Operands<DispatchTensor> {
    /// # Panics
    /// Panics if [`Operands::new`] returns an error.
    #[track_caller]
    pub(crate) fn of<const D: usize>(inputs: Inputs<D>, key: LinearKey) -> Self {
        checked(Self::new(
            inputs.x.into_dispatch(),
            inputs.weight.into_dispatch(),
            inputs.bias.map(Tensor::into_dispatch),
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
    }
    wanted {
        /// Returns the gradients that are wanted.
        wanted: Wanted
    }
}

impl<T: Described> Backward<T> {
    /// Checks a gradient of `x` by other operations, to which that of this layer is added.
    ///
    /// # Errors
    /// Returns an error if it does not have the shape and dtype of `x`, or if the gradient of `x` is not wanted, so that
    /// the sum would be lost.
    pub(super) fn check_before(&self, before: &T) -> Result<(), Mismatch> {
        let x = self.operands().x();
        require!(
            self.wanted().x,
            "{OP}: a gradient of x is given, but that of this layer is not wanted"
        );
        operands::like(
            OP,
            ("a gradient of x", before),
            ("x", &x.shape(), x.dtype()),
        )
    }
}

/// Returns the sizes of the product and the shape of the result.
///
/// # Panics
/// Panics if [`Operands::new`] would return an error.
#[track_caller]
pub(super) fn check<const D: usize>(inputs: &Inputs<D>, key: LinearKey) -> (Sizes, Shape) {
    let operands = checked(Operands::<Facts>::new(
        (&inputs.x).into(),
        (&inputs.weight).into(),
        inputs.bias.as_ref().map(Into::into),
        key,
    ));
    (operands.sizes(), operands.result())
}
