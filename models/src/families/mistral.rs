//! The Mistral family: Llama's layers, in some models with a window in every layer.

use super::llama;
use crate::config::family::{Defaults, Family, Window};

pub(crate) use super::llama::LAYERS;

pub(crate) static FAMILY: Family = Family {
    class_name: "MistralForCausalLM",
    model_type: "mistral",
    defaults: Defaults {
        num_key_value_heads: Some(8),
        ..llama::FAMILY.defaults
    },
    chosen_biases: &[],
    window: Window {
        honoured: true,
        default_size: Some(4096),
        ..Window::NONE
    },
    ..llama::FAMILY
};
