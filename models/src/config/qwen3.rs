//! Configurations of new Qwen3 models.

use std::path::Path;

use serde_json::Map;

use super::family::Families;
use super::{Architecture, ModelConfig, MoeConfig, RopeConfig};
use crate::ModelError;

/// The sizes of a new Qwen3 model; see [`ModelConfig::qwen3`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Qwen3Size {
    /// Number of tokens in the vocabulary.
    pub vocab_size: usize,
    /// Width of the residual stream.
    pub hidden_size: usize,
    /// Width of the MLP.
    pub intermediate_size: usize,
    /// Number of decoder layers.
    pub num_hidden_layers: usize,
    /// Number of query heads.
    pub num_attention_heads: usize,
    /// Number of key and value heads. It divides the number of query heads.
    pub num_key_value_heads: usize,
    /// Width of one head, an even number.
    pub head_dim: usize,
    /// Length of the longest sequence, in tokens.
    pub max_position_embeddings: usize,
    /// True if the output projection is the embedding table.
    pub tie_word_embeddings: bool,
}

/// The sizes of a new Qwen3-MoE model; see [`ModelConfig::qwen3_moe`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Qwen3MoeSize {
    /// All sizes but those of the experts.
    pub dense: Qwen3Size,
    /// Number of experts in each layer.
    pub num_experts: usize,
    /// Number of experts that each token goes to.
    pub num_experts_per_tok: usize,
    /// Width of each expert.
    pub moe_intermediate_size: usize,
    /// Coefficient of the load-balancing loss in the total loss; 0 leaves it out.
    pub router_aux_loss_coef: f64,
}

impl ModelConfig {
    pub(crate) fn of_qwen3(size: Qwen3Size, families: Families) -> Result<Self, ModelError> {
        let config = Self {
            architecture: Architecture::Qwen3,
            families,
            vocab_size: size.vocab_size,
            hidden_size: size.hidden_size,
            intermediate_size: size.intermediate_size,
            num_hidden_layers: size.num_hidden_layers,
            num_attention_heads: size.num_attention_heads,
            num_key_value_heads: size.num_key_value_heads,
            head_dim: size.head_dim,
            latent: None,
            max_position_embeddings: size.max_position_embeddings,
            rms_norm_eps: 1e-6,
            tie_word_embeddings: size.tie_word_embeddings,
            attention_bias: false,
            attention_out_bias: false,
            qkv_bias: false,
            mlp_bias: false,
            use_qk_norm: true,
            altup: None,
            mixed: None,
            linear: None,
            sliding_window: None,
            speech: None,
            moe: None,
            scores: None,
            rope: RopeConfig::default(),
            local_rope: None,
            initializer_range: 0.02,
            dtype: None,
            rewards: false,
            other: Map::new(),
            whole: Map::new(),
        };
        config.check(Path::new("Qwen3Size"))?;
        Ok(config)
    }

    pub(crate) fn of_qwen3_moe(size: Qwen3MoeSize, families: Families) -> Result<Self, ModelError> {
        let config = Self {
            architecture: Architecture::Qwen3Moe,
            moe: Some(MoeConfig {
                num_experts: size.num_experts,
                num_experts_per_tok: size.num_experts_per_tok,
                moe_intermediate_size: size.moe_intermediate_size,
                shared_expert_intermediate_size: None,
                norm_topk_prob: true,
                decoder_sparse_step: 1,
                mlp_only_layers: Vec::new(),
                router_aux_loss_coef: size.router_aux_loss_coef,
                output_router_logits: size.router_aux_loss_coef > 0.0,
                groups: None,
                swiglu_limit: None,
                moe_layers: None,
            }),
            ..Self::of_qwen3(size.dense, families)?
        };
        config.check(Path::new("Qwen3MoeSize"))?;
        Ok(config)
    }
}
