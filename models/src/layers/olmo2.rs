//! OLMo 2's own layers. Its MLP is Llama's.

use burn::module::{Module, Param};
use burn::tensor::{FloatDType, Tensor};
use burn_kernels::fused_kernel;

use crate::layers::rope::rotate_half;

pub use crate::layers::arrangements::Olmo2Layer;

/// Root-mean-square normalisation, `y = weight · x / sqrt(mean(x²) + eps)`. The mean is over the last axis, and
/// everything is in at least `f32` and rounded to the dtype of `x` at the end.
#[fused_kernel("npu_fused_rmsnorm", offset = 0, rounding = gemma, layer = "RMSNorm")]
#[derive(Module, Debug)]
pub struct Olmo2RmsNorm {
    pub(crate) weight: Param<Tensor<1>>,
    pub(crate) variance_epsilon: f64,
}

#[fused_kernel(
    "npu_fused_add_rmsnorm",
    method = forward_sum,
    weight = weight,
    eps = variance_epsilon,
    offset = 0,
    rounding = gemma,
    layer = "AddRMSNorm"
)]
impl Olmo2RmsNorm {
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

/// Rotates queries `[b, hq, s, d]` and keys `[b, hk, s, d]` by position. Element `i` of the first half of each head
/// pairs with element `i` of the second half. `cos` and `sin` are `[b or 1, s, d]`, in the dtype that the rotation is
/// computed in: at least `f32`.
#[fused_kernel("npu_fused_rope", style = half, layer = "rotary_pos_emb")]
pub fn apply_rotary_pos_emb(
    q: Tensor<4>,
    k: Tensor<4>,
    cos: Tensor<3>,
    sin: Tensor<3>,
) -> (Tensor<4>, Tensor<4>) {
    let wide = FloatDType::from(cos.dtype());
    let cos = cos.unsqueeze_dim::<4>(1);
    let sin = sin.unsqueeze_dim::<4>(1);
    let rotate = |x: Tensor<4>| {
        let dtype = x.dtype();
        let x = x.cast(wide);
        (x.clone() * cos.clone() + rotate_half(x) * sin.clone()).cast(dtype)
    };
    (rotate(q), rotate(k))
}

/// Normalises all heads of a token together, of queries `[b, s, hq, d]` and keys `[b, s, hk, d]`, like [`Olmo2RmsNorm`],
/// with weights `[heads · d]`, and rotates each like [`apply_rotary_pos_emb`].
#[fused_kernel(
    "npu_fused_qk_norm_rope",
    norm = row,
    offset = 0,
    rounding = gemma,
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
    let norm = |x: Tensor<4>, weight: &Param<Tensor<1>>| {
        let norm = Olmo2RmsNorm {
            weight: weight.clone(),
            variance_epsilon: eps,
        };
        let shape @ [batch, seq, heads, width] = x.dims();
        let rows = x.reshape([batch, seq, heads * width]);
        norm.forward(rows).reshape(shape).swap_dims(1, 2)
    };
    let (q, k) = (norm(q, q_weight), norm(k, k_weight));
    let (q, k) = apply_rotary_pos_emb(q, k, cos, sin);
    (q.swap_dims(1, 2), k.swap_dims(1, 2))
}
