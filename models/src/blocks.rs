//! One of each architecture's own parts, behind one type. Families share them: which one takes which is
//! said in its [`Family`](crate::family::Family).
//!
//! Burn's parameter paths contain an enum's variant; [`crate::parameters`] leaves it out, so that
//! paths are checkpoint names.

use burn::module::{Initializer, Module, Param};
use burn::nn::Linear;
use burn::tensor::{Device, Tensor};

use crate::config::ModelConfig;
use crate::llama::{LlamaMlp, LlamaRmsNorm};
use crate::qwen3::{Qwen3Mlp, Qwen3RmsNorm};

/// The normalisation of the model's architecture.
#[derive(Module, Debug)]
pub enum RmsNorm {
    /// Llama's, and that of every family that names no other.
    Llama(LlamaRmsNorm),
    /// Qwen3's, dense or not.
    Qwen3(Qwen3RmsNorm),
}

impl RmsNorm {
    pub(crate) fn new(config: &ModelConfig, width: usize, device: &Device) -> Self {
        let weight = Initializer::Ones.init([width], device);
        (config.family().layers.norm)(weight, config.rms_norm_eps)
    }

    /// Normalises the last axis of `x`.
    pub fn forward<const D: usize>(&self, x: Tensor<D>) -> Tensor<D> {
        match self {
            Self::Llama(norm) => norm.forward(x),
            Self::Qwen3(norm) => norm.forward(x),
        }
    }

    /// Adds `x` to the residual stream and normalises the last axis. Returns the normalised sum and the sum.
    pub fn forward_sum<const D: usize>(
        &self,
        x: Tensor<D>,
        residual: Tensor<D>,
    ) -> (Tensor<D>, Tensor<D>) {
        match self {
            Self::Llama(norm) => norm.forward_sum(x, residual),
            Self::Qwen3(norm) => norm.forward_sum(x, residual),
        }
    }
}

/// The dense MLP of the model's architecture.
#[derive(Module, Debug)]
pub enum Mlp {
    /// Llama's, and that of every family that names no other.
    Llama(LlamaMlp),
    /// Qwen3's, of dense models and layers.
    Qwen3(Qwen3Mlp),
}

impl Mlp {
    pub(crate) fn new(config: &ModelConfig, device: &Device) -> Self {
        let projections = new_projections(config, config.intermediate_size, device);
        (config.family().layers.mlp)(projections)
    }

    /// From `[b, s, hidden]` to the same shape.
    pub fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        match self {
            Self::Llama(mlp) => mlp.forward(x),
            Self::Qwen3(mlp) => mlp.forward(x),
        }
    }
}

/// Fresh projections gate, up and down of a gated MLP of the given width.
pub(crate) fn new_projections(config: &ModelConfig, width: usize, device: &Device) -> [Linear; 3] {
    let hidden = config.hidden_size;
    let projection = |shape| new_linear(config, shape, config.mlp_bias, device);
    [
        projection([hidden, width]),
        projection([hidden, width]),
        projection([width, hidden]),
    ]
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
