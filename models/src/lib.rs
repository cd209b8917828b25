//! Causal language models in Hugging Face layout, with fused kernels where they help.
//!
//! [`load`] reads a directory as `transformers` writes it: `config.json` and one or several safetensors files. [`save`]
//! writes such a directory. [`load`] also reads [GGUF files](gguf), and [`inspect`] says what keeps a checkpoint from being
//! loaded. [`CausalLm`] computes logits, loss and gradients. [`Architecture`] lists the supported
//! architectures. A setting that would change the result and is not implemented is an error that names the file and the
//! field.
//!
//! [`load_with_vision`] also reads the vision tower of Qwen2.5-VL, Qwen3-VL and Qwen3.5, and [`load_vision_tower`] one
//! alone.
//!
//! [`Batch`] adds explicit positions, padding and pictures. [`CausalLm::generate`] continues prompts, greedily or by
//! sampling, with the settings of a [`Generation`]. Under it, [`CausalLm::next`] decodes with a [`Cache`] of keys and values, and
//! [`CausalLm::next_padded`] begins with prompts of different lengths.
//!
//! [`CausalLm::sequence_losses`] trains on sequences with targets of their own, of several documents each, and
//! [`CausalLm::recomputed_losses`] does so in less memory. [`CausalLm::log_probs`] scores answers for the losses of
//! [`preference`], and [`CausalLm::losses_of_divergence`] learns from a teacher. [`load_reward_model`] reads reward
//! models, and [`load_part`] the parts of Omni models that speak. [`CausalLm::with_adapters`] and
//! [`CausalLm::load_adapters`] attach low-rank adapters, and [`save_adapters`] writes them, in PEFT's layout.
//!
//! Layers that differ between architectures carry `#[fused_kernel]`. [`llama`], [`qwen3`], [`gemma2`], [`gemma3n`],
//! [`olmo2`], [`glm4`], [`phi3`], [`qwen_vl`], [`qwen3_5`], [`glm4v_moe`] and [`vision_layers`] hold the normalisation, the
//! MLP, the rotary function or the attention of each, and [`qwen3_next`] holds linear attention; [`qwen2_moe`],
//! [`qwen3_moe`], [`mixtral`], [`glm4_moe`], [`deepseek_v2`], [`llama4`] and [`gpt_oss`] hold the experts and the block with
//! the router. All architectures share the remaining code.
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

// The first, for its list of families: a macro, which the enumeration of `config` takes.
#[macro_use]
mod families;

mod adapters;
mod checkpoint;
mod config;
mod error;
mod generation;
mod layers;
mod model;
mod nearest;
mod parameters;
pub mod preference;
pub mod semantics;
pub mod vision;

pub use adapters::{AdapterConfig, AdapterPatterns, load_merged, save_adapters};
pub use checkpoint::{
    Inspection, Progress, QuantisedWeights, StoredType, gguf, inspect, is_vision_tower, load,
    load_as, load_part, load_reward_model, load_vision_tower, load_with, load_with_vision, save,
    save_into, save_with, stored_gradients, weight_files, weights_checksum,
};
pub use config::{
    AltUpConfig, Architecture, GroupConfig, LatentConfig, LinearConfig, MixedConfig, ModelConfig,
    MoeConfig, Mscale, OmniPart, Qwen3MoeSize, Qwen3Size, RopeConfig, RopeScaling, ScoreConfig,
    SpeechConfig, StoredDtype, Temperature, VisionConfig, WindowConfig, WindowedBlocks,
};
pub use error::{ModelError, TensorProblem};
pub use generation::{Finish, Generated, Generation, NewToken, Sampling, Session};
pub use layers::arrangements::{DecoderLayer, LlamaLayer};
pub use layers::blocks::{Mlp, RmsNorm};
pub use layers::cache::Cache;
pub use layers::gated_delta::GatedDelta;
pub use layers::heads::Attention;
pub use layers::latent::LatentAttention;
pub use layers::layer::{FeedForward, SelfAttention};
pub use layers::qwen_omni::{ResizeMlp, TalkerProjections};
pub use layers::rope::{RotaryEmbedding, RotaryTables};
pub use layers::sparse::SparseMoeBlock;
pub use layers::{
    deepseek_v2, gemma2, gemma3n, glm4, glm4_moe, glm4v_moe, gpt_oss, llama, llama4, mixtral,
    olmo2, phi3, qwen_vl, qwen2_moe, qwen3, qwen3_5, qwen3_moe, qwen3_next,
    vision as vision_layers,
};
pub use model::batch::Batch;
pub use model::built::Model;
pub use model::causal_lm::{CausalLm, Losses, Output};
pub use model::code_predictor::CodePredictor;
pub use model::code2wav::Code2Wav;
pub use model::decoder::Decoder;
pub use model::divergences::{Distilled, divergence_loss};
pub use model::log_probs::Scored;
pub use model::loss::next_token_loss;
pub use model::observed::Observed;
pub use model::pictures::SequencePictures;
pub use model::projection::{OutputWeight, Projection, Statistics};
pub use model::sequences::Sequences;
pub use model::tiles::entropy_loss;
pub use model::vision::{VisionFeatures, VisionTower};
pub use parameters::ParameterVisitor;
pub use parameters::layout::ExpertStorage;

/// The code of the page about generation.
#[cfg(doctest)]
#[doc = include_str!("../../docs/generate.md")]
struct GeneratePage;
