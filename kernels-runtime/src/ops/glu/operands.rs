use super::{Inputs, Settings, sparsity};
use crate::ops::fused::declare::operation;
use crate::ops::fused::{Backward, Given, Like, Saved};
use crate::ops::operands::{self, Described, Facts, Mismatch, checked, require};
use crate::semantics::{Clamp, GluKey, Projections, TopK};
use burn::backend::{DispatchTensor, Shape};
use burn::tensor::{DType, Tensor};

operation! {
    /// A gated linear unit.
    Glu {
        name: "glu",
        title: "GLU",
        kernel: "npu_fused_swiglu",
        saved: 0,
        recomputed: true,
        dtypes: one_dtype,
    }
    /// The checked operands of a gated linear unit.
    Operands<T> {
        /// The gate, or the tensor that holds gate and up.
        first: One "the gate, or gate and up",
        /// The projection that the gate multiplies, if it is a separate tensor.
        up: Maybe "up",
    }
    numbers {
        /// The numbers of the call.
        settings: Settings,
        /// The variant to compute.
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
    pub fn of_projected(
        projected: Projected<T>,
        settings: Settings,
        key: GluKey,
    ) -> Result<Self, Mismatch> {
        let (first, up) = projected.into_parts();
        Self::new(first, up, settings, key)
    }

    fn check(&self) -> Result<(), Mismatch> {
        let (settings, key) = (self.settings, self.key);
        let packed = self.up.is_none();
        require!(
            packed == (key.projections != Projections::Separate),
            "GLU: gate and up are {}, but the semantics are {key}",
            if packed {
                "packed in one tensor"
            } else {
                "two tensors"
            }
        );
        match self.projected() {
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
        Ok(())
    }

    fn results(&self) -> [Like; 1] {
        [(self.result(), self.first.dtype())]
    }

    fn saved(&self) -> [Saved; 0] {
        []
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
    pub fn backward(self, dy: T) -> Result<Backward<Glu, T>, Mismatch> {
        let wanted: &[bool] = match self.up {
            Some(_) => &[true, true],
            None => &[true],
        };
        Backward::new(self, Given::new(dy), wanted)
    }
}

/// Returns the common dtype of all tensors.
fn one_dtype<T: Described>(of: &Operands<T>) -> Result<DType, Mismatch> {
    match of.projected() {
        Projected::Separate { gate, up } => {
            operands::one_dtype("GLU", [("the gate", gate), ("up", up)])
        }
        Projected::Packed(gate_up) => operands::one_dtype("GLU", [("gate and up", gate_up)]),
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

impl<T> From<Projected<T>> for Each<Option<T>> {
    fn from(gradients: Projected<T>) -> Self {
        let (first, up) = gradients.into_parts();
        Self {
            first: Some(first),
            up,
        }
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
}

impl Operands<DispatchTensor> {
    /// # Panics
    /// Panics if [`Operands::new`] returns an error.
    #[track_caller]
    pub(crate) fn of<const D: usize>(inputs: Inputs<D>, settings: Settings, key: GluKey) -> Self {
        let projected = inputs.map(Tensor::into_dispatch);
        checked(Self::of_projected(projected, settings, key))
    }

    pub(crate) fn into_inputs<const D: usize>(self) -> Inputs<D> {
        self.into_projected().map(Tensor::from_dispatch)
    }
}

/// Panics if [`Operands::new`] would return an error.
#[track_caller]
pub(super) fn check<const D: usize>(inputs: &Inputs<D>, settings: Settings, key: GluKey) {
    let projected = inputs.as_ref().map(Facts::from);
    checked(Operands::of_projected(projected, settings, key));
}

fn agree(what: &str, given: Option<f64>, expected: bool, key: GluKey) -> Result<(), Mismatch> {
    require!(
        given.is_some() == expected,
        "GLU: a {what} is {}, but the semantics are {key}",
        if expected { "missing" } else { "given" }
    );
    Ok(())
}
