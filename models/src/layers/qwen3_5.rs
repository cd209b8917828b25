//! Qwen3.5's rotary function, of three positions of each token: time, height and width. Its other layers are
//! Qwen3-Next's.

use burn::tensor::Tensor;
use burn_kernels::fused_kernel;

use crate::config::family::SectionOrder;
use crate::layers::glm4v_moe::rotate;
use crate::layers::qwen_vl::merged;

/// Rotates the first elements of the heads of queries `[b, hq, s, d]` and keys `[b, hk, s, d]` by three positions, as
/// many as the tables are wide. `cos` and `sin` are `[3, b or 1, s, w]`. Pairs take the three positions in turn, as
/// many as the sections say, and the others take the first. Element `i` of the first half of the rotated elements
/// pairs with element `i` of the second half.
#[fused_kernel(
    "npu_fused_rope",
    style = half,
    width = partial,
    sections = interleaved,
    layer = "apply_interleaved_rotary_pos_emb"
)]
pub fn apply_interleaved_rotary_pos_emb(
    q: Tensor<4>,
    k: Tensor<4>,
    cos: Tensor<4>,
    sin: Tensor<4>,
    mrope_section: [usize; 3],
) -> (Tensor<4>, Tensor<4>) {
    let axes = SectionOrder::Interleaved.axes(mrope_section);
    rotate(q, k, merged(cos, &axes), merged(sin, &axes))
}
