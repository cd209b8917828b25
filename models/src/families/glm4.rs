//! The dense GLM-4 family. Its norm is Llama's, and its MLP is Phi-3's.

use super::llama;
use super::phi3;
use crate::config::family::{Defaults, Family, Positions, Projections};
use crate::layers::glm4::apply_rotary_pos_emb;
use crate::layers::kinds::{Arrangement, Layers};

pub(crate) static FAMILY: Family = Family {
    class_name: "Glm4ForCausalLM",
    model_type: "glm4",
    projections: Projections {
        packed: false,
        output_bias: false,
    },
    positions: Positions {
        rotated_part: Some(0.5),
        ..llama::FAMILY.positions
    },
    defaults: Defaults {
        num_key_value_heads: Some(2),
        head_dim: Some(128),
        rms_norm_eps: 0.000_000_156_25,
        attention_bias: true,
        ..llama::FAMILY.defaults
    },
    chosen_biases: &["attention_bias"],
    honours: &["partial_rotary_factor"],
    ..llama::FAMILY
};

pub(crate) static LAYERS: Layers = Layers {
    mlp: phi3::LAYERS.mlp,
    arrangement: Arrangement::Glm4,
    rotate: apply_rotary_pos_emb,
    ..llama::LAYERS
};
