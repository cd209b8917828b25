//! Norms and MLPs, each kind behind one type. [`Layers`](crate::layers::kinds::Layers) says which of them a model has.
//!
//! Burn's parameter paths contain the variant of an enum. [`crate::parameters`] leaves it out, so that paths are
//! checkpoint names.

use burn::module::{Initializer, Module, Param};
use burn::tensor::{Device, Tensor};
use burn_kernels::nn::Linear;

use crate::config::ModelConfig;
use crate::layers::gemma2::{Gemma2Mlp, Gemma2RmsNorm};
use crate::layers::gemma3n::mlp::Gemma3nSparseMlp;
use crate::layers::llama::{LlamaMlp, LlamaRmsNorm};
use crate::layers::olmo2::Olmo2RmsNorm;
use crate::layers::phi3::Phi3Mlp;
use crate::layers::qwen3::{Qwen3Mlp, Qwen3RmsNorm};

/// The normalisation of the model's architecture.
#[derive(Module, Debug)]
pub enum RmsNorm {
    /// Llama's norm, which all families without a norm of their own use.
    Llama(LlamaRmsNorm),
    /// Qwen3's norm, for dense and sparse models.
    Qwen3(Qwen3RmsNorm),
    /// The norm of Gemma 2 and 3, which adds 1 to its weight.
    Gemma2(Gemma2RmsNorm),
    /// OLMo 2's norm, which rounds once.
    Olmo2(Olmo2RmsNorm),
}

impl RmsNorm {
    /// Normalises the last axis of `x`.
    pub fn forward<const D: usize>(&self, x: Tensor<D>) -> Tensor<D> {
        match self {
            Self::Llama(norm) => norm.forward(x),
            Self::Qwen3(norm) => norm.forward(x),
            Self::Gemma2(norm) => norm.forward(x),
            Self::Olmo2(norm) => norm.forward(x),
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
            Self::Gemma2(norm) => norm.forward_sum(x, residual),
            Self::Olmo2(norm) => norm.forward_sum(x, residual),
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
    /// The MLP of Gemma 2 and 3, with a GELU.
    Gemma2(Gemma2Mlp),
    /// Gemma 3n's MLP with sparse gates.
    Gemma3n(Gemma3nSparseMlp),
    /// The MLP of Phi-3 and GLM-4, with gate and up in one projection.
    Phi3(Phi3Mlp),
}

impl Mlp {
    /// Returns the MLP's output for `x`, both `[b, s, hidden]`.
    pub fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        match self {
            Self::Llama(mlp) => mlp.forward(x),
            Self::Qwen3(mlp) => mlp.forward(x),
            Self::Gemma2(mlp) => mlp.forward(x),
            Self::Gemma3n(mlp) => mlp.forward(x),
            Self::Phi3(mlp) => mlp.forward(x),
        }
    }
}

/// The configuration, width and device from which a gated MLP is built.
pub(crate) struct NewMlp<'a> {
    pub(crate) config: &'a ModelConfig,
    pub(crate) width: usize,
    pub(crate) device: &'a Device,
}

impl NewMlp<'_> {
    /// Creates the gate, up and down projections.
    pub(crate) fn separate(&self) -> [Linear; 3] {
        let (hidden, width) = (self.config.hidden_size, self.width);
        [[hidden, width], [hidden, width], [width, hidden]].map(|shape| self.projection(shape))
    }

    /// Creates one projection for gate and up, and the down projection.
    pub(crate) fn packed(&self) -> [Linear; 2] {
        let (hidden, width) = (self.config.hidden_size, self.width);
        [[hidden, 2 * width], [width, hidden]].map(|shape| self.projection(shape))
    }

    fn projection(&self, shape: [usize; 2]) -> Linear {
        new_linear(self.config, shape, self.config.mlp_bias, self.device)
    }
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
