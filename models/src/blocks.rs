//! One of each architecture's own parts, behind one type.
//!
//! Burn's parameter paths contain an enum's variant; [`crate::parameters`] leaves it out, so that
//! paths are checkpoint names.

use burn::module::{Initializer, Module, Param};
use burn::nn::Linear;
use burn::tensor::{Device, Tensor};

use crate::config::{Architecture, ModelConfig};
use crate::llama::{self, LlamaMlp, LlamaRmsNorm};
use crate::qwen3::{self, Qwen3Mlp, Qwen3RmsNorm};
use crate::rope::RotaryTables;

/// The normalisation of the model's architecture.
#[derive(Module, Debug)]
pub enum RmsNorm {
    /// Llama's, Qwen2-MoE's and Mixtral's.
    Llama(LlamaRmsNorm),
    /// Qwen3's, dense or not.
    Qwen3(Qwen3RmsNorm),
}

impl RmsNorm {
    pub(crate) fn new(config: &ModelConfig, width: usize, device: &Device) -> Self {
        let weight = Initializer::Ones.init([width], device);
        let variance_epsilon = config.rms_norm_eps;
        match config.architecture {
            Architecture::Llama | Architecture::Qwen2Moe | Architecture::Mixtral => {
                Self::Llama(LlamaRmsNorm {
                    weight,
                    variance_epsilon,
                })
            }
            Architecture::Qwen3 | Architecture::Qwen3Moe => Self::Qwen3(Qwen3RmsNorm {
                weight,
                variance_epsilon,
            }),
        }
    }

    /// Normalises the last axis of `x`.
    pub fn forward<const D: usize>(&self, x: Tensor<D>) -> Tensor<D> {
        match self {
            Self::Llama(norm) => norm.forward(x),
            Self::Qwen3(norm) => norm.forward(x),
        }
    }
}

/// The dense MLP of the model's architecture.
#[derive(Module, Debug)]
pub enum Mlp {
    /// Llama's and Qwen2-MoE's.
    Llama(LlamaMlp),
    /// Qwen3's, of dense models and layers.
    Qwen3(Qwen3Mlp),
}

impl Mlp {
    pub(crate) fn new(config: &ModelConfig, device: &Device) -> Self {
        let mlp = new_mlp(config, config.intermediate_size, device);
        match config.architecture {
            Architecture::Llama | Architecture::Qwen2Moe | Architecture::Mixtral => {
                Self::Llama(mlp)
            }
            Architecture::Qwen3 | Architecture::Qwen3Moe => {
                let LlamaMlp {
                    gate_proj,
                    up_proj,
                    down_proj,
                } = mlp;
                Self::Qwen3(Qwen3Mlp {
                    gate_proj,
                    up_proj,
                    down_proj,
                })
            }
        }
    }

    /// From `[b, s, hidden]` to the same shape.
    pub fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        match self {
            Self::Llama(mlp) => mlp.forward(x),
            Self::Qwen3(mlp) => mlp.forward(x),
        }
    }
}

/// Rotates queries and keys as the architecture does.
pub(crate) fn rotate(
    architecture: Architecture,
    q: Tensor<4>,
    k: Tensor<4>,
    tables: &RotaryTables,
) -> (Tensor<4>, Tensor<4>) {
    let (cos, sin) = (tables.cos.clone(), tables.sin.clone());
    match architecture {
        Architecture::Llama | Architecture::Qwen2Moe | Architecture::Mixtral => {
            llama::apply_rotary_pos_emb(q, k, cos, sin)
        }
        Architecture::Qwen3 | Architecture::Qwen3Moe => qwen3::apply_rotary_pos_emb(q, k, cos, sin),
    }
}

/// A fresh gated MLP of the given width.
pub(crate) fn new_mlp(config: &ModelConfig, width: usize, device: &Device) -> LlamaMlp {
    let hidden = config.hidden_size;
    let projection = |input, output| new_linear(config, [input, output], config.mlp_bias, device);
    LlamaMlp {
        gate_proj: projection(hidden, width),
        up_proj: projection(hidden, width),
        down_proj: projection(width, hidden),
    }
}

/// A fresh weight matrix, or a stack of them. Nothing is allocated before its first use, so loading
/// never pays for it.
pub(crate) fn new_weight<const D: usize>(
    config: &ModelConfig,
    shape: [usize; D],
    device: &Device,
) -> Param<Tensor<D>> {
    Initializer::Normal {
        mean: 0.0,
        std: config.initializer_range,
    }
    .init(shape, device)
}

/// A fresh projection with weight `[input, output]`.
pub(crate) fn new_linear(
    config: &ModelConfig,
    [input, output]: [usize; 2],
    bias: bool,
    device: &Device,
) -> Linear {
    Linear {
        weight: new_weight(config, [input, output], device),
        bias: bias.then(|| Initializer::Zeros.init([output], device)),
    }
}
