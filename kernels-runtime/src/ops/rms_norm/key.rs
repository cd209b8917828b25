use crate::semantics::{Dtypes, Shift};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The settings that change the result of an RMSNorm, `y = x̂ · (offset + w) + bias` with
/// `x̂ = x / sqrt(mean(x²) + eps)` over the last axis (Zhang & Sennrich, arXiv:1910.07467).
///
/// `eps` and the group size are run-time values of the site, not part of the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RmsNormKey {
    /// The constant that is added to the weight before it scales.
    pub offset: Offset,
    /// The rounding of results in half types.
    pub rounding: Rounding,
    /// The learned weight that scales the result, if there is one.
    pub scale: Scale,
    /// The gate and its place, if a second tensor gates.
    pub gating: Gating,
    /// The part of the last axis over which each mean is taken.
    pub groups: Groups,
    /// The learned bias that is added to the result, if there is one. Only without a gate.
    pub shift: Shift,
}

impl RmsNormKey {
    /// Llama's norm: a plain weight, rounded before it scales, no gate, one group, no bias.
    pub const LLAMA: Self = Self {
        offset: Offset::Zero,
        rounding: Rounding::Llama,
        scale: Scale::Weight,
        gating: Gating::None,
        groups: Groups::One,
        shift: Shift::None,
    };

    /// Gemma's norm: `1 + w` in the accumulation precision, rounded once.
    pub const GEMMA: Self = Self {
        offset: Offset::One,
        rounding: Rounding::Gemma,
        ..Self::LLAMA
    };
}

/// A constant that is added to an operand before it multiplies, such as the weight of an RMSNorm or the
/// up projection of a gated linear unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Offset {
    /// Nothing is added. In an RMSNorm, `x̂ · w`: Llama, Qwen, Mistral and most others.
    Zero,
    /// One is added. In an RMSNorm, `x̂ · (1 + w)` with weights that start at zero: Gemma 2 and 3,
    /// Qwen3-Next. The sum is computed in the accumulation precision, never in bf16, where small
    /// weights would vanish.
    One,
}

impl Offset {
    /// Returns the offset as a number.
    pub const fn value(self) -> f64 {
        match self {
            Self::Zero => 0.0,
            Self::One => 1.0,
        }
    }
}

pub use kernels_simd::keys::{Gating, Rounding};

/// The learned weight of an RMSNorm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scale {
    /// The norm has a weight.
    Weight,
    /// The norm has no weight, `y = x̂`: Llama 4's L2 norm, Gemma 3n's `with_scale = false`.
    None,
}

/// The part of the last axis over which an RMSNorm takes each mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Groups {
    /// The whole axis.
    One,
    /// Each run of `group_size` elements separately; the size is a run-time value (Zamba 2, Falcon H1). The
    /// weight still has one element for each element of the whole axis.
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
        if self.shift == Shift::Bias {
            f.write_str(", shift=bias")?;
        }
        f.write_str(")")
    }
}
