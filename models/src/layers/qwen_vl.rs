//! Rotations by three positions of each token, of Qwen2.5-VL and Qwen3-VL: time, height and width.

use burn::module::Param;
use burn::tensor::{Tensor, TensorData};
use burn_kernels::fused_kernel;

use crate::config::family::SectionOrder;

use crate::layers::qwen3::normalised;
use crate::layers::rope::rotate_half;

/// Rotates queries `[b, hq, s, d]` and keys `[b, hk, s, d]` by three positions. `cos` and `sin` are `[3, b or 1, s, d]`.
/// The first pairs take the first position, as many as the first section says, and so on. Element `i` of the first half
/// of each head pairs with element `i` of the second half.
#[fused_kernel("npu_fused_rope", style = half, sections = chunked, layer = "apply_multimodal_rotary_pos_emb")]
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

/// Rotates as [`apply_multimodal_rotary_pos_emb`] does, but pairs take the three positions in turn, as many as the sections
/// say. The others take the first.
#[fused_kernel("npu_fused_rope", style = half, sections = interleaved, layer = "apply_interleaved_rotary_pos_emb")]
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

/// Normalises each head of queries `[b, s, hq, d]` and keys `[b, s, hk, d]` like [`Qwen3RmsNorm`], with weights `[d]`, and
/// rotates it like [`apply_interleaved_rotary_pos_emb`].
///
/// [`Qwen3RmsNorm`]: crate::layers::qwen3::Qwen3RmsNorm
#[fused_kernel(
    "npu_fused_qk_norm_rope",
    norm = head,
    offset = 0,
    rounding = llama,
    style = half,
    layout = bsnd,
    sections = interleaved,
    layer = "norm_and_rotate"
)]
#[allow(clippy::too_many_arguments)] // These are the operands of the operation.
pub fn norm_and_rotate(
    q: Tensor<4>,
    k: Tensor<4>,
    q_weight: &Param<Tensor<1>>,
    k_weight: &Param<Tensor<1>>,
    eps: f64,
    cos: Tensor<4>,
    sin: Tensor<4>,
    mrope_section: [usize; 3],
) -> (Tensor<4>, Tensor<4>) {
    let (q, k) = (normalised(q, q_weight, eps), normalised(k, k_weight, eps));
    let (q, k) = apply_interleaved_rotary_pos_emb(q, k, cos, sin, mrope_section);
    (q.swap_dims(1, 2), k.swap_dims(1, 2))
}

fn rotate(q: Tensor<4>, k: Tensor<4>, cos: Tensor<4>, sin: Tensor<4>) -> (Tensor<4>, Tensor<4>) {
    let rotate = |x: Tensor<4>| x.clone() * cos.clone() + rotate_half(x) * sin.clone();
    (rotate(q), rotate(k))
}

/// Returns a table `[b, 1, s, d]` whose pairs have the angles of the positions that they take, of one with all three
/// positions.
pub(crate) fn merged(table: Tensor<4>, axes: &[usize]) -> Tensor<4> {
    let (device, dtype) = (table.device(), table.dtype());
    let of = |axis: usize| {
        let half = axes.iter().map(|&own| f32::from(u8::from(own == axis)));
        let twice: Vec<f32> = half.clone().chain(half).collect();
        let width = twice.len();
        let taken = TensorData::new(twice, [1, 1, 1, width]);
        let taken = Tensor::<4>::from_data(taken, (&device, dtype));
        table.clone().narrow(0, axis, 1) * taken
    };
    let merged = of(0) + of(1) + of(2);
    merged.swap_dims(0, 1)
}
