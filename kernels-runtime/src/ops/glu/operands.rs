use super::{Inputs, Settings, sparsity};
use crate::ops::define::{backward, operands};
use crate::ops::operands::{self, Described, Facts, Mismatch, checked, require};
use crate::semantics::{Clamp, GluKey, Projections, TopK};
use burn::backend::{DispatchTensor, Shape};
use burn::tensor::{DType, Tensor};

const OP: &str = "GLU";

operands! {
    /// The operands of a gated linear unit, which go together.
    Operands<T> {
        /// The gate, or the tensor that holds gate and up.
        first: One,
        /// The projection that the gate gates, if it is a tensor of its own.
        up: Maybe,
    }
    numbers {
        /// The numbers.
        settings: Settings,
        /// Returns the variant to compute.
        key: GluKey,
    }
}

/// Gate and up, or their gradients, as the key lays them out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Projected<T> {
    /// Two tensors of one shape.
    Separate {
        /// The gate.
        gate: T,
        /// The projection that the gate gates.
        up: T,
    },
    /// Both in one, `[.., 2n]`.
    Packed(T),
}

impl<T: Described> Operands<T> {
    /// The tensors are laid out as the key says, and the settings are there exactly if the key says
    /// that there are such.
    ///
    /// # Errors
    /// The operands are not those of the key, gate and up have different shapes, a packed axis is odd,
    /// or a number is outside its range.
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

    /// The one dtype of all tensors.
    ///
    /// # Errors
    /// They have different ones, or one that kernels don't take.
    pub fn dtype(&self) -> Result<DType, Mismatch> {
        match self.projected() {
            Projected::Separate { gate, up } => {
                operands::one_dtype(OP, [("the gate", gate), ("up", up)])
            }
            Projected::Packed(gate_up) => operands::one_dtype(OP, [("gate and up", gate_up)]),
        }
    }

    /// The shape of the result: that of the gate.
    pub(crate) fn result(&self) -> Shape {
        let mut shape = self.first.shape();
        if let (None, Some(last)) = (&self.up, shape.as_mut_slice().last_mut()) {
            *last /= 2;
        }
        shape
    }

    /// Adds the gradient of the result, from which theirs are computed.
    ///
    /// # Errors
    /// `dy` is not like the result, or dtypes differ.
    pub fn backward(self, dy: T) -> Result<Backward<T>, Mismatch> {
        let dtype = self.dtype()?;
        operands::like(OP, ("dy", &dy), ("the result", &self.result(), dtype))?;
        Ok(Backward { operands: self, dy })
    }
}

impl<T> Operands<T> {
    /// Gate and up.
    pub fn projected(&self) -> Projected<&T> {
        Projected::of(&self.first, self.up.as_ref())
    }

    /// Gate and up themselves.
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

    /// Gate and up, or the one that holds both.
    pub(crate) fn into_tensors(self) -> impl Iterator<Item = T> {
        let (first, up) = self.into_parts();
        std::iter::once(first).chain(up)
    }
}

impl Operands<DispatchTensor> {
    /// # Panics
    /// If [`Operands::new`] is an error.
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
    /// The operands of the gradients.
    Backward<T> of Operands<T> {
        /// The gradient of the result.
        dy: T,
    }
}

/// Refuses what [`Operands::new`] does.
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
