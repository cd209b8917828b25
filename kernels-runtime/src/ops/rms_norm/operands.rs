use super::{Inputs, Settings};
use crate::ops::compute_dtype;
use crate::ops::define::{backward, operands};
use crate::ops::operands::{self, Described, Facts, Mismatch, checked, require};
use crate::semantics::{Gating, Groups, RmsNormKey, Scale};
use burn::backend::{DispatchTensor, Shape};
use burn::tensor::{DType, Tensor};

pub(super) const OP: &str = "RMSNorm";

operands! {
    /// The checked operands of an RMSNorm.
    Operands<T> {
        /// Returns the tensor to normalise, `[.., n]`.
        x: One,
        /// Returns the weight, `[n]`.
        weight: Maybe,
        /// Returns the gate, with the shape of `x`.
        gate: Maybe,
    }
    numbers {
        /// Returns the numbers of the call.
        settings: Settings,
        /// Returns the variant to compute.
        key: RmsNormKey,
    }
}

/// One value for each tensor of a call: the tensors themselves, their descriptions, or their
/// gradients.
#[derive(Clone, Debug)]
pub struct Parts<T> {
    /// For `x`, `[.., n]`.
    pub x: T,
    /// For the weight, `[n]`. In operands, present exactly if the key has a weight.
    pub weight: Option<T>,
    /// For the gate, with the shape of `x`. In operands, present exactly if the key has a gate.
    pub gate: Option<T>,
}

impl<T: Described> Operands<T> {
    /// Makes the operands. `x` is `[.., n]`. `weight` is `[n]`; it must be present exactly if the key has one. So
    /// must `gate`, which has the shape of `x`. The group size must divide `n`, and be present exactly if the key has
    /// many groups.
    ///
    /// # Errors
    /// Returns an error if the operands don't match the key, or if the shapes don't fit together.
    pub fn new(
        x: T,
        weight: Option<T>,
        gate: Option<T>,
        settings: Settings,
        key: RmsNormKey,
    ) -> Result<Self, Mismatch> {
        agree(
            "a weight",
            weight.is_some(),
            key.scale == Scale::Weight,
            key,
        )?;
        agree("a gate", gate.is_some(), key.gating != Gating::None, key)?;
        let grouped = key.groups == Groups::Many;
        agree("a group size", settings.group_size.is_some(), grouped, key)?;
        let shape = x.shape();
        let Some(n) = shape.last().copied() else {
            return Err(Mismatch::new("RMSNorm: x has no axis to normalise"));
        };
        if let Some(weight) = &weight {
            let [elements] = operands::dims(OP, "the weight", weight)?;
            require!(
                elements == n,
                "RMSNorm: the weight has {elements} elements, but the last axis of x, {:?}, has {n}",
                shape.as_slice()
            );
        }
        if let Some(gate) = &gate {
            require!(
                gate.shape() == shape,
                "RMSNorm: the gate is {:?}, but x is {:?}",
                gate.shape().as_slice(),
                shape.as_slice()
            );
        }
        if let Some(size) = settings.group_size {
            require!(
                size > 0 && n.is_multiple_of(size),
                "RMSNorm: the group size {size} does not divide the last axis of x, {:?}",
                shape.as_slice()
            );
        }
        Ok(Self {
            x,
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
        let others = [("the weight", &self.weight), ("the gate", &self.gate)];
        let others = others
            .into_iter()
            .filter_map(|(name, tensor)| Some((name, tensor.as_ref()?)));
        operands::one_dtype(OP, std::iter::once(("x", &self.x)).chain(others))
    }

    /// Returns the shape and dtype of `rstd`: one value for each normalised group of each row, in f32 (f64
    /// for f64 tensors).
    pub(crate) fn rstd(&self) -> (Shape, DType) {
        self.settings.rstd_of(&self.x)
    }

    /// Adds the tensors that gradients are computed from: `dy`, the gradient of the result, and the `rstd` that
    /// the forward pass returned. `weight_gradient` is true if the gradient of the weight is wanted.
    ///
    /// # Errors
    /// Returns an error if `dy` does not have the shape and dtype of `x`, if `rstd` does not have one value for each
    /// group in the right dtype, if the gradient of a missing weight is wanted, or if dtypes differ.
    pub fn backward(self, dy: T, rstd: T, weight_gradient: bool) -> Result<Backward<T>, Mismatch> {
        let dtype = self.dtype()?;
        operands::like(OP, ("dy", &dy), ("x", &self.x.shape(), dtype))?;
        let (shape, wide) = self.rstd();
        require!(
            rstd.shape().num_elements() == shape.num_elements() && rstd.dtype() == wide,
            "RMSNorm: rstd is {:?} of {:?}, but there are {} of {wide:?}",
            rstd.shape().as_slice(),
            rstd.dtype(),
            shape.num_elements()
        );
        require!(
            self.weight.is_some() || !weight_gradient,
            "RMSNorm: the gradient of a weight is wanted, but {} has none",
            self.key
        );
        Ok(Backward {
            operands: self,
            dy,
            rstd,
            weight_gradient,
        })
    }
}

impl Settings {
    /// Returns the shape and dtype of the `rstd` of a tensor.
    pub(in crate::ops) fn rstd_of(self, x: &impl Described) -> (Shape, DType) {
        let mut shape = x.shape();
        if let Some(last) = shape.as_mut_slice().last_mut() {
            *last = match self.group_size {
                Some(size) => *last / size,
                None => 1,
            };
        }
        (shape, compute_dtype(x.dtype()))
    }
}

#[cfg(feature = "npu")]
impl<T> Parts<T> {
    pub(crate) fn map<U>(self, mut each: impl FnMut(T) -> U) -> Parts<U> {
        Parts {
            x: each(self.x),
            weight: self.weight.map(&mut each),
            gate: self.gate.map(each),
        }
    }
}

impl<T> Operands<T> {
    /// Returns `x`, weight and gate.
    pub fn into_parts(self) -> (T, Option<T>, Option<T>) {
        (self.x, self.weight, self.gate)
    }
}

impl Operands<DispatchTensor> {
    /// # Panics
    /// Panics if [`Operands::new`] returns an error.
    #[track_caller]
    pub(crate) fn of<const D: usize>(
        inputs: Inputs<D>,
        settings: Settings,
        key: RmsNormKey,
    ) -> Self {
        checked(Self::new(
            inputs.x.into_dispatch(),
            inputs.weight.map(Tensor::into_dispatch),
            inputs.gate.map(Tensor::into_dispatch),
            settings,
            key,
        ))
    }

    pub(crate) fn into_inputs<const D: usize>(self) -> Inputs<D> {
        Inputs {
            x: Tensor::from_dispatch(self.x),
            weight: self.weight.map(Tensor::from_dispatch),
            gate: self.gate.map(Tensor::from_dispatch),
        }
    }
}

backward! {
    /// The operands of the backward pass.
    Backward<T> of Operands<T> {
        /// Returns the gradient of the result.
        dy: T,
        /// Returns the reciprocal of the root mean square, from the forward pass.
        rstd: T,
    }
    flag {
        /// Returns whether the gradient of the weight is wanted.
        weight_gradient
    }
}

impl<T: Described> Backward<T> {
    /// Checks a gradient of `x` by other operations.
    ///
    /// # Errors
    /// Returns an error if it does not have the shape and dtype of `x`.
    pub(super) fn check_before(&self, before: &T) -> Result<(), Mismatch> {
        let x = self.operands().x();
        operands::like(
            OP,
            ("a gradient of x", before),
            ("x", &x.shape(), x.dtype()),
        )
    }
}

/// Panics if [`Operands::new`] would return an error.
#[track_caller]
pub(super) fn check<const D: usize>(inputs: &Inputs<D>, settings: Settings, key: RmsNormKey) {
    checked(Operands::<Facts>::new(
        (&inputs.x).into(),
        inputs.weight.as_ref().map(Into::into),
        inputs.gate.as_ref().map(Into::into),
        settings,
        key,
    ));
}

fn agree(what: &str, given: bool, expected: bool, key: RmsNormKey) -> Result<(), Mismatch> {
    require!(
        given == expected,
        "RMSNorm: {what} is {}, but the semantics are {key}",
        if given { "given" } else { "missing" }
    );
    Ok(())
}
