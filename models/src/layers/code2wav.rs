//! The layers of the transformer in Qwen3-Omni's vocoder: Llama's, whose outputs are scaled.

use burn::module::{Initializer, Module, Param};
use burn::tensor::Tensor;

use crate::config::SpeechConfig;
use crate::layers::blocks::RmsNorm;
use crate::layers::kinds::Build;
use crate::layers::layer::{After, FeedForward, NewLayer, Parts, SelfAttention};

/// A factor of each element of the last axis.
#[derive(Module, Debug)]
pub struct LayerScale {
    scale: Param<Tensor<1>>,
}

impl LayerScale {
    fn new(build: Build<'_>) -> Self {
        let value = match build.config.speech {
            Some(SpeechConfig::Code2Wav {
                layer_scale_initial_scale,
            }) => layer_scale_initial_scale,
            _ => 1.0,
        };
        let width = build.config.hidden_size;
        Self {
            scale: Initializer::Constant { value }.init([width], build.device),
        }
    }

    /// Returns the product with `x`, `[b, s, hidden]`.
    pub(crate) fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        x * self.scale.val().unsqueeze()
    }
}

/// A layer with norms before attention and MLP, whose outputs are scaled before they are added to the residual stream.
#[derive(Module, Debug)]
pub struct Code2WavLayer {
    input_layernorm: RmsNorm,
    self_attn: SelfAttention,
    self_attn_layer_scale: LayerScale,
    post_attention_layernorm: RmsNorm,
    mlp: FeedForward,
    mlp_layer_scale: LayerScale,
}

impl Code2WavLayer {
    pub(crate) fn new(new: &NewLayer<'_>) -> Self {
        Self {
            input_layernorm: new.norm(),
            self_attn: new.attention(),
            self_attn_layer_scale: LayerScale::new(new.build),
            post_attention_layernorm: new.norm(),
            mlp: new.feed_forward(),
            mlp_layer_scale: LayerScale::new(new.build),
        }
    }

    pub(crate) fn parts(&self) -> Parts<'_> {
        Parts {
            before_attention: Some(&self.input_layernorm),
            attention: &self.self_attn,
            after_attention: Some(After::Scale(&self.self_attn_layer_scale)),
            before_mlp: Some(&self.post_attention_layernorm),
            mlp: &self.mlp,
            after_mlp: Some(After::Scale(&self.mlp_layer_scale)),
        }
    }
}
