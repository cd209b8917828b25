//! The text model of GLM-4.5V: GLM-4-MoE's layers with three positions for each token, which are equal for text: time,
//! height and width.

use super::glm4_moe;
use crate::config::Neutral;
use crate::config::family::{Defaults, Family, Nested, Positions, SectionOrder};
use crate::layers::glm4v_moe::apply_multimodal_rotary_pos_emb;
use crate::layers::kinds::Layers;

const BY_DEPTH: &str = "`first_k_dense_replace` says which layers are sparse";

pub(crate) static FAMILY: Family = Family {
    class_name: "Glm4vMoeForConditionalGeneration",
    model_type: "glm4v_moe",
    nested: Some(Nested {
        model_type: "glm4v_moe_text",
        prefix: "model.language_model.",
    }),
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

pub(crate) static LAYERS: Layers = Layers {
    rotate_axes: Some(apply_multimodal_rotary_pos_emb),
    norm_and_rotate: None,
    ..glm4_moe::LAYERS
};
