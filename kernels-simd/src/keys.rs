//! Enumerations of the semantics keys, as several operations share them.

use serde::{Deserialize, Serialize};

/// The rounding of an RMSNorm on bf16 or f16. On f32 and f64 the variants are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rounding {
    /// `x̂` is rounded to the tensor's dtype, then scaled, and the product is rounded again (Llama, Qwen).
    Llama,
    /// The result is scaled in the accumulation precision and rounded once (Gemma, OLMo 2, gpt-oss).
    Gemma,
}

/// The place where the gate `silu(gate)` of a gated RMSNorm multiplies. The gate is computed in the
/// accumulation precision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Gating {
    /// No gate.
    None,
    /// The gate multiplies the normalised and scaled result: `norm(x) · silu(gate)`, Qwen3-Next.
    AfterNorm,
    /// The gate multiplies the input: `norm(x · silu(gate))`, Mamba 2, Zamba 2, Bamba.
    BeforeNorm,
}

/// The pairs of elements that a rotary position embedding rotates, in the first `w` elements of a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RopeStyle {
    /// Element `i` and `i + w/2` ("rotate half"): Llama, Qwen, Mistral, Gemma.
    Half,
    /// Elements `2i` and `2i + 1`: GLM-4, Cohere, Llama 4, DeepSeek V2.
    Interleaved,
    /// Elements `2i` and `2i + 1`, with the results written to `i` and `i + w/2`: DeepSeek V3.
    InterleavedToHalf,
}

/// The elements of the tables that belong to pair `i`, if `w` elements of a head are rotated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TableLayout {
    /// Width `w`, with every angle twice, as in `cat(freqs, freqs)`. Styles that write halves read both
    /// `i` and `i + w/2`. [`RopeStyle::Interleaved`] reads only `i`, as GLM-4 does.
    Halves,
    /// Width `w`, with every angle twice in a row, as in `repeat_interleave(freqs, 2)` (Cohere). Pair `i`
    /// reads `2i` and `2i + 1`. Only for [`RopeStyle::Interleaved`].
    Neighbours,
    /// Width `w/2`, with every angle once (gpt-oss; the parts of Llama 4's complex table).
    Pairs,
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

/// The order of the axes of an expert's weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExpertLayout {
    /// `[out, in]`, as in PyTorch's `Linear`: Qwen, Mixtral, DeepSeek.
    Linear,
    /// `[in, out]`, as a matrix product takes it: gpt-oss, Llama 4.
    Matmul,
}

/// The function that turns a router's logits into scores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scoring {
    /// Softmax over all experts.
    Softmax,
    /// The logistic function of each logit.
    Sigmoid,
    /// Softmax over the chosen experts, without scores before the choice.
    SoftmaxOfChosen,
}

/// The limit of a token's choice to the groups that score best. A group is a range of adjacent experts; all
/// groups have the same size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Grouping {
    /// No limit: a token chooses from all experts.
    None,
    /// A group scores as its best expert (DeepSeek-V2).
    Max,
    /// A group scores as the sum of its two best experts (DeepSeek-V3).
    TopTwo,
}

/// The division of the weights of a token's experts by their sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Renormalise {
    /// No division.
    None,
    /// Division by the sum + 1e-20. If all scores of a token are zero, its weights stay zero. Sums of a
    /// softmax are never so small that the addend changes them.
    Sum,
}

/// The dtype of a router's weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RouterWeights {
    /// The dtype of the logits.
    Logits,
    /// The dtype that scores are computed in: f32, or f64 for f64 logits.
    Wide,
}

/// The order of the axes of a weight. Outputs are the classes of an output layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputLayout {
    /// `[outputs, inputs]`, as a table of embeddings has it, which models often share with the output layer.
    OutputMajor,
    /// `[inputs, outputs]`, as Burn's `Linear` has it.
    InputMajor,
}

/// The combination of the losses of all tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LossReduction {
    /// The sum, divided by the number of tokens that are not ignored. It is NaN if all are ignored.
    Mean,
    /// The sum.
    Sum,
    /// One loss for each token, 0 for ignored ones.
    None,
}

impl LossReduction {
    /// Returns the name, as in an attribute.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mean => "mean",
            Self::Sum => "sum",
            Self::None => "none",
        }
    }
}

/// The order of the axes of queries and keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HeadLayout {
    /// `[batch, heads, seq, dim]`.
    Bnsd,
    /// `[batch, seq, heads, dim]`.
    Bsnd,
}
