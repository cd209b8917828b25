//! The Qwen2 family: Llama's layers, with biases on queries, keys and values, and in some models windows in the upper
//! layers.

use super::llama;
use crate::config::family::{Defaults, Family, Window};

pub(crate) use super::llama::LAYERS;

pub(crate) static FAMILY: Family = Family {
    class_name: "Qwen2ForCausalLM",
    model_type: "qwen2",
    defaults: Defaults {
        num_key_value_heads: Some(32),
        qkv_bias: true,
        ..llama::FAMILY.defaults
    },
    chosen_biases: &[],
    window: Window {
        honoured: true,
        switched: true,
        default_size: Some(4096),
        ..Window::NONE
    },
    ..llama::FAMILY
};
