//! The text model of GLM-4.5V: GLM-4-MoE's layers with three positions for each token, which are equal for text: time,
//! height and width.

use burn::tensor::Tensor;
use burn_kernels::fused_kernel;

use crate::config::Neutral;
use crate::family::{Defaults, Family, Layers, Nested, Positions, SectionOrder};
use crate::glm4_moe;
use crate::phi3::rotate_part;
use crate::qwen_vl::merged;
use crate::rope::rotate_half;

const BY_DEPTH: &str = "`first_k_dense_replace` says which layers are sparse";

pub(crate) static FAMILY: Family = Family {
    class_name: "Glm4vMoeForConditionalGeneration",
    model_type: "glm4v_moe",
    nested: Some(Nested {
        model_type: "glm4v_moe_text",
        prefix: "model.language_model.",
    }),
    layers: Layers {
        rotate_axes: Some(apply_multimodal_rotary_pos_emb),
        ..glm4_moe::FAMILY.layers
    },
    head_norms: None,
    chosen_norms: false,
    positions: Positions {
        sections: Some(SectionOrder::Chunked),
        ..glm4_moe::FAMILY.positions
    },
    defaults: Defaults {
        attention_bias: true,
        ..glm4_moe::FAMILY.defaults
    },
    honours: &[
        "text_config",
        "vision_config",
        "n_routed_experts",
        "n_shared_experts",
        "moe_intermediate_size",
        "first_k_dense_replace",
        "routed_scaling_factor",
        "partial_rotary_factor",
    ],
    refuses: &[
        (
            "norm_topk_prob",
            Neutral::True,
            "the weights of a token's experts are always renormalised",
        ),
        (
            "output_router_logits",
            Neutral::False,
            "the load-balancing loss of this family is not implemented",
        ),
        ("decoder_sparse_step", Neutral::Number(1.0), BY_DEPTH),
        ("mlp_only_layers", Neutral::Empty, BY_DEPTH),
    ],
    ..glm4_moe::FAMILY
};

/// Rotates the first elements of the heads of queries `[b, hq, s, d]` and keys `[b, hk, s, d]` by three positions, as
/// many as the tables are wide. `cos` and `sin` are `[3, b or 1, s, w]`. The first pairs take the first position, as many
/// as the first section says, and so on. Element `i` of the first half of the rotated elements pairs with element `i` of
/// the second half.
#[fused_kernel("npu_fused_rope", style = half, width = partial, sections = chunked)]
pub fn apply_multimodal_rotary_pos_emb(
    q: Tensor<4>,
    k: Tensor<4>,
    cos: Tensor<4>,
    sin: Tensor<4>,
    mrope_section: [usize; 3],
) -> (Tensor<4>, Tensor<4>) {
    let axes = SectionOrder::Chunked.axes(mrope_section);
    let (cos, sin) = (merged(cos, &axes), merged(sin, &axes));
    let rotate = |x: Tensor<4>| rotate_part(x, &cos, &sin, rotate_half);
    (rotate(q), rotate(k))
}
