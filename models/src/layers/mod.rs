//! The layers that models are made of, named after the first model that had each.
//!
//! The modules with names of models hold the annotated items; the others build layers of them. [`kinds::Layers`] is the choice
//! among them, which a family makes.

pub(crate) mod arrangements;
pub(crate) mod attention;
pub(crate) mod blocks;
pub(crate) mod cache;
pub(crate) mod code2wav;
pub mod deepseek_v2;
pub(crate) mod deepseek_v3;
pub(crate) mod gated_delta;
pub mod gemma2;
pub(crate) mod gemma3;
pub mod gemma3n;
pub mod glm4;
pub mod glm4_moe;
pub mod glm4v_moe;
pub mod gpt_oss;
pub(crate) mod heads;
pub(crate) mod kinds;
pub(crate) mod latent;
pub(crate) mod layer;
pub mod llama;
pub mod llama4;
pub mod mixtral;
pub mod olmo2;
pub mod phi3;
pub(crate) mod place;
pub mod qwen2_moe;
pub mod qwen3;
pub mod qwen3_5;
pub mod qwen3_moe;
pub mod qwen3_next;
pub(crate) mod qwen_omni;
pub mod qwen_vl;
pub(crate) mod rope;
pub(crate) mod scores;
pub(crate) mod sparse;
pub(crate) mod state;
pub mod vision;
pub(crate) mod wide;
