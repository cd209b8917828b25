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
    /// Llama's.
    Llama(LlamaRmsNorm),
    /// Qwen3's.
    Qwen3(Qwen3RmsNorm),
}

impl RmsNorm {
    pub(crate) fn new(config: &ModelConfig, width: usize, device: &Device) -> Self {
        let weight = Initializer::Ones.init([width], device);
        let variance_epsilon = config.rms_norm_eps;
        match config.architecture {
            Architecture::Llama => Self::Llama(LlamaRmsNorm {
                weight,
                variance_epsilon,
            }),
            Architecture::Qwen3 => Self::Qwen3(Qwen3RmsNorm {
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

/// The MLP of the model's architecture.
#[derive(Module, Debug)]
pub enum Mlp {
    /// Llama's.
    Llama(LlamaMlp),
    /// Qwen3's.
    Qwen3(Qwen3Mlp),
}

impl Mlp {
    pub(crate) fn new(config: &ModelConfig, device: &Device) -> Self {
        let (hidden, inter) = (config.hidden_size, config.intermediate_size);
        let projection =
            |input, output| new_linear(config, [input, output], config.mlp_bias, device);
        let gate_proj = projection(hidden, inter);
        let up_proj = projection(hidden, inter);
        let down_proj = projection(inter, hidden);
        match config.architecture {
            Architecture::Llama => Self::Llama(LlamaMlp {
                gate_proj,
                up_proj,
                down_proj,
            }),
            Architecture::Qwen3 => Self::Qwen3(Qwen3Mlp {
                gate_proj,
                up_proj,
                down_proj,
            }),
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
        Architecture::Llama => llama::apply_rotary_pos_emb(q, k, cos, sin),
        Architecture::Qwen3 => qwen3::apply_rotary_pos_emb(q, k, cos, sin),
    }
}

/// A fresh weight matrix. Nothing is allocated before its first use, so loading never pays for it.
pub(crate) fn new_weight(
    config: &ModelConfig,
    shape: [usize; 2],
    device: &Device,
) -> Param<Tensor<2>> {
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
