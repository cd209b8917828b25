//! Llama's own layers.

use burn::module::{Module, Param};
use burn::tensor::{DType, FloatDType, Tensor};
use burn_kernels::fused_kernel;
use burn_kernels::nn::Linear;

use crate::layers::rope::rotate_half;

/// Root-mean-square normalisation, `y = weight · round(x / sqrt(mean(x²) + eps))`. The mean is over the last axis and
/// in at least `f32`; `round` rounds to the dtype of `x`.
#[derive(Module, Debug)]
pub struct LlamaRmsNorm {
    pub(crate) weight: Param<Tensor<1>>,
    pub(crate) variance_epsilon: f64,
}

#[fused_kernel(
    "npu_fused_rmsnorm",
    method = forward,
    weight = weight,
    eps = variance_epsilon,
    offset = 0,
    rounding = llama,
    layer = "RMSNorm"
)]
#[fused_kernel(
    "npu_fused_add_rmsnorm",
    method = forward_sum,
    weight = weight,
    eps = variance_epsilon,
    offset = 0,
    rounding = llama,
    layer = "AddRMSNorm"
)]
impl LlamaRmsNorm {
    /// Normalises the last axis of `x`, which has shape `[.., hidden]` with any number of leading axes.
    pub fn forward<const D: usize>(&self, x: Tensor<D>) -> Tensor<D> {
        let dtype = x.dtype();
        let wide = match dtype {
            DType::F16 | DType::BF16 => x.cast(FloatDType::F32),
            _ => x,
        };
        let mean_square = wide.clone().square().mean_dim(D - 1);
        let normalised = wide * (mean_square + self.variance_epsilon).sqrt().recip();
        normalised.cast(dtype) * self.weight.val().unsqueeze()
    }

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

/// Gated MLP: `down(silu(gate(x)) · up(x))`, from `[.., hidden]` to `[.., hidden]`. The projections have biases if the
/// configuration sets `mlp_bias`.
#[fused_kernel("npu_fused_swiglu", activation = silu, layer = "SwiGLUMLP")]
#[derive(Module, Debug)]
pub struct LlamaMlp {
    pub(crate) gate_proj: Linear,
    pub(crate) up_proj: Linear,
    pub(crate) down_proj: Linear,
}

impl LlamaMlp {
    pub(crate) fn new([gate_proj, up_proj, down_proj]: [Linear; 3]) -> Self {
        Self {
            gate_proj,
            up_proj,
            down_proj,
        }
    }
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
