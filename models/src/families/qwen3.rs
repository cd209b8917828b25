//! The dense Qwen3 family.

use super::llama;
use crate::config::family::{Defaults, Family, HeadNorms, Window};
use crate::layers::blocks::{Mlp, RmsNorm};
use crate::layers::kinds::Layers;
use crate::layers::qwen3::{Qwen3Mlp, Qwen3RmsNorm, apply_rotary_pos_emb, norm_and_rotate};

pub(crate) static FAMILY: Family = Family {
    class_name: "Qwen3ForCausalLM",
    model_type: "qwen3",
    head_norms: Some(HeadNorms::OfHeads),
    defaults: Defaults {
        num_key_value_heads: Some(32),
        head_dim: Some(128),
        ..llama::FAMILY.defaults
    },
    chosen_biases: &["attention_bias"],
    window: Window {
        switched: true,
        ..Window::NONE
    },
    ..llama::FAMILY
};

pub(crate) static LAYERS: Layers = Layers {
    norm: |weight, variance_epsilon| {
        RmsNorm::Qwen3(Qwen3RmsNorm {
            weight,
            variance_epsilon,
        })
    },
    mlp: |new| {
        let [gate_proj, up_proj, down_proj] = new.separate();
        Mlp::Qwen3(Qwen3Mlp {
            gate_proj,
            up_proj,
            down_proj,
        })
    },
    rotate: apply_rotary_pos_emb,
    norm_and_rotate: Some(norm_and_rotate),
    ..llama::LAYERS
};
