use crate::semantics::Dtypes;
use serde::{Deserialize, Serialize};
use std::fmt;

/// What changes the result of an RMSNorm, `y = x̂ · (offset + w)` with
/// `x̂ = x / sqrt(mean(x²) + eps)` over the last axis (Zhang & Sennrich, arXiv:1910.07467).
///
/// `eps` and the group size are run-time values of the site and not part of the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RmsNormKey {
    /// What is added to the weight before it scales.
    pub offset: Offset,
    /// Where results of half precision are rounded.
    pub rounding: Rounding,
    /// Whether a learned weight scales the result.
    pub scale: Scale,
    /// Whether, and where, a second tensor gates.
    pub gating: Gating,
    /// Over how much of the last axis the mean is taken.
    pub groups: Groups,
}

impl RmsNormKey {
    /// Llama's: a plain weight, rounded before it scales, no gate, one group.
    pub const LLAMA: Self = Self {
        offset: Offset::Zero,
        rounding: Rounding::Llama,
        scale: Scale::Weight,
        gating: Gating::None,
        groups: Groups::One,
    };

    /// Gemma's: `1 + w` in the accumulation precision, rounded once.
    pub const GEMMA: Self = Self {
        offset: Offset::One,
        rounding: Rounding::Gemma,
        ..Self::LLAMA
    };
}

/// A constant that is added to an operand before it multiplies: the weight of an RMSNorm, the up
/// projection of a gated linear unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Offset {
    /// Nothing is added. Of an RMSNorm, `x̂ · w`: Llama, Qwen, Mistral and most others.
    Zero,
    /// One. Of an RMSNorm, `x̂ · (1 + w)` with weights that start at zero: Gemma 2 and 3,
    /// Qwen3-Next. The sum is made in the accumulation precision, never in bf16, where small
    /// weights would vanish.
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

/// Whether an RMSNorm has a learned weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scale {
    /// It has one.
    Weight,
    /// It has none, `y = x̂`: Llama 4's L2 norm, Gemma 3n's `with_scale = false`.
    None,
}

/// Where the gate `silu(gate)` of a gated RMSNorm multiplies. It is taken in the accumulation
/// precision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Gating {
    /// There is no gate.
    None,
    /// The normalised and scaled result: `norm(x) · silu(gate)`, Qwen3-Next.
    AfterNorm,
    /// The input: `norm(x · silu(gate))`, Mamba 2, Zamba 2, Bamba.
    BeforeNorm,
}

/// Over how much of the last axis an RMSNorm takes its mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Groups {
    /// All of it.
    One,
    /// Each stretch of `group_size` elements for itself, a run-time value (Zamba 2, Falcon H1). The
    /// weight still has one element for each of the whole axis.
    Many,
}

impl Dtypes for RmsNormKey {}

impl fmt::Display for RmsNormKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rounding = match self.rounding {
            Rounding::Llama => "llama",
            Rounding::Gemma => "gemma",
        };
        write!(
            f,
            "rms_norm(offset={}, rounding={rounding}",
            self.offset.value()
        )?;
        if self.scale == Scale::None {
            f.write_str(", scale=none")?;
        }
        match self.gating {
            Gating::None => {}
            Gating::AfterNorm => f.write_str(", gating=after_norm")?,
            Gating::BeforeNorm => f.write_str(", gating=before_norm")?,
        }
        if self.groups == Groups::Many {
            f.write_str(", groups=many")?;
        }
        f.write_str(")")
    }
}
