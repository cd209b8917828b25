use super::Settings;
use crate::ops::compute_dtype;
use crate::ops::fused::declare::operation;
use crate::ops::fused::{Like, Saved};
use crate::ops::operands::{self, Described, Mismatch, require};
use crate::semantics::{CrossEntropyKey, LossReduction};
use burn::backend::Shape;
use burn::tensor::DType;

pub(super) const OP: &str = "Cross-entropy";

operation! {
    /// The cross-entropy. The forward pass keeps `lse`, the logarithm of each token's sum of exponentials. `lse` of an
    /// ignored token is 0. It is empty if the backward pass computes it again.
    CrossEntropy {
        name: "cross_entropy",
        title: "Cross-entropy",
        kernel: "npu_fused_cross_entropy",
        saved: 1,
        room: room,
    }
    inputs Inputs
    /// The checked operands of a cross-entropy. `F` is the type of float tensors, `I` that of integer tensors.
    Operands<F, I>
    floats {
        /// The logits, `[tokens, classes]`.
        logits: One<2> "the tensor of logits",
    }
    ints {
        /// The class of each token, `[tokens]`, or the ignored index.
        targets: <1>,
    }
    numbers {
        /// The numbers of the call.
        settings: Settings,
        /// The variant to compute.
        key: CrossEntropyKey,
    }
}

impl<F: Described, I: Described> Operands<F, I> {
    fn check(&self) -> Result<(), Mismatch> {
        self.settings.check(OP, self.key.cap, self.key)?;
        let [tokens, _] = operands::dims(OP, "the tensor of logits", &self.logits)?;
        one_target_each(OP, tokens, &self.targets)
    }

    fn results(&self) -> [Like; 1] {
        let [tokens, _] = self.sizes();
        [loss_of(self.key.reduction, tokens, self.logits.dtype())]
    }

    fn saved(&self) -> [Saved; 1] {
        let [tokens, _] = self.sizes();
        let lse = (Shape::new([tokens]), compute_dtype(self.logits.dtype()));
        [Saved::or_nothing("lse", lse)]
    }

    /// Returns the number of tokens and of classes.
    pub fn sizes(&self) -> [usize; 2] {
        self.logits.shape().dims()
    }
}

/// Returns the bytes that kernels need besides operands and results.
fn room<F: Described, I: Described>(of: &Operands<F, I>) -> usize {
    let [tokens, _] = of.sizes();
    tokens.saturating_mul(BYTES_OF_A_TOKEN)
}

/// The bytes that a kernel holds for each token besides results and copies of operands: its target, its loss, and the sums
/// of its logits.
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
pub(in crate::ops) fn loss_of(reduction: LossReduction, tokens: usize, dtype: DType) -> Like {
    let elements = match reduction {
        LossReduction::Mean | LossReduction::Sum => 1,
        LossReduction::None => tokens,
    };
    (Shape::new([elements]), compute_dtype(dtype))
}
