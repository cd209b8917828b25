//! The Llama family, which most others take their fields from.

use crate::config::family::{Activation, Defaults, Family, Positions, Projections, Window};
use crate::layers::attention;
use crate::layers::blocks::{Mlp, RmsNorm};
use crate::layers::kinds::{Arrangement, Layers};
use crate::layers::llama::{LlamaMlp, LlamaRmsNorm, apply_rotary_pos_emb};

pub(crate) static FAMILY: Family = Family {
    class_name: "LlamaForCausalLM",
    model_type: "llama",
    nested: None,
    vision: None,
    speech: None,
    names: &[],
    head_norms: None,
    chosen_norms: false,
    sinks: false,
    projections: Projections {
        packed: false,
        output_bias: true,
    },
    latent: false,
    altup: false,
    mixed_layers: false,
    experts: None,
    activation: Activation {
        field: "hidden_act",
        name: "silu",
    },
    scaled_embeddings: false,
    scores: None,
    positions: Positions {
        rotated_part: None,
        local_theta: None,
        scalings: &["default", "linear", "llama3", "yarn"],
        sections: None,
        mscale: false,
        wide_tables: false,
    },
    defaults: Defaults {
        num_key_value_heads: None,
        head_dim: None,
        rms_norm_eps: 1e-6,
        rope_theta: 10_000.0,
        tie_word_embeddings: false,
        attention_bias: false,
        qkv_bias: false,
        use_qk_norm: false,
        norm_topk_prob: false,
    },
    chosen_biases: &["mlp_bias", "attention_bias"],
    window: Window::NONE,
    honours: &[],
    refuses: &[],
    dropout: &[],
};

/// The layers of the family.
pub(crate) static LAYERS: Layers = Layers {
    norm: |weight, variance_epsilon| {
        RmsNorm::Llama(LlamaRmsNorm {
            weight,
            variance_epsilon,
        })
    },
    norm_weight: 1.0,
    mlp: |new| Mlp::Llama(LlamaMlp::new(new.separate())),
    arrangement: Arrangement::Llama,
    block: None,
    rotate: apply_rotary_pos_emb,
    rotate_axes: None,
    norm_and_rotate: None,
    norm_and_rotate_axes: None,
    rotated_norm: None,
    attend: attention::attend,
};
