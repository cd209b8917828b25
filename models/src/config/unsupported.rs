//! Fields that would change the result and are not implemented.
//!
//! A configuration may hold any number of fields that matter only elsewhere (token ids, `use_cache`, generation
//! settings). Those are kept and ignored. The fields below affect the forward pass of some model family, so that
//! ignoring them would give plausible but wrong numbers.

use serde_json::Value;

use super::family::Family;
use super::fields::{Fields, brief};
use crate::{ModelConfig, ModelError};

/// The value at which a field has no effect. An absent or `null` field has no effect either.
#[derive(Clone, Copy)]
pub(crate) enum Neutral {
    /// Any value has an effect.
    Nothing,
    /// No value has an effect: the family does not read the field.
    Anything,
    False,
    True,
    Number(f64),
    Text(&'static str),
    Empty,
}

impl Neutral {
    pub(crate) fn admits(self, value: &Value) -> bool {
        match self {
            Neutral::Nothing => false,
            Neutral::Anything => true,
            Neutral::False => value == &Value::Bool(false),
            Neutral::True => value == &Value::Bool(true),
            Neutral::Number(neutral) => value.as_f64() == Some(neutral),
            Neutral::Text(neutral) => value.as_str() == Some(neutral),
            Neutral::Empty => {
                value.as_array().is_some_and(Vec::is_empty)
                    || value.as_object().is_some_and(serde_json::Map::is_empty)
            }
        }
    }
}

/// A field, the value that has no effect, and the effect of other values or the reason why they are refused.
pub(crate) type Refusal = (&'static str, Neutral, &'static str);

/// The refused fields, with the effect of other values.
#[rustfmt::skip] // one field, one line
const REFUSED: &[Refusal] = &[
    // Weights that differ from what the tensor names mean.
    ("compression_config", Neutral::Nothing, "says that the weights are quantised"),
    ("pruned_heads", Neutral::Empty, "removes attention heads"),
    ("auto_map", Neutral::Empty, "replaces the model's code by the repository's own"),
    // Attention.
    ("attn_logit_softcapping", Neutral::Nothing, "caps attention scores"),
    ("attention_multiplier", Neutral::Nothing, "replaces the scale of attention scores"),
    ("query_pre_attn_scalar", Neutral::Nothing, "replaces the scale of attention scores"),
    ("attn_temperature_tuning", Neutral::False, "scales queries by position"),
    ("attention_chunk_size", Neutral::Nothing, "limits attention to chunks"),
    ("attention_sinks", Neutral::False, "adds sinks to the softmax"),
    ("clip_qkv", Neutral::Nothing, "clips queries, keys and values"),
    ("qk_layernorm", Neutral::False, "normalises queries and keys"),
    ("use_qk_norm", Neutral::Nothing, "chooses whether queries and keys are normalised"),
    ("qkv_bias", Neutral::False, "adds biases to some of the projections"),
    ("attention_out_bias", Neutral::False, "adds a bias to the output projection"),
    ("multi_query", Neutral::False, "shares one key and value head"),
    ("q_lora_rank", Neutral::Nothing, "factorises the query projection"),
    ("kv_lora_rank", Neutral::Nothing, "factorises the key and value projections"),
    ("num_kv_shared_layers", Neutral::Number(0.0), "shares keys and values between layers"),
    ("add_cross_attention", Neutral::False, "adds cross-attention"),
    ("is_encoder_decoder", Neutral::False, "adds an encoder"),
    // Positions.
    ("use_bidirectional_attention", Neutral::False, "lets tokens see later ones"),
    ("alibi", Neutral::False, "replaces rotary positions by biases"),
    ("no_rope_layers", Neutral::Empty, "leaves out rotary positions in some layers"),
    ("partial_rotary_factor", Neutral::Number(1.0), "rotates a part of each head"),
    ("rotary_pct", Neutral::Number(1.0), "rotates a part of each head"),
    ("rope_interleave", Neutral::False, "rotates neighbouring pairs"),
    ("rope_interleaved", Neutral::False, "rotates neighbouring pairs"),
    ("rope_local_base_freq", Neutral::Nothing, "gives some layers another rotary base"),
    ("rope_type", Neutral::Nothing, "belongs inside `rope_parameters` or `rope_scaling`"),
    // Scales around the layers.
    ("embedding_multiplier", Neutral::Number(1.0), "scales the embeddings"),
    ("scale_emb", Neutral::Number(1.0), "scales the embeddings"),
    ("residual_multiplier", Neutral::Number(1.0), "scales the residual branches"),
    ("scale_depth", Neutral::Nothing, "scales the residual branches"),
    ("logit_scale", Neutral::Number(1.0), "scales the logits"),
    ("logits_scaling", Neutral::Number(1.0), "scales the logits"),
    ("final_logit_softcapping", Neutral::Nothing, "caps the logits"),
    ("parallel_residual", Neutral::False, "feeds attention and MLP the same input"),
    ("use_parallel_residual", Neutral::False, "feeds attention and MLP the same input"),
    ("layernorm_zero_centered_gamma", Neutral::False, "adds one to normalisation weights"),
    // Other kinds of layer.
    ("num_experts", Neutral::Number(0.0), "replaces the MLP by experts"),
    ("num_local_experts", Neutral::Number(0.0), "replaces the MLP by experts"),
    ("n_routed_experts", Neutral::Number(0.0), "replaces the MLP by experts"),
    ("moe_intermediate_size", Neutral::Nothing, "replaces the MLP by experts"),
    ("shared_expert_intermediate_size", Neutral::Number(0.0), "adds a shared expert"),
    ("n_shared_experts", Neutral::Number(0.0), "adds shared experts"),
    ("first_k_dense_replace", Neutral::Number(0.0), "makes the first layers dense"),
    ("routed_scaling_factor", Neutral::Number(1.0), "scales what the experts give"),
    ("swiglu_alpha", Neutral::Number(1.702), "changes the activation"),
    ("swiglu_limit", Neutral::Nothing, "clamps the gates of the MLP"),
    ("lm_head_bias", Neutral::False, "adds a bias to the logits"),
    ("text_config", Neutral::Nothing, "describes a model of several modalities"),
    ("vision_config", Neutral::Nothing, "describes a model of several modalities"),
];

/// Noise in training, which nothing else has: dropout of attention weights, activations and embeddings, and random factors of
/// the router's input.
const NOISE: [&str; 8] = [
    "attention_dropout",
    "attn_pdrop",
    "hidden_dropout",
    "hidden_dropout_prob",
    "resid_pdrop",
    "residual_dropout",
    "embd_pdrop",
    "router_jitter_noise",
];

impl ModelConfig {
    /// Returns a field that asks for dropout or other noise in training, with its value, if there is one. Models here have
    /// none of it: what they compute is right, and training would differ from that of `transformers`.
    pub fn dropout(&self) -> Option<(&'static str, f64)> {
        let defaults = self.family().dropout;
        NOISE.into_iter().find_map(|field| {
            let default = defaults.contains(&field).then_some(DROPPED);
            let own = self.other.get(field).and_then(Value::as_f64).or(default)?;
            (own != 0.0).then_some((field, own))
        })
    }
}

/// The dropout of the [defaults](Family::dropout) of `transformers`.
const DROPPED: f64 = 0.1;

/// Returns the names of the fields of [`REFUSED`] and [`NOISE`].
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    REFUSED.iter().map(|(name, ..)| *name).chain(NOISE)
}

/// Returns `true` if the field has the value that the family always uses, as in some Qwen3-MoE files.
fn goes_without_saying(family: &Family, name: &str, value: &Value) -> bool {
    let own = match name {
        "use_qk_norm" => family.head_norms.is_some(),
        "qkv_bias" => family.defaults.qkv_bias,
        // The class of Gemma 3n has no scale, whatever the file says.
        "query_pre_attn_scalar" => return family.altup,
        _ => return false,
    };
    *value == Value::Bool(own)
}

/// Refuses every field of [`REFUSED`] whose value has an effect, unless the family reads it. Also refuses the fields
/// that the family itself refuses.
pub(super) fn refuse(fields: Fields<'_>, family: &Family) -> Result<(), ModelError> {
    for &(name, neutral, effect) in REFUSED {
        if family.honours.contains(&name) {
            continue;
        }
        let Some(value) = fields.value(name) else {
            continue;
        };
        if !neutral.admits(value) && !goes_without_saying(family, name, value) {
            let problem = format!("{} {effect}, which is not supported", brief(value));
            return Err(fields.error(name, problem));
        }
    }
    for field in NOISE {
        fields.number(field)?;
    }
    for (field, neutral, why) in family.refuses {
        if let Some(value) = fields.value(field)
            && !neutral.admits(value)
        {
            let problem = format!("{} is not supported: {why}", brief(value));
            return Err(fields.error(field, problem));
        }
    }
    Ok(())
}
