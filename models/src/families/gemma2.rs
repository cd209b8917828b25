//! The Gemma 2 family.

use super::llama;
use crate::config::ScoreConfig;
use crate::config::family::{Activation, Defaults, Family, Window};
use crate::layers::blocks::{Mlp, RmsNorm};
use crate::layers::gemma2::{Gemma2Mlp, Gemma2RmsNorm, attend};
use crate::layers::kinds::{Arrangement, Layers};

pub(crate) static FAMILY: Family = Family {
    class_name: "Gemma2ForCausalLM",
    model_type: "gemma2",
    activation: Activation {
        field: "hidden_activation",
        name: "gelu_pytorch_tanh",
    },
    scaled_embeddings: true,
    scores: Some(ScoreConfig {
        query_pre_attn_scalar: 256.0,
        attn_logit_softcapping: Some(50.0),
        final_logit_softcapping: Some(30.0),
    }),
    defaults: Defaults {
        num_key_value_heads: Some(4),
        head_dim: Some(256),
        tie_word_embeddings: true,
        ..llama::FAMILY.defaults
    },
    chosen_biases: &["attention_bias"],
    window: Window {
        honoured: true,
        default_size: Some(4096),
        full_every: Some(2),
        ..Window::NONE
    },
    honours: &[
        "query_pre_attn_scalar",
        "attn_logit_softcapping",
        "final_logit_softcapping",
    ],
    ..llama::FAMILY
};

pub(crate) static LAYERS: Layers = Layers {
    norm: |weight, variance_epsilon| {
        RmsNorm::Gemma2(Gemma2RmsNorm {
            weight,
            variance_epsilon,
        })
    },
    norm_weight: 0.0,
    mlp: |new| {
        let [gate_proj, up_proj, down_proj] = new.separate();
        Mlp::Gemma2(Gemma2Mlp {
            gate_proj,
            up_proj,
            down_proj,
        })
    },
    arrangement: Arrangement::Gemma2,
    attend,
    ..llama::LAYERS
};
