//! The text models of Qwen2.5-VL and Qwen3-VL: Qwen2's and Qwen3's layers with three positions for each token, which are
//! equal for text: time, height and width.

use burn::tensor::{Tensor, TensorData};
use burn_kernels::fused_kernel;

use crate::config::Neutral;
use crate::family::{Defaults, Experts, Family, Layers, Nested, Positions, SectionOrder, Window};
use crate::layout::ExpertNames;
use crate::qwen2;
use crate::qwen3;
use crate::qwen3_moe;
use crate::rope::rotate_half;

pub(crate) static QWEN2_5: Family = Family {
    class_name: "Qwen2_5_VLForConditionalGeneration",
    model_type: "qwen2_5_vl",
    nested: Some(Nested {
        model_type: "qwen2_5_vl_text",
        prefix: "model.",
    }),
    layers: Layers {
        rotate_axes: Some(apply_multimodal_rotary_pos_emb),
        ..qwen2::FAMILY.layers
    },
    positions: Positions {
        sections: Some(SectionOrder::Chunked),
        ..qwen2::FAMILY.positions
    },
    defaults: Defaults {
        num_key_value_heads: Some(8),
        rms_norm_eps: 1e-5,
        rope_theta: 1_000_000.0,
        ..qwen2::FAMILY.defaults
    },
    window: Window {
        default_full_layers: 80,
        ..qwen2::FAMILY.window
    },
    honours: &["text_config", "vision_config"],
    ..qwen2::FAMILY
};

const NESTED: Nested = Nested {
    model_type: "qwen3_vl_text",
    prefix: "model.language_model.",
};

pub(crate) static QWEN3: Family = Family {
    class_name: "Qwen3VLForConditionalGeneration",
    model_type: "qwen3_vl",
    nested: Some(NESTED),
    layers: Layers {
        rotate_axes: Some(apply_interleaved_rotary_pos_emb),
        ..qwen3::FAMILY.layers
    },
    positions: Positions {
        sections: Some(SectionOrder::Interleaved),
        ..qwen3::FAMILY.positions
    },
    defaults: Defaults {
        rope_theta: 500_000.0,
        ..qwen3::FAMILY.defaults
    },
    honours: &["text_config", "vision_config"],
    ..qwen3::FAMILY
};

pub(crate) static QWEN3_MOE: Family = Family {
    class_name: "Qwen3VLMoeForConditionalGeneration",
    model_type: "qwen3_vl_moe",
    nested: Some(Nested {
        model_type: "qwen3_vl_moe_text",
        ..NESTED
    }),
    layers: QWEN3.layers,
    experts: match qwen3_moe::FAMILY.experts {
        Some(experts) => Some(Experts {
            files: ExpertNames {
                transposed: true,
                ..ExpertNames::STACKED
            },
            ..experts
        }),
        None => None,
    },
    positions: QWEN3.positions,
    defaults: Defaults {
        rope_theta: 500_000.0,
        norm_topk_prob: true,
        ..qwen3_moe::FAMILY.defaults
    },
    honours: &[
        "text_config",
        "vision_config",
        "num_experts",
        "num_local_experts",
        "moe_intermediate_size",
    ],
    refuses: &[(
        "norm_topk_prob",
        Neutral::True,
        "the weights of a token's experts are always renormalised",
    )],
    ..qwen3_moe::FAMILY
};

/// Rotates queries `[b, hq, s, d]` and keys `[b, hk, s, d]` by three positions. `cos` and `sin` are `[3, b or 1, s, d]`.
/// The first pairs take the first position, as many as the first section says, and so on. Element `i` of the first half
/// of each head pairs with element `i` of the second half.
#[fused_kernel("npu_fused_rope", style = half, sections = chunked)]
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
#[fused_kernel("npu_fused_rope", style = half, sections = interleaved)]
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
