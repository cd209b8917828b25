//! Mixtral's own layers. Its normalisation and rotary function are Llama's.

use burn::module::{Module, Param};
use burn::nn::Linear;
use burn::tensor::Tensor;
use burn_kernels::fused_kernel;

/// The experts of a layer: `Σ p · down(silu(gate(x)) · up(x))` over the experts that a token is routed to with weight
/// `p`.
#[fused_kernel("npu_fused_moe", activation = silu, layer = "MixtralExperts")]
#[derive(Module, Debug)]
pub struct MixtralExperts {
    /// The gate and up projections of every expert, `[E, 2 · width, hidden]`. The rows of gate come first.
    pub(crate) gate_up_proj: Param<Tensor<3>>,
    /// The down projections of every expert, `[E, hidden, width]`.
    pub(crate) down_proj: Param<Tensor<3>>,
}

/// A mixture of experts whose weights for a token sum to one and stay in `f32`.
#[fused_kernel(
    "npu_fused_moe",
    part = block,
    scoring = softmax,
    renormalise = sum,
    weights = wide,
    layer = "MixtralSparseMoeBlock"
)]
#[derive(Module, Debug)]
pub struct MixtralSparseMoeBlock {
    pub(crate) gate: Linear,
    pub(crate) experts: MixtralExperts,
    pub(crate) top_k: usize,
}
