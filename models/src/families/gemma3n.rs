//! The text models of Gemma 3n. The norm is OLMo 2's; `layers/gemma3n/` has the layers.

use super::llama;
use super::olmo2;
use crate::config::family::{Activation, Defaults, Family, Positions, Window};
use crate::config::{Neutral, ScoreConfig};
use crate::layers::kinds::Layers;

pub(crate) static FAMILY: Family = Family {
    class_name: "Gemma3nForCausalLM",
    model_type: "gemma3n_text",
    altup: true,
    activation: Activation {
        field: "hidden_activation",
        name: "gelu_pytorch_tanh",
    },
    scaled_embeddings: true,
    scores: Some(ScoreConfig {
        query_pre_attn_scalar: 1.0,
        attn_logit_softcapping: None,
        final_logit_softcapping: Some(30.0),
    }),
    positions: Positions {
        local_theta: Some(10_000.0),
        ..llama::FAMILY.positions
    },
    defaults: Defaults {
        num_key_value_heads: Some(2),
        head_dim: Some(256),
        rope_theta: 1_000_000.0,
        tie_word_embeddings: true,
        ..llama::FAMILY.defaults
    },
    chosen_biases: &["attention_bias"],
    window: Window {
        honoured: true,
        default_size: Some(512),
        full_every: Some(5),
        ..Window::NONE
    },
    honours: &[
        "final_logit_softcapping",
        "num_kv_shared_layers",
        "rope_local_base_freq",
    ],
    refuses: &[(
        "altup_coef_clip",
        Neutral::Number(120.0),
        "weights are not limited in training, and none comes near the usual limit",
    )],
    ..llama::FAMILY
};

pub(crate) static LAYERS: Layers = Layers {
    norm: olmo2::LAYERS.norm,
    ..llama::LAYERS
};
