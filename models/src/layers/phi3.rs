//! Phi-3's own layers. Its norm is Llama's.

use burn::module::Module;
use burn::tensor::Tensor;
use burn_kernels::fused_kernel;
use burn_kernels::nn::Linear;

use crate::layers::rope::rotate_half;

/// Gated MLP with gate and up in one projection, `down(silu(gate(x)) · up(x))`, from `[.., hidden]` to `[.., hidden]`.
#[fused_kernel("npu_fused_swiglu", activation = silu, projections = chunked, layer = "Phi3Mlp")]
#[derive(Module, Debug)]
pub struct Phi3Mlp {
    /// The rows of gate come first.
    pub(crate) gate_up_proj: Linear,
    pub(crate) down_proj: Linear,
}

/// Rotates the first elements of the heads of queries `[b, hq, s, d]` and keys `[b, hk, s, d]` by position, as many as
/// the tables are wide. Element `i` of the first half of these pairs with element `i` of the second half. `cos` and
/// `sin` are `[b or 1, s, w]`.
#[fused_kernel("npu_fused_rope", style = half, width = partial, layer = "rotary_pos_emb")]
pub fn apply_rotary_pos_emb(
    q: Tensor<4>,
    k: Tensor<4>,
    cos: Tensor<3>,
    sin: Tensor<3>,
) -> (Tensor<4>, Tensor<4>) {
    let cos = cos.unsqueeze_dim::<4>(1);
    let sin = sin.unsqueeze_dim::<4>(1);
    let rotate = |x: Tensor<4>| rotate_part(x, &cos, &sin, rotate_half);
    (rotate(q), rotate(k))
}

/// Rotates the first elements of heads, as many as the tables are wide, and leaves the others. `turn` turns each pair by
/// 90 degrees.
pub(crate) fn rotate_part(
    x: Tensor<4>,
    cos: &Tensor<4>,
    sin: &Tensor<4>,
    turn: impl Fn(Tensor<4>) -> Tensor<4>,
) -> Tensor<4> {
    let [_, _, _, width] = x.dims();
    let [_, _, _, rotated] = cos.dims();
    let part = x.clone().narrow(3, 0, rotated);
    let part = part.clone() * cos.clone() + turn(part) * sin.clone();
    if rotated == width {
        return part;
    }
    Tensor::cat(vec![part, x.narrow(3, rotated, width - rotated)], 3)
}
