//! Qwen2.5-VL and Qwen3-VL. Their text models have Qwen2's and Qwen3's layers, with three positions for each token, which are
//! equal for text: time, height and width.

use super::llama;
use super::qwen2;
use super::qwen3;
use super::qwen3_moe;
use crate::config::Neutral;
use crate::config::family::{
    Defaults, ExpertNames, Experts, Family, Nested, Positions, SectionOrder, Tower, Vision, Window,
};
use crate::layers::kinds::Layers;
use crate::layers::qwen_vl::{
    apply_interleaved_rotary_pos_emb, apply_multimodal_rotary_pos_emb, norm_and_rotate,
};

pub(crate) static QWEN2_5: Family = Family {
    class_name: "Qwen2_5_VLForConditionalGeneration",
    model_type: "qwen2_5_vl",
    nested: Some(Nested {
        model_type: "qwen2_5_vl_text",
        prefix: "model.",
    }),
    vision: Some(Vision {
        model_types: &["qwen2_5_vl_vision", "qwen2_5_vl"],
        alone: &[
            ("qwen2_5_vl_vision", Tower::Qwen2_5 { separate: false }),
            (
                "qwen2_5_omni_vision_encoder",
                Tower::Qwen2_5 { separate: true },
            ),
        ],
        prefix: "visual.",
        tower: Tower::Qwen2_5 { separate: false },
    }),
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

const VISION: Vision = Vision {
    model_types: &["qwen3_vl_vision", "qwen3_vl"],
    alone: &[("qwen3_vl_vision", Tower::Qwen3 { deepstack: true })],
    prefix: "model.visual.",
    tower: Tower::Qwen3 { deepstack: true },
};

pub(crate) static QWEN3: Family = Family {
    class_name: "Qwen3VLForConditionalGeneration",
    model_type: "qwen3_vl",
    nested: Some(NESTED),
    vision: Some(VISION),
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
    vision: Some(Vision {
        model_types: &["qwen3_vl_moe_vision", "qwen3_vl_moe"],
        alone: &[("qwen3_vl_moe_vision", Tower::Qwen3 { deepstack: true })],
        ..VISION
    }),
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

pub(crate) static QWEN2_5_LAYERS: Layers = Layers {
    rotate_axes: Some(apply_multimodal_rotary_pos_emb),
    ..llama::LAYERS
};

pub(crate) static QWEN3_LAYERS: Layers = Layers {
    rotate_axes: Some(apply_interleaved_rotary_pos_emb),
    norm_and_rotate_axes: Some(norm_and_rotate),
    ..qwen3::LAYERS
};

pub(crate) static QWEN3_MOE_LAYERS: Layers = Layers {
    block: qwen3_moe::LAYERS.block,
    ..QWEN3_LAYERS
};
