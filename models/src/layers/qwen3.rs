//! Qwen3's own layers.

use burn::module::{Module, Param};
use burn::tensor::Tensor;
use burn_kernels::fused_kernel;
use burn_kernels::nn::Linear;

use crate::layers::rope::rotate_half;

/// Root-mean-square normalisation, `y = weight · round(x / sqrt(mean(x²) + eps))`. The mean is over the last axis and
/// in at least `f32`; `round` rounds to the dtype of `x`.
///
/// Qwen3 normalises the residual stream with it, and in [`norm_and_rotate`] each query and key head.
#[fused_kernel("npu_fused_rmsnorm", offset = 0, rounding = llama, layer = "RMSNorm")]
#[derive(Module, Debug)]
pub struct Qwen3RmsNorm {
    pub(crate) weight: Param<Tensor<1>>,
    pub(crate) variance_epsilon: f64,
}

#[fused_kernel(
    "npu_fused_add_rmsnorm",
    method = forward_sum,
    weight = weight,
    eps = variance_epsilon,
    offset = 0,
    rounding = llama,
    layer = "AddRMSNorm"
)]
impl Qwen3RmsNorm {
    /// Adds `x` to the residual stream of the same shape and normalises the sum. Returns the normalised sum and the
    /// sum.
    pub fn forward_sum<const D: usize>(
        &self,
        x: Tensor<D>,
        residual: Tensor<D>,
    ) -> (Tensor<D>, Tensor<D>) {
        let sum = x + residual;
        (self.forward(sum.clone()), sum)
    }
}

/// Gated MLP without biases: `down(silu(gate(x)) · up(x))`, from `[.., hidden]` to `[.., hidden]`.
#[fused_kernel("npu_fused_swiglu", activation = silu, layer = "SwiGLUMLP")]
#[derive(Module, Debug)]
pub struct Qwen3Mlp {
    pub(crate) gate_proj: Linear,
    pub(crate) up_proj: Linear,
    pub(crate) down_proj: Linear,
}

/// Rotates queries `[b, hq, s, d]` and keys `[b, hk, s, d]` by position. Element `i` of the first half of each head
/// pairs with element `i` of the second half. `cos` and `sin` are `[b or 1, s, d]`.
#[fused_kernel("npu_fused_rope", style = half, layer = "rotary_pos_emb")]
pub fn apply_rotary_pos_emb(
    q: Tensor<4>,
    k: Tensor<4>,
    cos: Tensor<3>,
    sin: Tensor<3>,
) -> (Tensor<4>, Tensor<4>) {
    let cos = cos.unsqueeze_dim::<4>(1);
    let sin = sin.unsqueeze_dim::<4>(1);
    let rotate = |x: Tensor<4>| x.clone() * cos.clone() + rotate_half(x) * sin.clone();
    (rotate(q), rotate(k))
}

/// Normalises each head of queries `[b, s, hq, d]` and keys `[b, s, hk, d]` like [`Qwen3RmsNorm`], with weights `[d]`, and
/// rotates it like [`apply_rotary_pos_emb`].
#[fused_kernel(
    "npu_fused_qk_norm_rope",
    norm = head,
    offset = 0,
    rounding = llama,
    style = half,
    layout = bsnd,
    layer = "norm_and_rotate"
)]
pub fn norm_and_rotate(
    q: Tensor<4>,
    k: Tensor<4>,
    q_weight: &Param<Tensor<1>>,
    k_weight: &Param<Tensor<1>>,
    eps: f64,
    cos: Tensor<3>,
    sin: Tensor<3>,
) -> (Tensor<4>, Tensor<4>) {
    let (q, k) = (normalised(q, q_weight, eps), normalised(k, k_weight, eps));
    let (q, k) = apply_rotary_pos_emb(q, k, cos, sin);
    (q.swap_dims(1, 2), k.swap_dims(1, 2))
}

/// Normalises each head of `[b, s, heads, d]` like [`Qwen3RmsNorm`]. Returns `[b, heads, s, d]`.
pub(crate) fn normalised(x: Tensor<4>, weight: &Param<Tensor<1>>, eps: f64) -> Tensor<4> {
    let norm = Qwen3RmsNorm {
        weight: weight.clone(),
        variance_epsilon: eps,
    };
    norm.forward(x).swap_dims(1, 2)
}
