//! Named models for `kernels train`.

use clap::ValueEnum;
use kernels_models::{ModelConfig, ModelError, Qwen3MoeSize, Qwen3Size};
use serde::Serialize;
use std::fmt;

/// A model to train from scratch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Preset {
    /// Qwen3 with four layers, on bytes.
    Qwen3,
    /// Qwen3 with eight experts in each layer. Each byte goes to two, which together are as wide as the dense model's
    /// MLP.
    Qwen3Moe,
}

/// The coefficient of the load-balancing loss. Published models use a tenth or a hundredth of it, for training that is
/// longer by orders of magnitude.
const LOAD_BALANCING: f64 = 0.01;

impl Preset {
    /// Returns the configuration for sequences of `seq` tokens.
    ///
    /// # Errors
    /// Returns an error if the sizes don't fit together.
    pub fn config(self, seq: usize) -> Result<ModelConfig, ModelError> {
        let dense = Qwen3Size {
            vocab_size: 256,
            hidden_size: 128,
            intermediate_size: 384,
            num_hidden_layers: 4,
            num_attention_heads: 4,
            num_key_value_heads: 2,
            head_dim: 32,
            max_position_embeddings: seq.max(512),
            tie_word_embeddings: true,
        };
        match self {
            Self::Qwen3 => ModelConfig::qwen3(dense),
            Self::Qwen3Moe => ModelConfig::qwen3_moe(Qwen3MoeSize {
                dense,
                num_experts: 8,
                num_experts_per_tok: 2,
                moe_intermediate_size: 192,
                router_aux_loss_coef: LOAD_BALANCING,
            }),
        }
    }
}

impl fmt::Display for Preset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Qwen3 => "qwen3",
            Self::Qwen3Moe => "qwen3-moe",
        })
    }
}
