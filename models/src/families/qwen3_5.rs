//! The text models of Qwen3.5: Qwen3-Next's layers with projections of their own for each part of linear attention, and
//! three positions for each token, which are equal for text: time, height and width.
//!
//! Files have the class of the whole model, which also takes pictures, or that of the text model alone. The vision tower is
//! Qwen3-VL's, without features of blocks for the text model.

use super::qwen3_next;
use crate::config::Neutral;
use crate::config::family::{
    Defaults, Family, LinearProjections, Nested, Positions, SectionOrder, Tower, Vision,
};
use crate::layers::kinds::Layers;
use crate::layers::qwen3_5::apply_interleaved_rotary_pos_emb;

/// The place of the text model in the whole.
const INSIDE: &str = "model.language_model.";

const ALL_SPARSE: &str = "all layers of this family are sparse";

const TOWER: Tower = Tower::Qwen3 { deepstack: false };

const VISION: Vision = Vision {
    model_types: &["qwen3_5_vision", "qwen3_5"],
    alone: &[("qwen3_5_vision", TOWER)],
    prefix: "model.visual.",
    tower: TOWER,
};

pub(crate) static TEXT: Family = Family {
    class_name: "Qwen3_5ForCausalLM",
    model_type: "qwen3_5_text",
    other_prefix: Some(INSIDE),
    linear: Some(LinearProjections::Separate),
    experts: None,
    positions: Positions {
        sections: Some(SectionOrder::Interleaved),
        ..qwen3_next::FAMILY.positions
    },
    defaults: Defaults {
        num_key_value_heads: Some(4),
        ..qwen3_next::FAMILY.defaults
    },
    honours: &["partial_rotary_factor"],
    ..qwen3_next::FAMILY
};

pub(crate) static WHOLE: Family = Family {
    class_name: "Qwen3_5ForConditionalGeneration",
    model_type: "qwen3_5",
    nested: Some(Nested {
        model_type: "qwen3_5_text",
        prefix: INSIDE,
    }),
    vision: Some(VISION),
    other_prefix: None,
    honours: &["text_config", "vision_config", "partial_rotary_factor"],
    ..TEXT
};

pub(crate) static MOE_TEXT: Family = Family {
    class_name: "Qwen3_5MoeForCausalLM",
    model_type: "qwen3_5_moe_text",
    experts: qwen3_next::FAMILY.experts,
    always_sparse: true,
    defaults: qwen3_next::FAMILY.defaults,
    honours: qwen3_next::FAMILY.honours,
    refuses: &[
        qwen3_next::GATED,
        qwen3_next::GATE,
        (
            "norm_topk_prob",
            Neutral::True,
            "the weights of a token's experts are always renormalised",
        ),
        ("decoder_sparse_step", Neutral::Number(1.0), ALL_SPARSE),
        ("mlp_only_layers", Neutral::Empty, ALL_SPARSE),
    ],
    ..TEXT
};

pub(crate) static MOE_WHOLE: Family = Family {
    class_name: "Qwen3_5MoeForConditionalGeneration",
    model_type: "qwen3_5_moe",
    nested: Some(Nested {
        model_type: "qwen3_5_moe_text",
        prefix: INSIDE,
    }),
    vision: Some(Vision {
        model_types: &["qwen3_5_moe_vision", "qwen3_5_moe"],
        alone: &[("qwen3_5_moe_vision", TOWER)],
        ..VISION
    }),
    other_prefix: None,
    honours: &[
        "text_config",
        "vision_config",
        "num_experts",
        "num_local_experts",
        "moe_intermediate_size",
        "shared_expert_intermediate_size",
        "partial_rotary_factor",
    ],
    ..MOE_TEXT
};

pub(crate) static LAYERS: Layers = Layers {
    rotate_axes: Some(apply_interleaved_rotary_pos_emb),
    norm_and_rotate: None,
    ..qwen3_next::LAYERS
};
