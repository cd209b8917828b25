//! The norm and rotation of queries and keys of Gemma 3.

use burn::module::Param;
use burn::tensor::Tensor;
use burn_kernels::fused_kernel;

use crate::layers::gemma2::Gemma2RmsNorm;
use crate::layers::llama::apply_rotary_pos_emb;

/// Normalises each head of queries `[b, s, hq, d]` and keys `[b, s, hk, d]` like [`Gemma2RmsNorm`], with weights `[d]`,
/// and rotates it like [`apply_rotary_pos_emb`].
#[fused_kernel(
    "npu_fused_qk_norm_rope",
    norm = head,
    offset = 1,
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
    let (q, k) = (normalised(q, q_weight, eps), normalised(k, k_weight, eps));
    let (q, k) = apply_rotary_pos_emb(q, k, cos, sin);
    (q.swap_dims(1, 2), k.swap_dims(1, 2))
}

/// Normalises each head of `[b, s, heads, d]` like [`Gemma2RmsNorm`]. Returns `[b, heads, s, d]`.
pub(crate) fn normalised(x: Tensor<4>, weight: &Param<Tensor<1>>, eps: f64) -> Tensor<4> {
    let norm = Gemma2RmsNorm {
        weight: weight.clone(),
        variance_epsilon: eps,
    };
    norm.forward(x).swap_dims(1, 2)
}
