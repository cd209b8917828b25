use crate::semantics::{Activation, Clamp, Dtypes, GluKey, Offset, Projections, TopK};
use burn::tensor::DType;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The settings that change the result of the experts of a mixture (Shazeer et al., arXiv:1701.06538). For
/// each token `x` and each expert `e` that it is routed to with weight `p`,
/// `y = Σ p · down_e(activation(gate_e(x)) · (up_offset + up_e(x)))`.
///
/// The number of experts, the choices of the router and the limit of a clamp are run-time values,
/// not part of the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "part", rename = "experts")]
pub struct MoeExpertsKey {
    /// The function applied to the gate.
    pub activation: Activation,
    /// The layout of gate and up in the projections of an expert.
    pub projections: Projections,
    /// The clamp of gate and up before the activation.
    pub clamp: Clamp,
    /// The constant that is added to up.
    pub up_offset: Offset,
    /// The order of the axes of an expert's weights.
    pub layout: ExpertLayout,
    /// The biases of the projections.
    pub bias: ExpertBias,
}

impl MoeExpertsKey {
    /// The experts of Qwen2-MoE, Qwen3-MoE and Mixtral: SwiGLU, gate and up in one weight, `[out, in]`, no
    /// bias.
    pub const QWEN3: Self = Self {
        activation: Activation::Silu,
        projections: Projections::Chunked,
        clamp: Clamp::None,
        up_offset: Offset::Zero,
        layout: ExpertLayout::Linear,
        bias: ExpertBias::None,
    };

    /// The experts of gpt-oss: `(1 + up) · gate · σ(1.702 gate)` with clamped operands, interleaved gate and up,
    /// `[in, out]`, biases.
    pub const GPT_OSS: Self = Self {
        activation: Activation::QuickGelu,
        projections: Projections::Interleaved,
        clamp: Clamp::Limit,
        up_offset: Offset::One,
        layout: ExpertLayout::Matmul,
        bias: ExpertBias::All,
    };

    /// The experts of Llama 4: as [`QWEN3`](Self::QWEN3), but `[in, out]`.
    pub const LLAMA4: Self = Self {
        layout: ExpertLayout::Matmul,
        ..Self::QWEN3
    };

    /// Returns the key of each expert's gated unit.
    pub const fn unit(self) -> GluKey {
        GluKey {
            activation: self.activation,
            projections: self.projections,
            clamp: self.clamp,
            up_offset: self.up_offset,
            topk: TopK::None,
        }
    }
}

pub use kernels_simd::keys::ExpertLayout;

/// The biases of the projections of an expert.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExpertBias {
    /// No projection has a bias.
    None,
    /// All projections have a bias.
    All,
}

impl Dtypes for MoeExpertsKey {
    /// Returns whether the dtypes differ. The routing weights, which follow the tokens, may also be in f32.
    fn mixes(&self, mut dtypes: impl ExactSizeIterator<Item = DType>) -> bool {
        let (x, routing) = (dtypes.next(), dtypes.next());
        let fits = routing.is_none() || routing == x || routing == Some(DType::F32);
        !fits || dtypes.any(|weight| Some(weight) != x)
    }
}

impl fmt::Display for MoeExpertsKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "moe(activation={}", self.activation.name())?;
        f.write_str(match self.projections {
            Projections::Separate => ", projections=separate",
            Projections::Chunked => ", projections=chunked",
            Projections::Interleaved => ", projections=interleaved",
        })?;
        f.write_str(match self.layout {
            ExpertLayout::Linear => ", layout=linear",
            ExpertLayout::Matmul => ", layout=matmul",
        })?;
        if self.clamp == Clamp::Limit {
            f.write_str(", clamp=limit")?;
        }
        if self.up_offset == Offset::One {
            f.write_str(", up_offset=1")?;
        }
        if self.bias == ExpertBias::All {
            f.write_str(", bias=all")?;
        }
        f.write_str(")")
    }
}
