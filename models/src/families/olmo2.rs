//! The OLMo 2 family. Its MLP is Llama's.

use super::llama;
use crate::config::family::{Defaults, Family, HeadNorms, Positions};
use crate::layers::blocks::RmsNorm;
use crate::layers::kinds::{Arrangement, Layers};
use crate::layers::olmo2::{Olmo2RmsNorm, apply_rotary_pos_emb, norm_and_rotate};

pub(crate) static FAMILY: Family = Family {
    class_name: "Olmo2ForCausalLM",
    model_type: "olmo2",
    head_norms: Some(HeadNorms::OfRows),
    positions: Positions {
        wide_tables: true,
        ..llama::FAMILY.positions
    },
    defaults: Defaults {
        rms_norm_eps: 1e-5,
        ..llama::FAMILY.defaults
    },
    chosen_biases: &["attention_bias"],
    ..llama::FAMILY
};

pub(crate) static LAYERS: Layers = Layers {
    norm: |weight, variance_epsilon| {
        RmsNorm::Olmo2(Olmo2RmsNorm {
            weight,
            variance_epsilon,
        })
    },
    arrangement: Arrangement::Olmo2,
    rotate: apply_rotary_pos_emb,
    norm_and_rotate: Some(norm_and_rotate),
    ..llama::LAYERS
};
