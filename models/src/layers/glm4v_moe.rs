//! GLM-4.5V's rotary function, of three positions of each token: time, height and width.

use burn::tensor::Tensor;
use burn_kernels::fused_kernel;

use crate::config::family::SectionOrder;

use crate::layers::phi3::rotate_part;
use crate::layers::qwen_vl::merged;
use crate::layers::rope::rotate_half;

/// Rotates the first elements of the heads of queries `[b, hq, s, d]` and keys `[b, hk, s, d]` by three positions, as
/// many as the tables are wide. `cos` and `sin` are `[3, b or 1, s, w]`. The first pairs take the first position, as many
/// as the first section says, and so on. Element `i` of the first half of the rotated elements pairs with element `i` of
/// the second half.
#[fused_kernel("npu_fused_rope", style = half, width = partial, sections = chunked, layer = "apply_multimodal_rotary_pos_emb")]
pub fn apply_multimodal_rotary_pos_emb(
    q: Tensor<4>,
    k: Tensor<4>,
    cos: Tensor<4>,
    sin: Tensor<4>,
    mrope_section: [usize; 3],
) -> (Tensor<4>, Tensor<4>) {
    let axes = SectionOrder::Chunked.axes(mrope_section);
    rotate(q, k, merged(cos, &axes), merged(sin, &axes))
}

/// Rotates the first elements of heads, as many as the tables `[b, 1, s, w]` are wide.
pub(crate) fn rotate(
    q: Tensor<4>,
    k: Tensor<4>,
    cos: Tensor<4>,
    sin: Tensor<4>,
) -> (Tensor<4>, Tensor<4>) {
    let rotate = |x: Tensor<4>| rotate_part(x, &cos, &sin, rotate_half);
    (rotate(q), rotate(k))
}
