use crate::semantics::Dtypes;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The settings that change the result of a LayerNorm, `y = x̂ · weight + bias` with
/// `x̂ = (x − mean(x)) / sqrt(var(x) + eps)` over the last axis (Ba, Kiros & Hinton, arXiv:1607.06450).
///
/// The variance divides by the number of elements. On half types everything is computed in f32, and the result is
/// rounded once. `eps` is a run-time value of the site, not part of the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LayerNormKey {
    /// The learned bias that is added to the result, if there is one.
    pub shift: Shift,
}

impl LayerNormKey {
    /// The norm with a weight and a bias: GPT-2, BERT and most others.
    pub const GPT2: Self = Self { shift: Shift::Bias };

    /// The norm with a weight alone: Cohere.
    pub const COHERE: Self = Self { shift: Shift::None };
}

/// A learned bias that is added to a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Shift {
    /// There is a bias.
    Bias,
    /// There is no bias.
    None,
}

impl Dtypes for LayerNormKey {}

impl fmt::Display for LayerNormKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shift = match self.shift {
            Shift::Bias => "bias",
            Shift::None => "none",
        };
        write!(f, "layer_norm(shift={shift})")
    }
}
