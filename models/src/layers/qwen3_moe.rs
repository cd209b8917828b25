//! Qwen3-MoE's own layers. Its normalisation, dense MLP and rotary function are Qwen3's.

use burn::module::{Module, Param};
use burn::nn::Linear;
use burn::tensor::Tensor;
use burn_kernels::fused_kernel;

/// The experts of a layer: `Σ p · down(silu(gate(x)) · up(x))` over the experts that a token is routed to with weight
/// `p`.
#[fused_kernel("npu_fused_moe", activation = silu, layer = "Qwen3MoeExperts")]
#[derive(Module, Debug)]
pub struct Qwen3MoeExperts {
    /// The gate and up projections of every expert, `[E, 2 · width, hidden]`. The rows of gate come first.
    pub(crate) gate_up_proj: Param<Tensor<3>>,
    /// The down projections of every expert, `[E, hidden, width]`.
    pub(crate) down_proj: Param<Tensor<3>>,
}

/// A mixture of experts whose weights for a token sum to one: `norm_topk_prob` is true, as in all published models.
#[fused_kernel("npu_fused_moe", part = block, scoring = softmax, renormalise = sum, layer = "Qwen3MoeSparseMoeBlock")]
#[derive(Module, Debug)]
pub struct Qwen3MoeSparseMoeBlock {
    pub(crate) gate: Linear,
    pub(crate) experts: Qwen3MoeExperts,
    pub(crate) top_k: usize,
}

/// The same block with the router's probabilities as weights: `norm_topk_prob` is false. It is a separate type because
/// renormalisation is part of what a kernel computes.
#[fused_kernel("npu_fused_moe", part = block, scoring = softmax, layer = "Qwen3MoeRawSparseMoeBlock")]
#[derive(Module, Debug)]
pub struct Qwen3MoeRawSparseMoeBlock {
    pub(crate) gate: Linear,
    pub(crate) experts: Qwen3MoeExperts,
    pub(crate) top_k: usize,
}
