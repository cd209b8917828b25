//! The Qwen3-Next family: gated delta rules in three of four layers, gated attention in the others, and mixtures of
//! experts. Its norm is Gemma 2's, and its block is Qwen2-MoE's.

use super::gemma2;
use super::llama;
use super::qwen2_moe;
use crate::config::family::{Defaults, Family, HeadNorms, LinearProjections, Positions};
use crate::config::{Neutral, Refusal};
use crate::layers::kinds::Layers;
use crate::layers::phi3::apply_rotary_pos_emb;
use crate::layers::qwen3_next::norm_and_rotate;

pub(crate) static FAMILY: Family = Family {
    class_name: "Qwen3NextForCausalLM",
    model_type: "qwen3_next",
    head_norms: Some(HeadNorms::OfHeads),
    linear: Some(LinearProjections::Grouped),
    output_gate: true,
    experts: qwen2_moe::FAMILY.experts,
    positions: Positions {
        rotated_part: Some(0.25),
        ..llama::FAMILY.positions
    },
    defaults: Defaults {
        num_key_value_heads: Some(2),
        head_dim: Some(256),
        norm_topk_prob: true,
        ..llama::FAMILY.defaults
    },
    chosen_biases: &["attention_bias"],
    honours: &[
        "num_experts",
        "num_local_experts",
        "moe_intermediate_size",
        "shared_expert_intermediate_size",
        "partial_rotary_factor",
    ],
    refuses: &[GATED, GATE],
    ..llama::FAMILY
};

/// The gate of attention, which published files name and `transformers` always has.
pub(super) const GATED: Refusal = (
    "attn_output_gate",
    Neutral::True,
    "the result of attention is always gated",
);

/// The function of the gate behind linear attention, which some published files name.
pub(super) const GATE: Refusal = (
    "output_gate_type",
    Neutral::Text("swish"),
    "the result of linear attention is gated by a swish",
);

pub(crate) static LAYERS: Layers = Layers {
    norm: gemma2::LAYERS.norm,
    norm_weight: gemma2::LAYERS.norm_weight,
    block: qwen2_moe::LAYERS.block,
    rotate: apply_rotary_pos_emb,
    norm_and_rotate: Some(norm_and_rotate),
    ..llama::LAYERS
};
