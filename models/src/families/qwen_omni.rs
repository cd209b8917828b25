//! The parts of Qwen2.5-Omni and Qwen3-Omni: thinkers, which are text models; talkers, which are language models of codes of
//! sound; the predictor of the other codes of a frame, and the transformer of the vocoder.

use super::{llama, qwen_vl, qwen2, qwen2_moe, qwen3, qwen3_moe};
use crate::config::family::{
    Defaults, ExpertNames, Experts, Family, Nested, Positions, SectionOrder, Shared, Window,
};
use crate::config::{Neutral, OmniPart, PartOf, Speech, Whole};
use crate::layers::kinds::{Arrangement, Layers};

/// The checkpoints that hold several of these parts.
pub(super) static WHOLES: &[Whole] = &[
    Whole {
        classes: &["Qwen3OmniMoeForConditionalGeneration"],
        model_type: "qwen3_omni_moe",
        parts: &[
            PartOf {
                part: OmniPart::Thinker,
                class: THINKER3.class_name,
                object: "thinker_config.",
                tensors: "thinker.",
            },
            PartOf {
                part: OmniPart::Talker,
                class: TALKER3.class_name,
                object: "talker_config.",
                tensors: "talker.",
            },
            PartOf {
                part: OmniPart::CodePredictor,
                class: CODE_PREDICTOR.class_name,
                object: "talker_config.code_predictor_config.",
                tensors: "talker.code_predictor.",
            },
            PartOf {
                part: OmniPart::Code2Wav,
                class: CODE2WAV.class_name,
                object: "code2wav_config.",
                tensors: "code2wav.pre_transformer.",
            },
        ],
        itself: None,
    },
    Whole {
        // Published files have the second class.
        classes: &["Qwen2_5OmniForConditionalGeneration", "Qwen2_5OmniModel"],
        model_type: "qwen2_5_omni",
        parts: &[
            PartOf {
                part: OmniPart::Thinker,
                class: THINKER2_5.class_name,
                object: "thinker_config.",
                tensors: "thinker.",
            },
            PartOf {
                part: OmniPart::Talker,
                class: TALKER2_5.class_name,
                object: "talker_config.",
                tensors: "talker.",
            },
        ],
        itself: None,
    },
    Whole {
        classes: &[TALKER3.class_name],
        model_type: TALKER3.model_type,
        parts: &[PartOf {
            part: OmniPart::CodePredictor,
            class: CODE_PREDICTOR.class_name,
            object: "code_predictor_config.",
            tensors: "code_predictor.",
        }],
        itself: Some(OmniPart::Talker),
    },
    Whole {
        classes: &["Qwen3OmniMoeCode2Wav"],
        model_type: "",
        parts: &[PartOf {
            part: OmniPart::Code2Wav,
            class: CODE2WAV.class_name,
            object: "",
            tensors: "pre_transformer.",
        }],
        itself: None,
    },
];

pub(crate) static THINKER2_5: Family = Family {
    class_name: "Qwen2_5OmniThinkerForConditionalGeneration",
    model_type: "qwen2_5_omni_thinker",
    nested: Some(Nested {
        model_type: "qwen2_5_omni_text",
        prefix: "model.",
    }),
    defaults: DEFAULTS2_5,
    window: WINDOW2_5,
    // Its tower has names and positions of its own.
    vision: None,
    ..qwen_vl::QWEN2_5
};

pub(crate) static TALKER2_5: Family = Family {
    class_name: "Qwen2_5OmniTalkerForConditionalGeneration",
    model_type: "qwen2_5_omni_talker",
    speech: Some(Speech::ProjectedTalker),
    names: &[
        ("model.thinker_to_talker_proj.", "thinker_to_talker_proj."),
        ("lm_head.", "codec_head."),
    ],
    positions: qwen_vl::QWEN2_5.positions,
    defaults: Defaults {
        head_dim: Some(128),
        ..DEFAULTS2_5
    },
    window: WINDOW2_5,
    refuses: &[(
        "tie_word_embeddings",
        Neutral::False,
        "the head is not a table of embeddings",
    )],
    ..qwen2::FAMILY
};

const DEFAULTS2_5: Defaults = Defaults {
    num_key_value_heads: Some(4),
    rms_norm_eps: 1e-6,
    ..qwen_vl::QWEN2_5.defaults
};

const WINDOW2_5: Window = Window {
    default_size: Some(32_768),
    default_full_layers: 28,
    ..qwen2::FAMILY.window
};

pub(crate) static THINKER3: Family = Family {
    class_name: "Qwen3OmniMoeThinkerForConditionalGeneration",
    model_type: "qwen3_omni_moe_thinker",
    nested: Some(Nested {
        model_type: "qwen3_omni_moe_text",
        prefix: "model.",
    }),
    positions: INTERLEAVED,
    defaults: Defaults {
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
    ..qwen3_moe::FAMILY
};

const INTERLEAVED: Positions = Positions {
    sections: Some(SectionOrder::Interleaved),
    ..qwen3::FAMILY.positions
};

const EVERY_LAYER: &str = "every layer is a mixture of experts";

pub(crate) static TALKER3: Family = Family {
    class_name: "Qwen3OmniMoeTalkerForConditionalGeneration",
    model_type: "qwen3_omni_moe_talker",
    nested: Some(Nested {
        model_type: "qwen3_omni_moe_talker_text",
        prefix: "model.",
    }),
    speech: Some(Speech::Talker),
    names: &[
        ("model.embed_tokens.", "model.codec_embedding."),
        ("lm_head.", "codec_head."),
    ],
    experts: match qwen3_moe::FAMILY.experts {
        Some(experts) => Some(Experts {
            shared: Shared::Width,
            // `transformers` stacks those of a talker alone, and published wholes don't.
            files: ExpertNames {
                published_stacked: true,
                ..ExpertNames::USUAL
            },
            ..experts
        }),
        None => None,
    },
    positions: INTERLEAVED,
    defaults: Defaults {
        num_key_value_heads: Some(2),
        norm_topk_prob: false,
        ..qwen3_moe::FAMILY.defaults
    },
    honours: &[
        "text_config",
        "num_experts",
        "num_local_experts",
        "moe_intermediate_size",
        "shared_expert_intermediate_size",
    ],
    // `transformers` does not read these fields.
    refuses: &[
        ("decoder_sparse_step", Neutral::Anything, EVERY_LAYER),
        ("mlp_only_layers", Neutral::Anything, EVERY_LAYER),
    ],
    ..qwen3::FAMILY
};

pub(crate) static CODE_PREDICTOR: Family = Family {
    class_name: "Qwen3OmniMoeTalkerCodePredictorModelForConditionalGeneration",
    model_type: "qwen3_omni_moe_talker_code_predictor",
    speech: Some(Speech::CodePredictor),
    defaults: Defaults {
        num_key_value_heads: Some(8),
        ..qwen3::FAMILY.defaults
    },
    window: Window::NONE,
    refuses: &[(
        "tie_word_embeddings",
        Neutral::False,
        "each code has a table and a head of its own",
    )],
    ..qwen3::FAMILY
};

pub(crate) static CODE2WAV: Family = Family {
    class_name: "Qwen3OmniMoeCode2WavTransformerModel",
    // Files do not name it.
    model_type: "qwen3_omni_moe_code2wav",
    speech: Some(Speech::Code2Wav),
    defaults: Defaults {
        num_key_value_heads: Some(16),
        rms_norm_eps: 1e-5,
        ..llama::FAMILY.defaults
    },
    chosen_biases: &["attention_bias"],
    window: Window {
        honoured: true,
        default_size: Some(72),
        ..Window::NONE
    },
    ..llama::FAMILY
};

pub(crate) static THINKER2_5_LAYERS: Layers = qwen_vl::QWEN2_5_LAYERS;

pub(crate) static TALKER2_5_LAYERS: Layers = qwen_vl::QWEN2_5_LAYERS;

pub(crate) static THINKER3_LAYERS: Layers = qwen_vl::QWEN3_MOE_LAYERS;

pub(crate) static TALKER3_LAYERS: Layers = Layers {
    block: qwen2_moe::LAYERS.block,
    ..qwen_vl::QWEN3_LAYERS
};

pub(crate) static CODE_PREDICTOR_LAYERS: Layers = qwen3::LAYERS;

pub(crate) static CODE2WAV_LAYERS: Layers = Layers {
    arrangement: Arrangement::Code2Wav,
    ..llama::LAYERS
};
