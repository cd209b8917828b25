use super::{Inputs, Settings, sparsity};
use crate::ops::define::{backward, operands};
use crate::ops::operands::{self, Described, Facts, Mismatch, checked, require};
use crate::semantics::{Clamp, GluKey, Projections, TopK};
use burn::backend::{DispatchTensor, Shape};
use burn::tensor::{DType, Tensor};

const OP: &str = "GLU";

operands! {
    /// The checked operands of a gated linear unit.
    Operands<T> {
        /// Returns the gate, or the tensor that holds gate and up.
        first: One,
        /// Returns the projection that the gate multiplies, if it is a separate tensor.
        up: Maybe,
    }
    numbers {
        /// Returns the numbers of the call.
        settings: Settings,
        /// Returns the variant to compute.
        key: GluKey,
    }
}

/// Gate and up, or their gradients, laid out as the key states.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Projected<T> {
    /// Two tensors of one shape.
    Separate {
        /// The gate.
        gate: T,
        /// The projection that the gate multiplies.
        up: T,
    },
    /// One tensor `[.., 2n]` with both.
    Packed(T),
}

impl<T: Described> Operands<T> {
    /// Makes the operands. The tensors must be laid out as the key states. The limit must be present exactly if the
    /// key has a clamp, the sparsity exactly if it has a top-k.
    ///
    /// # Errors
    /// Returns an error if the operands don't match the key, if gate and up have different shapes, if a packed axis
    /// is odd, or if a number is outside its range.
    pub fn new(projected: Projected<T>, settings: Settings, key: GluKey) -> Result<Self, Mismatch> {
        let packed = matches!(projected, Projected::Packed(_));
        require!(
            packed == (key.projections != Projections::Separate),
            "GLU: gate and up are {}, but the semantics are {key}",
            if packed {
                "packed in one tensor"
            } else {
                "two tensors"
            }
        );
        match &projected {
            Projected::Separate { gate, up } => require!(
                gate.shape() == up.shape(),
                "GLU: the gate projection is {:?}, but the up projection is {:?}",
                gate.shape().as_slice(),
                up.shape().as_slice()
            ),
            Projected::Packed(gate_up) => require!(
                gate_up.shape().last().is_some_and(|n| n.is_multiple_of(2)),
                "GLU: the packed projection is {:?}; its last axis holds gate and up and must be even",
                gate_up.shape().as_slice()
            ),
        }
        agree("limit", settings.limit, key.clamp == Clamp::Limit, key)?;
        let sparse = key.topk == TopK::Gaussian;
        agree("sparsity", settings.sparsity, sparse, key)?;
        if let Some(limit) = settings.limit {
            require!(
                limit >= 0.0,
                "GLU: the limit of the clamp is {limit}; it must be a number that is not negative"
            );
        }
        if let Some(value) = settings.sparsity {
            sparsity::check(value)?;
        }
        let (first, up) = projected.into_parts();
        Ok(Self {
            first,
            up,
            settings,
            key,
        })
    }

    /// Returns the common dtype of all tensors.
    ///
    /// # Errors
    /// Returns an error if the dtypes differ, or if kernels don't take the dtype.
    pub fn dtype(&self) -> Result<DType, Mismatch> {
        match self.projected() {
            Projected::Separate { gate, up } => {
                operands::one_dtype(OP, [("the gate", gate), ("up", up)])
            }
            Projected::Packed(gate_up) => operands::one_dtype(OP, [("gate and up", gate_up)]),
        }
    }

    /// Returns the shape of the result, which is that of the gate.
    pub(crate) fn result(&self) -> Shape {
        let mut shape = self.first.shape();
        if let (None, Some(last)) = (&self.up, shape.as_mut_slice().last_mut()) {
            *last /= 2;
        }
        shape
    }

    /// Adds the gradient of the result, from which the gradients of the tensors are computed.
    ///
    /// # Errors
    /// Returns an error if `dy` does not have the shape and dtype of the result, or if dtypes differ.
    pub fn backward(self, dy: T) -> Result<Backward<T>, Mismatch> {
        let dtype = self.dtype()?;
        operands::like(OP, ("dy", &dy), ("the result", &self.result(), dtype))?;
        Ok(Backward { operands: self, dy })
    }
}

impl<T> Operands<T> {
    /// Returns references to gate and up.
    pub fn projected(&self) -> Projected<&T> {
        Projected::of(&self.first, self.up.as_ref())
    }

    /// Returns gate and up.
    pub fn into_projected(self) -> Projected<T> {
        Projected::of(self.first, self.up)
    }
}

impl<T> Projected<T> {
    fn of(first: T, up: Option<T>) -> Self {
        match up {
            Some(up) => Self::Separate { gate: first, up },
            None => Self::Packed(first),
        }
    }

    fn into_parts(self) -> (T, Option<T>) {
        match self {
            Self::Separate { gate, up } => (gate, Some(up)),
            Self::Packed(gate_up) => (gate_up, None),
        }
    }

    pub(crate) fn as_ref(&self) -> Projected<&T> {
        match self {
            Self::Separate { gate, up } => Projected::Separate { gate, up },
            Self::Packed(gate_up) => Projected::Packed(gate_up),
        }
    }

    pub(crate) fn map<U>(self, mut each: impl FnMut(T) -> U) -> Projected<U> {
        match self {
            Self::Separate { gate, up } => Projected::Separate {
                gate: each(gate),
                up: each(up),
            },
            Self::Packed(gate_up) => Projected::Packed(each(gate_up)),
        }
    }

    /// Returns gate and up, or the one tensor that holds both.
    pub(crate) fn into_tensors(self) -> impl Iterator<Item = T> {
        let (first, up) = self.into_parts();
        std::iter::once(first).chain(up)
    }
}

impl Operands<DispatchTensor> {
    /// # Panics
    /// Panics if [`Operands::new`] returns an error.
    #[track_caller]
    pub(crate) fn of<const D: usize>(inputs: Inputs<D>, settings: Settings, key: GluKey) -> Self {
        let projected = inputs.map(Tensor::into_dispatch);
        checked(Self::new(projected, settings, key))
    }

    pub(crate) fn into_inputs<const D: usize>(self) -> Inputs<D> {
        self.into_projected().map(Tensor::from_dispatch)
    }
}

backward! {
    /// The operands of the backward pass.
    Backward<T> of Operands<T> {
        /// Returns the gradient of the result.
        dy: T,
    }
}

/// Panics if [`Operands::new`] would return an error.
#[track_caller]
pub(super) fn check<const D: usize>(inputs: &Inputs<D>, settings: Settings, key: GluKey) {
    let projected = inputs.as_ref().map(Facts::from);
    checked(Operands::new(projected, settings, key));
}

fn agree(what: &str, given: Option<f64>, expected: bool, key: GluKey) -> Result<(), Mismatch> {
    require!(
        given.is_some() == expected,
        "GLU: a {what} is {}, but the semantics are {key}",
        if expected { "missing" } else { "given" }
    );
    Ok(())
}
