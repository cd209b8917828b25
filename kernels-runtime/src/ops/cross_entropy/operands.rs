use super::{Inputs, Settings};
use crate::ops::compute_dtype;
use crate::ops::define::{backward, operands};
use crate::ops::operands::{self, Described, Facts, Mismatch, checked, require};
use crate::semantics::{CrossEntropyKey, LossReduction};
use burn::backend::{DispatchTensor, Shape};
use burn::tensor::{DType, Tensor};

pub(super) const OP: &str = "Cross-entropy";

operands! {
    /// The checked operands of a cross-entropy. `F` is the type of float tensors, `I` that of integer tensors.
    Operands<F, I>
    floats {
        /// Returns the logits, `[tokens, classes]`.
        logits: One,
    }
    ints {
        /// Returns the class of each token, `[tokens]`.
        targets,
    }
    numbers {
        /// Returns the numbers of the call.
        settings: Settings,
        /// Returns the variant to compute.
        key: CrossEntropyKey,
    }
}

impl<F: Described, I: Described> Operands<F, I> {
    /// Makes the operands. `logits` is `[tokens, classes]`, and `targets` is `[tokens]`.
    ///
    /// # Errors
    /// Returns an error if the shapes don't fit together, if the targets are not integers, or if a number does not match
    /// the key or is out of its range.
    pub fn new(
        logits: F,
        targets: I,
        settings: Settings,
        key: CrossEntropyKey,
    ) -> Result<Self, Mismatch> {
        settings.check(OP, key.cap, key)?;
        let [tokens, _] = operands::dims(OP, "the tensor of logits", &logits)?;
        one_target_each(OP, tokens, &targets)?;
        Ok(Self {
            logits,
            targets,
            settings,
            key,
        })
    }

    /// Returns the dtype of the logits.
    ///
    /// # Errors
    /// Returns an error if kernels don't take the dtype.
    pub fn dtype(&self) -> Result<DType, Mismatch> {
        operands::float(OP, "the tensor of logits", self.logits.dtype())
    }

    /// Returns the number of tokens and of classes.
    pub fn sizes(&self) -> [usize; 2] {
        let shape = self.logits.shape();
        [shape[0], shape[1]]
    }

    /// Returns the shape and dtype of the loss.
    pub(crate) fn result(&self) -> (Shape, DType) {
        let [tokens, _] = self.sizes();
        loss_of(self.key.reduction, tokens, self.logits.dtype())
    }

    /// Returns the shape and dtype of `lse`: one number for each token.
    pub(crate) fn lse(&self) -> (Shape, DType) {
        let [tokens, _] = self.sizes();
        (Shape::new([tokens]), compute_dtype(self.logits.dtype()))
    }

    /// Adds the tensors that the gradient is computed from: `dy`, the gradient of the loss, and `lse`, from the forward
    /// pass. `lse` is empty if the backend's kernel computes it again.
    ///
    /// # Errors
    /// Returns an error if a tensor does not have its shape and dtype, or if kernels don't take the dtype of the logits.
    pub fn backward(self, dy: F, lse: F) -> Result<Backward<F, I>, Mismatch> {
        self.dtype()?;
        let (shape, wide) = self.result();
        operands::like(OP, ("dy", &dy), ("the loss", &shape, wide))?;
        let (shape, wide) = self.lse();
        let shape = match lse.shape().num_elements() {
            0 => Shape::new([0]),
            _ => shape,
        };
        operands::like(OP, ("lse", &lse), ("that of the tokens", &shape, wide))?;
        Ok(Backward {
            operands: self,
            dy,
            lse,
        })
    }
}

/// The bytes that a kernel holds for each token besides results and copies of operands: its target, its loss, and the sums
/// of its logits.
#[cfg(feature = "remote")]
pub(in crate::ops) const BYTES_OF_A_TOKEN: usize = 64;

/// Checks that there is one integer for each token.
pub(in crate::ops) fn one_target_each(
    op: &str,
    tokens: usize,
    targets: &impl Described,
) -> Result<(), Mismatch> {
    let [count] = operands::dims(op, "the tensor of targets", targets)?;
    operands::integers(op, "the targets", targets.dtype())?;
    require!(
        count == tokens,
        "{op}: there are {count} targets, but {tokens} tokens"
    );
    Ok(())
}

/// Returns the shape and dtype of the loss of tokens of a dtype.
pub(in crate::ops) fn loss_of(
    reduction: LossReduction,
    tokens: usize,
    dtype: DType,
) -> (Shape, DType) {
    let elements = match reduction {
        LossReduction::Mean | LossReduction::Sum => 1,
        LossReduction::None => tokens,
    };
    (Shape::new([elements]), compute_dtype(dtype))
}

impl Operands<DispatchTensor, DispatchTensor> {
    /// # Panics
    /// Panics if [`Operands::new`] returns an error.
    #[track_caller]
    pub(crate) fn of(inputs: Inputs, settings: Settings, key: CrossEntropyKey) -> Self {
        checked(Self::new(
            inputs.logits.into_dispatch(),
            inputs.targets.into_dispatch(),
            settings,
            key,
        ))
    }

    pub(crate) fn into_inputs(self) -> Inputs {
        Inputs {
            logits: Tensor::from_dispatch(self.logits),
            targets: Tensor::from_dispatch(self.targets),
        }
    }
}

backward! {
    /// The operands of the backward pass.
    Backward<F, I> of Operands<F, I> {
        /// Returns the gradient of the loss.
        dy: F,
        /// Returns the logarithm of each token's sum of exponentials, or nothing.
        lse: F,
    }
}

/// Panics if [`Operands::new`] would return an error.
#[track_caller]
pub(super) fn check(inputs: &Inputs, settings: Settings, key: CrossEntropyKey) {
    checked(Operands::<Facts, Facts>::new(
        (&inputs.logits).into(),
        (&inputs.targets).into(),
        settings,
        key,
    ));
}
