//! The text models of Gemma 3: Gemma 2's layers, with norms of query and key heads, and rotary frequencies of their own in
//! layers with a window.

use super::gemma2;
use super::llama;
use crate::config::ScoreConfig;
use crate::config::family::{Defaults, Family, HeadNorms, Positions, Window};
use crate::layers::gemma3::norm_and_rotate;
use crate::layers::kinds::Layers;

pub(crate) static FAMILY: Family = Family {
    class_name: "Gemma3ForCausalLM",
    model_type: "gemma3_text",
    head_norms: Some(HeadNorms::OfHeads),
    scores: Some(ScoreConfig {
        query_pre_attn_scalar: 256.0,
        attn_logit_softcapping: None,
        final_logit_softcapping: None,
    }),
    positions: Positions {
        local_theta: Some(10_000.0),
        ..llama::FAMILY.positions
    },
    defaults: Defaults {
        rope_theta: 1_000_000.0,
        ..gemma2::FAMILY.defaults
    },
    window: Window {
        full_every: Some(6),
        pattern: true,
        ..gemma2::FAMILY.window
    },
    honours: &[
        "query_pre_attn_scalar",
        "final_logit_softcapping",
        "rope_local_base_freq",
    ],
    ..gemma2::FAMILY
};

pub(crate) static LAYERS: Layers = Layers {
    norm_and_rotate: Some(norm_and_rotate),
    ..gemma2::LAYERS
};
