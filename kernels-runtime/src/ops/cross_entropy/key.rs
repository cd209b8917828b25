use crate::semantics::Dtypes;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The settings that change the result of a cross-entropy of logits and target classes.
///
/// The ignored index, the label smoothing, the cap and the factor of the z-loss are run-time values of the site, not
/// part of the key. On half types everything is computed in f32, and the loss stays in f32.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CrossEntropyKey {
    /// The combination of the losses of all tokens.
    pub reduction: LossReduction,
    /// The limit of the logits.
    pub cap: LogitCap,
}

impl CrossEntropyKey {
    /// The mean over the tokens that count, without a cap: the loss of most language models.
    pub const MEAN: Self = Self {
        reduction: LossReduction::Mean,
        cap: LogitCap::None,
    };
}

pub use kernels_simd::keys::LossReduction;

/// The limit of the logits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogitCap {
    /// There is no limit.
    None,
    /// Logits become `cap · tanh(logit / cap)` (Gemma 2).
    Tanh,
}

impl Dtypes for CrossEntropyKey {}

impl fmt::Display for CrossEntropyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cross_entropy(reduction={}", self.reduction.name())?;
        if self.cap == LogitCap::Tanh {
            f.write_str(", cap=tanh")?;
        }
        f.write_str(")")
    }
}
