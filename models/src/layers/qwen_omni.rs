//! The projections with which Qwen3-Omni's talker takes states of the thinker.

use burn::module::Module;
use burn::tensor::{Device, Tensor, activation};
use burn_kernels::nn::Linear;

use crate::config::{ModelConfig, SpeechConfig};
use crate::layers::blocks::new_linear;

/// A projection with one hidden layer and biases: `fc2(silu(fc1(x)))`.
#[derive(Module, Debug)]
pub struct ResizeMlp {
    linear_fc1: Linear,
    linear_fc2: Linear,
}

impl ResizeMlp {
    fn new(config: &ModelConfig, input: usize, device: &Device) -> Self {
        let (inner, output) = (config.intermediate_size, config.hidden_size);
        Self {
            linear_fc1: new_linear(config, [input, inner], true, device),
            linear_fc2: new_linear(config, [inner, output], true, device),
        }
    }

    /// Returns the projection of `x`, from `[b, s, thinker_hidden_size]` to `[b, s, hidden]`.
    pub fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        let inner = activation::silu(self.linear_fc1.forward(x));
        self.linear_fc2.forward(inner)
    }
}

/// The projections of a talker. Its inputs are sums of projected states and embedded codes.
#[derive(Module, Debug)]
pub struct TalkerProjections {
    /// Takes the thinker's embeddings of text.
    pub text_projection: ResizeMlp,
    /// Takes the hidden states of the thinker's layer `accept_hidden_layer`.
    pub hidden_projection: ResizeMlp,
}

impl TalkerProjections {
    /// Creates the projections of a talker that has them.
    pub(crate) fn new(config: &ModelConfig, device: &Device) -> Option<Self> {
        let Some(SpeechConfig::Talker {
            thinker_hidden_size: width,
        }) = config.speech
        else {
            return None;
        };
        Some(Self {
            text_projection: ResizeMlp::new(config, width, device),
            hidden_projection: ResizeMlp::new(config, width, device),
        })
    }
}
