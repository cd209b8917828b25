//! Causal language models in Hugging Face layout, with fused kernels where they help.
//!
//! [`load`] reads a directory as `transformers` writes it: `config.json` and one or several safetensors files. [`save`]
//! writes such a directory. [`load`] also reads [GGUF files](gguf), and [`inspect`] says what keeps a checkpoint from being
//! loaded. [`CausalLm`] computes logits, loss and gradients. [`Architecture`] lists the supported
//! architectures. A setting that would change the result and is not implemented is an error that names the file and the
//! field.
//!
//! [`Batch`] adds explicit positions and padding. [`CausalLm::generate`] continues prompts, greedily or by sampling, with
//! the settings of a [`Generation`]. Under it, [`CausalLm::next`] decodes with a [`Cache`] of keys and values, and
//! [`CausalLm::next_padded`] begins with prompts of different lengths.
//!
//! [`CausalLm::sequence_losses`] trains on sequences with targets of their own, of several documents each, and
//! [`CausalLm::recomputed_losses`] does so in less memory.
//! [`CausalLm::with_adapters`] and [`CausalLm::load_adapters`] attach low-rank adapters, and [`save_adapters`] writes them, in
//! PEFT's layout.
//!
//! Layers that differ between architectures carry `#[fused_kernel]`. [`llama`], [`qwen3`], [`gemma2`], [`gemma3n`],
//! [`olmo2`], [`glm4`], [`phi3`], [`qwen_vl`] and [`glm4v_moe`] hold the normalisation, the MLP, the rotary function or the
//! attention of each; [`qwen2_moe`], [`qwen3_moe`], [`mixtral`], [`glm4_moe`], [`deepseek_v2`], [`llama4`] and [`gpt_oss`]
//! hold the experts and the block with the router. All architectures share the remaining code.
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

mod adapters;
mod attention;
mod batch;
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
mod generation;
pub mod glm4;
pub mod glm4_moe;
pub mod glm4v_moe;
pub mod gpt_oss;
mod latent;
mod layer;
mod layout;
pub mod llama;
pub mod llama4;
mod loss;
mod mistral;
pub mod mixtral;
mod nearest;
pub mod olmo2;
mod parameters;
pub mod phi3;
mod place;
mod qwen2;
pub mod qwen2_moe;
pub mod qwen3;
pub mod qwen3_moe;
pub mod qwen_vl;
mod recompute;
mod rope;
mod scores;
mod seed_oss;
pub mod semantics;
mod sequences;
mod sites;
mod sparse;

pub use adapters::{AdapterConfig, AdapterPatterns, load_merged, save_adapters};
pub use attention::Attention;
pub use batch::Batch;
pub use blocks::{Mlp, RmsNorm};
pub use cache::Cache;
pub use causal_lm::{CausalLm, Losses, Output};
pub use checkpoint::{
    Inspection, Progress, StoredType, gguf, inspect, load, load_with, save, save_into, save_with,
    weights_checksum,
};
pub use config::{
    AltUpConfig, Architecture, GroupConfig, LatentConfig, MixedConfig, ModelConfig, MoeConfig,
    Mscale, Qwen3MoeSize, Qwen3Size, RopeConfig, RopeScaling, ScoreConfig, StoredDtype,
    Temperature, WindowConfig,
};
pub use decoder::Decoder;
pub use error::{ModelError, TensorProblem};
pub use generation::{Finish, Generated, Generation, NewToken, Sampling, Session};
pub use latent::LatentAttention;
pub use layer::{DecoderLayer, FeedForward, LlamaLayer, SelfAttention};
pub use layout::ExpertStorage;
pub use loss::next_token_loss;
pub use parameters::ParameterVisitor;
pub use rope::{RotaryEmbedding, RotaryTables};
pub use sequences::Sequences;
pub use sparse::SparseMoeBlock;

/// The code of the page about generation.
#[cfg(doctest)]
#[doc = include_str!("../../docs/generate.md")]
struct GeneratePage;
