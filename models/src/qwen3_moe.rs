//! What Qwen3-MoE adds to Qwen3, whose normalisation, dense MLP and rotary function it has.

use burn::module::{Module, Param};
use burn::nn::Linear;
use burn::tensor::Tensor;
use burn_kernels::fused_kernel;

/// The experts of a layer: `Σ p · down(silu(gate(x)) · up(x))` over those that a token is routed to
/// with weight `p`.
#[fused_kernel("npu_fused_moe", activation = silu)]
#[derive(Module, Debug)]
pub struct Qwen3MoeExperts {
    /// Gate above up of every expert, `[E, 2 · width, hidden]`.
    pub(crate) gate_up_proj: Param<Tensor<3>>,
    /// `[E, hidden, width]`.
    pub(crate) down_proj: Param<Tensor<3>>,
}

/// A mixture of experts whose weights for a token sum to one: `norm_topk_prob` is true, as in all
/// published models.
#[fused_kernel("npu_fused_moe", part = block, scoring = softmax, renormalise = sum)]
#[derive(Module, Debug)]
pub struct Qwen3MoeSparseMoeBlock {
    pub(crate) gate: Linear,
    pub(crate) experts: Qwen3MoeExperts,
    pub(crate) top_k: usize,
}

/// The same with the router's probabilities as weights: `norm_topk_prob` is false. Renormalisation is
/// part of what a kernel computes, so it is a type of its own.
#[fused_kernel("npu_fused_moe", part = block, scoring = softmax)]
#[derive(Module, Debug)]
pub struct Qwen3MoeRawSparseMoeBlock {
    pub(crate) gate: Linear,
    pub(crate) experts: Qwen3MoeExperts,
    pub(crate) top_k: usize,
}
