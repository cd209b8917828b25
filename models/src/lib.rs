//! Causal language models in Hugging Face layout, with fused kernels where they help.
//!
//! [`load`] reads a directory as `transformers` writes it: `config.json` and one or several safetensors files. [`save`]
//! writes such a directory. [`CausalLm`] computes logits, loss and gradients. [`Architecture`] lists the supported
//! architectures. A setting that would change the result and is not implemented is an error that names the file and the
//! field.
//!
//! [`CausalLm::next`] decodes with a [`Cache`] of keys and values, and [`CausalLm::next_padded`] begins with prompts of
//! different lengths.
//!
//! Layers that differ between architectures carry `#[fused_kernel]`. [`llama`], [`qwen3`], [`gemma2`], [`gemma3n`], [`olmo2`],
//! [`glm4`] and [`phi3`] hold the normalisation, the MLP, the rotary function or the attention of each; [`qwen2_moe`],
//! [`qwen3_moe`], [`mixtral`], [`glm4_moe`], [`deepseek_v2`], [`llama4`] and [`gpt_oss`] hold the experts and the block with the router. All
//! architectures share the remaining code.
//!
//! ```no_run
//! use burn::tensor::{Device, FloatDType, Int, Tensor};
//! # fn main() -> Result<(), kernels_models::ModelError> {
//! let device = Device::default();
//! let (config, model) = kernels_models::load("checkpoint".as_ref(), &device, FloatDType::F32)?;
//! let input_ids = Tensor::<2, Int>::from_data([[1, 2, 3]], &device);
//! model.check_inputs(&input_ids, None)?;
//! let logits = model.forward(input_ids, None); // [1, 3, config.vocab_size]
//! # let _ = (config, logits);
//! # Ok(())
//! # }
//! ```

mod attention;
mod blocks;
mod cache;
mod causal_lm;
mod checkpoint;
mod config;
mod decoder;
mod decoding;
pub mod deepseek_v2;
mod deepseek_v3;
mod error;
mod family;
pub mod gemma2;
mod gemma3;
pub mod gemma3n;
pub mod glm4;
pub mod glm4_moe;
pub mod gpt_oss;
mod latent;
mod layer;
mod layout;
pub mod llama;
pub mod llama4;
mod loss;
mod mistral;
pub mod mixtral;
pub mod olmo2;
mod parameters;
pub mod phi3;
mod place;
mod qwen2;
pub mod qwen2_moe;
pub mod qwen3;
pub mod qwen3_moe;
pub mod qwen_vl;
mod rope;
mod scores;
mod seed_oss;
pub mod semantics;
mod sparse;

pub use attention::Attention;
pub use blocks::{Mlp, RmsNorm};
pub use cache::Cache;
pub use causal_lm::{CausalLm, Losses, Output};
pub use checkpoint::{load, save, save_with};
pub use config::{
    AltUpConfig, Architecture, GroupConfig, LatentConfig, MixedConfig, ModelConfig, MoeConfig,
    Mscale, Qwen3MoeSize, Qwen3Size, RopeConfig, RopeScaling, ScoreConfig, StoredDtype,
    Temperature, WindowConfig,
};
pub use decoder::Decoder;
pub use error::{ModelError, TensorProblem};
pub use latent::LatentAttention;
pub use layer::{DecoderLayer, FeedForward, LlamaLayer, SelfAttention};
pub use layout::ExpertStorage;
pub use loss::next_token_loss;
pub use parameters::ParameterVisitor;
pub use rope::{RotaryEmbedding, RotaryTables};
pub use sparse::SparseMoeBlock;
