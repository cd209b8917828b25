//! The model of the benchmarks.

use kernels_models::{ModelConfig, Qwen3Size};

/// The default model of `kernels train`.
pub fn config() -> ModelConfig {
    ModelConfig::qwen3(Qwen3Size {
        vocab_size: 256,
        hidden_size: 128,
        intermediate_size: 384,
        num_hidden_layers: 4,
        num_attention_heads: 4,
        num_key_value_heads: 2,
        head_dim: 32,
        max_position_embeddings: 512,
        tie_word_embeddings: true,
    })
    .expect("the sizes fit")
}
