//! Each architecture's own layers, behind one type per kind of layer. A [`Family`](crate::family::Family) says which it
//! uses; several families can share one.
//!
//! Burn's parameter paths contain the variant of an enum. [`crate::parameters`] leaves it out, so that paths are
//! checkpoint names.

use burn::module::{Initializer, Module, Param};
use burn::tensor::{Device, Tensor};
use burn_kernels::nn::Linear;

use crate::config::ModelConfig;
use crate::llama::{LlamaMlp, LlamaRmsNorm};
use crate::qwen3::{Qwen3Mlp, Qwen3RmsNorm};

/// The normalisation of the model's architecture.
#[derive(Module, Debug)]
pub enum RmsNorm {
    /// Llama's norm, which all families without a norm of their own use.
    Llama(LlamaRmsNorm),
    /// Qwen3's norm, for dense and sparse models.
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
    /// Llama's MLP, which all families without an MLP of their own use.
    Llama(LlamaMlp),
    /// Qwen3's MLP, for dense models and for dense layers of sparse ones.
    Qwen3(Qwen3Mlp),
}

impl Mlp {
    pub(crate) fn new(config: &ModelConfig, device: &Device) -> Self {
        let projections = new_projections(config, config.intermediate_size, device);
        (config.family().layers.mlp)(projections)
    }

    /// Returns the MLP's output for `x`, both `[b, s, hidden]`.
    pub fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        match self {
            Self::Llama(mlp) => mlp.forward(x),
            Self::Qwen3(mlp) => mlp.forward(x),
        }
    }
}

/// Creates the gate, up and down projections of a gated MLP of the given width.
pub(crate) fn new_projections(config: &ModelConfig, width: usize, device: &Device) -> [Linear; 3] {
    let hidden = config.hidden_size;
    let projection = |shape| new_linear(config, shape, config.mlp_bias, device);
    [
        projection([hidden, width]),
        projection([hidden, width]),
        projection([width, hidden]),
    ]
}

/// Creates a weight matrix, or a stack of them. Memory is allocated on first use, so that loading a checkpoint never
/// allocates initial weights.
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

/// Creates a projection with weight `[input, output]`.
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
