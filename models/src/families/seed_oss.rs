//! The Seed-OSS family: Llama's layers, with biases that the configuration chooses one by one.

use super::llama;
use crate::config::family::{Defaults, Family, Projections};

pub(crate) use super::llama::LAYERS;

pub(crate) static FAMILY: Family = Family {
    class_name: "SeedOssForCausalLM",
    model_type: "seed_oss",
    projections: Projections {
        packed: false,
        output_bias: false,
    },
    defaults: Defaults {
        num_key_value_heads: Some(8),
        head_dim: Some(128),
        attention_bias: true,
        ..llama::FAMILY.defaults
    },
    chosen_biases: &["mlp_bias", "attention_bias", "attention_out_bias"],
    honours: &["attention_out_bias"],
    dropout: &["attention_dropout", "residual_dropout"],
    ..llama::FAMILY
};
