//! The MLP with sparse gates.

use burn::module::Module;
use burn_kernels::fused_kernel;
use burn_kernels::nn::Linear;

/// Gated MLP whose gates are set to zero up to the given part of a normal distribution with their mean and deviation:
/// `down(gelu(max(gate(x) − c, 0)) · up(x))`.
#[fused_kernel("npu_fused_swiglu", activation = gelu_tanh, topk = gaussian, layer = "Gemma3nSparseMlp")]
#[derive(Module, Debug)]
pub struct Gemma3nSparseMlp {
    pub(crate) gate_proj: Linear,
    pub(crate) up_proj: Linear,
    pub(crate) down_proj: Linear,
    pub(crate) activation_sparsity: f64,
}
