//! Models that `kernels train` knows by name.

use clap::ValueEnum;
use kernels_models::{ModelConfig, ModelError, Qwen3Size};
use serde::Serialize;
use std::fmt;

/// A model to train from scratch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Preset {
    /// Qwen3 with four layers over bytes.
    Qwen3,
}

impl Preset {
    /// The model for sequences of `seq` tokens.
    ///
    /// # Errors
    /// The sizes don't fit together.
    pub fn config(self, seq: usize) -> Result<ModelConfig, ModelError> {
        match self {
            Self::Qwen3 => ModelConfig::qwen3(Qwen3Size {
                vocab_size: 256,
                hidden_size: 128,
                intermediate_size: 384,
                num_hidden_layers: 4,
                num_attention_heads: 4,
                num_key_value_heads: 2,
                head_dim: 32,
                max_position_embeddings: seq.max(512),
                tie_word_embeddings: true,
            }),
        }
    }
}

impl fmt::Display for Preset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Qwen3 => "qwen3",
        })
    }
}
