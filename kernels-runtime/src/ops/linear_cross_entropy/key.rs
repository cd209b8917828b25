use crate::semantics::{Dtypes, LogitCap, LossReduction, Shift};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The settings that change the result of a cross-entropy of hidden states and the output layer's weight.
///
/// The numbers of the loss are run-time values of the site, not part of the key. On half types everything is computed in
/// f32: logits are never rounded, and the loss stays in f32.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LinearCrossEntropyKey {
    /// The combination of the losses of all tokens.
    pub reduction: LossReduction,
    /// The limit of the logits.
    pub cap: LogitCap,
    /// The order of the axes of the weight.
    pub layout: OutputLayout,
    /// The learned bias of the logits, if there is one.
    pub shift: Shift,
}

impl LinearCrossEntropyKey {
    /// The mean over the tokens that count, with a weight that may be the table of embeddings, and no bias.
    pub const MEAN: Self = Self {
        reduction: LossReduction::Mean,
        cap: LogitCap::None,
        layout: OutputLayout::OutputMajor,
        shift: Shift::None,
    };
}

pub use kernels_simd::keys::OutputLayout;

impl Dtypes for LinearCrossEntropyKey {}

impl fmt::Display for LinearCrossEntropyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "linear_cross_entropy(reduction={}",
            self.reduction.name()
        )?;
        if self.cap == LogitCap::Tanh {
            f.write_str(", cap=tanh")?;
        }
        if self.layout == OutputLayout::InputMajor {
            f.write_str(", layout=input_major")?;
        }
        if self.shift == Shift::Bias {
            f.write_str(", shift=bias")?;
        }
        f.write_str(")")
    }
}
