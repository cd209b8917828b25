//! Qwen2-MoE's own layers. Its normalisation, dense MLP and rotary function are Llama's.

use burn::module::{Module, Param};
use burn::nn::Linear;
use burn::tensor::Tensor;
use burn_kernels::fused_kernel;

use crate::layers::llama::LlamaMlp;

/// The experts of a layer: `Σ p · down(silu(gate(x)) · up(x))` over the experts that a token is routed to with weight
/// `p`.
#[fused_kernel("npu_fused_moe", activation = silu, layer = "Qwen2MoeExperts")]
#[derive(Module, Debug)]
pub struct Qwen2MoeExperts {
    /// The gate and up projections of every expert, `[E, 2 · width, hidden]`. The rows of gate come first.
    pub(crate) gate_up_proj: Param<Tensor<3>>,
    /// The down projections of every expert, `[E, hidden, width]`.
    pub(crate) down_proj: Param<Tensor<3>>,
}

/// A mixture of experts with a shared expert, which every token goes to and a sigmoid gates. The weights of the routed
/// experts are the router's probabilities: `norm_topk_prob` is false, as in all published models.
#[fused_kernel("npu_fused_moe", part = block, scoring = softmax, shared = gated, layer = "Qwen2MoeSparseMoeBlock")]
#[derive(Module, Debug)]
pub struct Qwen2MoeSparseMoeBlock {
    pub(crate) gate: Linear,
    pub(crate) experts: Qwen2MoeExperts,
    pub(crate) shared_expert: LlamaMlp,
    pub(crate) shared_expert_gate: Linear,
    pub(crate) top_k: usize,
}

/// The same block with weights that sum to one: `norm_topk_prob` is true. It is a separate type because renormalisation
/// is part of what a kernel computes.
#[fused_kernel(
    "npu_fused_moe",
    part = block,
    scoring = softmax,
    renormalise = sum,
    shared = gated,
    layer = "Qwen2MoeRenormalisedSparseMoeBlock"
)]
#[derive(Module, Debug)]
pub struct Qwen2MoeRenormalisedSparseMoeBlock {
    pub(crate) gate: Linear,
    pub(crate) experts: Qwen2MoeExperts,
    pub(crate) shared_expert: LlamaMlp,
    pub(crate) shared_expert_gate: Linear,
    pub(crate) top_k: usize,
}
