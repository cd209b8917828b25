use serde::{Deserialize, Serialize};
use std::fmt;

/// What changes the result of an RMSNorm, `y = x̂ · (offset + w)` with
/// `x̂ = x / sqrt(mean(x²) + eps)` over the last axis (Zhang & Sennrich, arXiv:1910.07467).
///
/// `eps` is a run-time value of the site and not part of the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RmsNormKey {
    /// What is added to the weight before it scales.
    pub offset: Offset,
    /// Where results of half precision are rounded.
    pub rounding: Rounding,
}

/// What an RMSNorm adds to its weight before scaling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Offset {
    /// `x̂ · w`: Llama, Qwen, Mistral and most others.
    Zero,
    /// `x̂ · (1 + w)` with weights that start at zero: Gemma 2 and 3, Qwen3-Next. The sum is made
    /// in the accumulation precision, never in bf16, where small weights would vanish.
    One,
}

impl Offset {
    /// The offset as a number.
    pub const fn value(self) -> f64 {
        match self {
            Self::Zero => 0.0,
            Self::One => 1.0,
        }
    }
}

/// Where an RMSNorm on bf16 or f16 rounds. On f32 and f64 both are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rounding {
    /// `x̂` is rounded to the tensor's dtype, then scaled and rounded again (Llama, Qwen).
    Llama,
    /// Scaled in the accumulation precision and rounded once (Gemma, OLMo 2, gpt-oss).
    Gemma,
}

impl fmt::Display for RmsNormKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rounding = match self.rounding {
            Rounding::Llama => "llama",
            Rounding::Gemma => "gemma",
        };
        write!(
            f,
            "rms_norm(offset={}, rounding={rounding})",
            self.offset.value()
        )
    }
}
