//! Causal language models in Hugging Face layout, with fused kernels where they pay.
//!
//! [`load`] reads a directory as `transformers` writes it (`config.json`, one or several
//! safetensors files), [`save`] writes one back, and [`CausalLm`] computes logits, loss and
//! gradients in between. Supported architectures: [`Architecture`]. Anything in a configuration
//! that would change the mathematics and isn't implemented is an error that names the file and the
//! field.
//!
//! The architectures' own parts carry `#[fused_kernel]`: [`llama`] and [`qwen3`] hold the
//! normalisation, the MLP and the rotary function of each, and everything around them is written
//! once.
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
mod causal_lm;
mod checkpoint;
mod config;
mod decoder;
mod error;
pub mod llama;
mod parameters;
pub mod qwen3;
mod rope;
pub mod semantics;

pub use attention::Attention;
pub use blocks::{Mlp, RmsNorm};
pub use causal_lm::{CausalLm, next_token_loss};
pub use checkpoint::{load, save};
pub use config::{Architecture, ModelConfig, Qwen3Size, RopeConfig, RopeScaling, StoredDtype};
pub use decoder::{Decoder, DecoderLayer};
pub use error::{ModelError, TensorProblem};
pub use parameters::ParameterVisitor;
pub use rope::{RotaryEmbedding, RotaryTables};
