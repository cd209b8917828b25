//! Decoder layers by the places and names of their norms. Each is a type with the names of its checkpoints as fields.

use burn::module::Module;
use burn::tensor::Tensor;
use burn_kernels::nn::CacheError;

use crate::layers::blocks::RmsNorm;
use crate::layers::cache::LayerCache;
use crate::layers::code2wav::Code2WavLayer;
use crate::layers::kinds::{Arrangement, Build};
use crate::layers::layer::{After, FeedForward, NewLayer, Parts, Residual, SelfAttention};
use crate::layers::place::Place;

/// A decoder layer, with its norms as the family places them.
#[derive(Module, Debug)]
#[allow(
    clippy::large_enum_variant,
    reason = "one a layer; a box would save nothing that matters"
)]
pub enum DecoderLayer {
    /// Norms before attention and MLP, as in most families.
    Llama(LlamaLayer),
    /// Norms before attention and MLP, with Llama 4's names.
    Llama4(Llama4Layer),
    /// Norms before and after attention and MLP, with Gemma's names.
    Gemma2(Gemma2Layer),
    /// Norms before and after attention and MLP, with GLM-4's names.
    Glm4(Glm4Layer),
    /// Norms after attention and MLP.
    Olmo2(Olmo2Layer),
    /// Norms before attention and MLP, and scales after them.
    Code2Wav(Code2WavLayer),
    /// Norms before linear attention and MLP.
    Linear(LinearLayer),
}

impl DecoderLayer {
    pub(crate) fn new(build: Build<'_>, index: usize) -> Self {
        let new = &NewLayer { build, index };
        match build.layers.arrangement {
            Arrangement::Llama if build.config.is_linear(index) => {
                Self::Linear(LinearLayer::new(new))
            }
            Arrangement::Llama => Self::Llama(LlamaLayer::new(new)),
            Arrangement::Llama4 => Self::Llama4(Llama4Layer::new(new)),
            Arrangement::Gemma2 => Self::Gemma2(Gemma2Layer::new(new)),
            Arrangement::Glm4 => Self::Glm4(Glm4Layer::new(new)),
            Arrangement::Olmo2 => Self::Olmo2(Olmo2Layer::new(new)),
            Arrangement::Code2Wav => Self::Code2Wav(Code2WavLayer::new(new)),
        }
    }

    /// Runs the layer. Returns the new residual stream, and the router's logits if there is a router.
    pub(crate) fn forward(
        &self,
        residual: Residual,
        place: Place<'_>,
        cache: Option<LayerCache<'_>>,
    ) -> Result<(Residual, Option<Tensor<2>>), CacheError> {
        self.parts().forward(residual, place, cache)
    }

    fn parts(&self) -> Parts<'_> {
        match self {
            Self::Llama(layer) => layer.parts(),
            Self::Llama4(layer) => layer.parts(),
            Self::Gemma2(layer) => layer.parts(),
            Self::Glm4(layer) => layer.parts(),
            Self::Olmo2(layer) => layer.parts(),
            Self::Code2Wav(layer) => layer.parts(),
            Self::Linear(layer) => layer.parts(),
        }
    }
}

/// A layer with norms before attention and MLP. Each takes the normalised residual stream, and its output is added to
/// the stream.
#[derive(Module, Debug)]
pub struct LlamaLayer {
    input_layernorm: RmsNorm,
    self_attn: SelfAttention,
    post_attention_layernorm: RmsNorm,
    mlp: FeedForward,
}

impl LlamaLayer {
    fn new(new: &NewLayer<'_>) -> Self {
        Self {
            input_layernorm: new.norm(),
            self_attn: new.attention(),
            post_attention_layernorm: new.norm(),
            mlp: new.feed_forward(),
        }
    }

    fn parts(&self) -> Parts<'_> {
        Parts {
            before_attention: Some(&self.input_layernorm),
            attention: &self.self_attn,
            after_attention: None,
            before_mlp: Some(&self.post_attention_layernorm),
            mlp: &self.mlp,
            after_mlp: None,
        }
    }
}

/// A layer with norms before linear attention and MLP.
#[derive(Module, Debug)]
pub struct LinearLayer {
    input_layernorm: RmsNorm,
    linear_attn: SelfAttention,
    post_attention_layernorm: RmsNorm,
    mlp: FeedForward,
}

impl LinearLayer {
    fn new(new: &NewLayer<'_>) -> Self {
        Self {
            input_layernorm: new.norm(),
            linear_attn: new.attention(),
            post_attention_layernorm: new.norm(),
            mlp: new.feed_forward(),
        }
    }

    fn parts(&self) -> Parts<'_> {
        Parts {
            before_attention: Some(&self.input_layernorm),
            attention: &self.linear_attn,
            after_attention: None,
            before_mlp: Some(&self.post_attention_layernorm),
            mlp: &self.mlp,
            after_mlp: None,
        }
    }
}

/// A layer with norms before and after attention and MLP.
#[derive(Module, Debug)]
pub struct Gemma2Layer {
    input_layernorm: RmsNorm,
    self_attn: SelfAttention,
    post_attention_layernorm: RmsNorm,
    pre_feedforward_layernorm: RmsNorm,
    mlp: FeedForward,
    post_feedforward_layernorm: RmsNorm,
}

impl Gemma2Layer {
    fn new(new: &NewLayer<'_>) -> Self {
        Self {
            input_layernorm: new.norm(),
            self_attn: new.attention(),
            post_attention_layernorm: new.norm(),
            pre_feedforward_layernorm: new.norm(),
            mlp: new.feed_forward(),
            post_feedforward_layernorm: new.norm(),
        }
    }

    fn parts(&self) -> Parts<'_> {
        Parts {
            before_attention: Some(&self.input_layernorm),
            attention: &self.self_attn,
            after_attention: Some(After::Norm(&self.post_attention_layernorm)),
            before_mlp: Some(&self.pre_feedforward_layernorm),
            mlp: &self.mlp,
            after_mlp: Some(After::Norm(&self.post_feedforward_layernorm)),
        }
    }
}

/// A layer with norms before and after attention and MLP.
#[derive(Module, Debug)]
pub struct Glm4Layer {
    input_layernorm: RmsNorm,
    self_attn: SelfAttention,
    post_self_attn_layernorm: RmsNorm,
    post_attention_layernorm: RmsNorm,
    mlp: FeedForward,
    post_mlp_layernorm: RmsNorm,
}

impl Glm4Layer {
    fn new(new: &NewLayer<'_>) -> Self {
        Self {
            input_layernorm: new.norm(),
            self_attn: new.attention(),
            post_self_attn_layernorm: new.norm(),
            post_attention_layernorm: new.norm(),
            mlp: new.feed_forward(),
            post_mlp_layernorm: new.norm(),
        }
    }

    fn parts(&self) -> Parts<'_> {
        Parts {
            before_attention: Some(&self.input_layernorm),
            attention: &self.self_attn,
            after_attention: Some(After::Norm(&self.post_self_attn_layernorm)),
            before_mlp: Some(&self.post_attention_layernorm),
            mlp: &self.mlp,
            after_mlp: Some(After::Norm(&self.post_mlp_layernorm)),
        }
    }
}

/// A layer with norms before attention and the MLP or experts.
#[derive(Module, Debug)]
pub struct Llama4Layer {
    input_layernorm: RmsNorm,
    self_attn: SelfAttention,
    post_attention_layernorm: RmsNorm,
    feed_forward: FeedForward,
}

impl Llama4Layer {
    fn new(new: &NewLayer<'_>) -> Self {
        Self {
            input_layernorm: new.norm(),
            self_attn: new.attention(),
            post_attention_layernorm: new.norm(),
            feed_forward: new.feed_forward(),
        }
    }

    fn parts(&self) -> Parts<'_> {
        Parts {
            before_attention: Some(&self.input_layernorm),
            attention: &self.self_attn,
            after_attention: None,
            before_mlp: Some(&self.post_attention_layernorm),
            mlp: &self.feed_forward,
            after_mlp: None,
        }
    }
}

/// A layer with norms after attention and MLP only.
#[derive(Module, Debug)]
pub struct Olmo2Layer {
    self_attn: SelfAttention,
    post_attention_layernorm: RmsNorm,
    mlp: FeedForward,
    post_feedforward_layernorm: RmsNorm,
}

impl Olmo2Layer {
    fn new(new: &NewLayer<'_>) -> Self {
        Self {
            self_attn: new.attention(),
            post_attention_layernorm: new.norm(),
            mlp: new.feed_forward(),
            post_feedforward_layernorm: new.norm(),
        }
    }

    fn parts(&self) -> Parts<'_> {
        Parts {
            before_attention: None,
            attention: &self.self_attn,
            after_attention: Some(After::Norm(&self.post_attention_layernorm)),
            before_mlp: None,
            mlp: &self.mlp,
            after_mlp: Some(After::Norm(&self.post_feedforward_layernorm)),
        }
    }
}
