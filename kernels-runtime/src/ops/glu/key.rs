use crate::semantics::Dtypes;
use crate::semantics::Offset;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The settings that change the result of a gated linear unit, `y = activation(gate) · (up_offset + up)`
/// (Shazeer, arXiv:2002.05202).
///
/// The limit of a clamp and the sparsity of a top-k are run-time values of the site, not part of the
/// key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct GluKey {
    /// The function applied to the gate.
    pub activation: Activation,
    /// The layout of gate and up in the projections.
    pub projections: Projections,
    /// The clamp of gate and up before the activation.
    pub clamp: Clamp,
    /// The constant that is added to up.
    pub up_offset: Offset,
    /// The top-k that makes the gate sparse before the activation.
    pub topk: TopK,
}

impl GluKey {
    /// `silu(gate) · up` with two projections.
    pub const SWIGLU: Self = Self {
        activation: Activation::Silu,
        projections: Projections::Separate,
        clamp: Clamp::None,
        up_offset: Offset::Zero,
        topk: TopK::None,
    };
}

pub use kernels_simd::keys::{Activation, Projections};

/// The clamp of the operands of a gated linear unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Clamp {
    /// No clamp.
    None,
    /// Clamps the gate to at most `limit` and up to `±limit`; the limit is a run-time value (gpt-oss).
    Limit,
}

/// The top-k that makes the gate of a gated linear unit sparse before the activation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TopK {
    /// No top-k.
    None,
    /// Gemma 3n's statistical top-k: `max(gate − (mean + std · Φ⁻¹(sparsity)), 0)` with the mean and
    /// the population standard deviation of the last axis. The sparsity is a run-time value; 0 leaves
    /// the gate unchanged.
    Gaussian,
}

impl Dtypes for GluKey {}

impl fmt::Display for GluKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "glu(activation={}", self.activation.name())?;
        match self.projections {
            Projections::Separate => {}
            Projections::Chunked => f.write_str(", projections=chunked")?,
            Projections::Interleaved => f.write_str(", projections=interleaved")?,
        }
        if self.clamp == Clamp::Limit {
            f.write_str(", clamp=limit")?;
        }
        if self.up_offset == Offset::One {
            f.write_str(", up_offset=1")?;
        }
        if self.topk == TopK::Gaussian {
            f.write_str(", topk=gaussian")?;
        }
        f.write_str(")")
    }
}
