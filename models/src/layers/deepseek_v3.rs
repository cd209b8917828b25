//! DeepSeek-V3's rotary function.

use burn::tensor::Tensor;
use burn_kernels::fused_kernel;

/// Rotates queries `[b, hq, s, w]` and keys `[b, hk, s, w]` by position. Element `2i` of each head pairs with element
/// `2i + 1`; the results are in the halves of a head. `cos` and `sin` are `[b or 1, s, w]`, with the angle of each pair
/// in both halves.
#[fused_kernel("npu_fused_rope", style = interleaved_to_half, layer = "apply_rotary_pos_emb_interleave")]
pub fn apply_rotary_pos_emb_interleave(
    q: Tensor<4>,
    k: Tensor<4>,
    cos: Tensor<3>,
    sin: Tensor<3>,
) -> (Tensor<4>, Tensor<4>) {
    let once = |table: Tensor<3>| {
        let [_, _, width] = table.dims();
        table.narrow(2, 0, width / 2).unsqueeze_dim::<4>(1)
    };
    let (cos, sin) = (once(cos), once(sin));
    let rotate = |x: Tensor<4>| {
        let [batch, heads, seq, width] = x.dims();
        let pairs: Tensor<5> = x.reshape([batch, heads, seq, width / 2, 2]);
        let [a, b] = [0, 1].map(|at| pairs.clone().narrow(4, at, 1).squeeze_dim::<4>(4));
        let first = a.clone() * cos.clone() - b.clone() * sin.clone();
        let second = b * cos.clone() + a * sin.clone();
        Tensor::cat(vec![first, second], 3)
    };
    (rotate(q), rotate(k))
}
