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

/// The activation of a gated linear unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Activation {
    /// `a · σ(a)`, which makes the unit a SwiGLU: Llama, Qwen, Mistral.
    Silu,
    /// `a · Φ(a)` with the error function: GELU (Hendrycks & Gimpel, arXiv:1606.08415).
    Gelu,
    /// `a/2 · (1 + tanh(√(2/π) · (a + 0.044715 a³)))`: Gemma's `gelu_pytorch_tanh`.
    GeluTanh,
    /// `a · σ(1.702 a)`: gpt-oss.
    QuickGelu,
    /// `max(a, 0)`.
    Relu,
    /// `max(a, 0)²` (So et al., arXiv:2109.08668).
    Relu2,
    /// `σ(a)`: the first gated linear unit (Dauphin et al., arXiv:1612.08083).
    Sigmoid,
    /// `a`: the bilinear unit.
    Identity,
}

impl Activation {
    /// All activations.
    pub const ALL: [Self; 8] = [
        Self::Silu,
        Self::Gelu,
        Self::GeluTanh,
        Self::QuickGelu,
        Self::Relu,
        Self::Relu2,
        Self::Sigmoid,
        Self::Identity,
    ];

    /// Returns the name in attributes and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Silu => "silu",
            Self::Gelu => "gelu",
            Self::GeluTanh => "gelu_tanh",
            Self::QuickGelu => "quick_gelu",
            Self::Relu => "relu",
            Self::Relu2 => "relu2",
            Self::Sigmoid => "sigmoid",
            Self::Identity => "identity",
        }
    }
}

/// The layout of gate and up in the projections of a gated linear unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Projections {
    /// Two tensors of one shape.
    Separate,
    /// One tensor `[.., 2n]`: the first half of the last axis is the gate, the second is up (Phi 3, GLM-4).
    Chunked,
    /// One tensor `[.., 2n]`: the even elements of the last axis are the gate, the odd ones are up (gpt-oss).
    Interleaved,
}

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
