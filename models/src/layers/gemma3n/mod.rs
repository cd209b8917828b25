//! The own layers of Gemma 3n's text models: parallel residual streams (AltUp), of which attention and MLP take one; a
//! narrow path beside attention (Laurel); an embedding of each token for each layer; and layers with the keys and values of
//! layers below. The norm is OLMo 2's.

mod attention;
pub(crate) mod mlp;
mod streams;

use burn::module::Module;
use burn::tensor::activation::gelu_approximate;
use burn::tensor::{Device, Tensor};
use burn_kernels::fused_kernel;
use burn_kernels::nn::CacheError;
use burn_kernels::nn::Linear;

use crate::config::{AltUpConfig, ModelConfig};
use crate::layers::blocks::{Mlp, NewMlp, RmsNorm, new_linear};
use crate::layers::cache::LayerCache;
use crate::layers::gemma2::Gemma2Mlp;
use crate::layers::kinds::Build;
use crate::layers::place::Place;
use streams::{AltUp, with_others};

pub use attention::Gemma3nAttention;
pub(crate) use attention::SharedKeys;
pub use mlp::Gemma3nSparseMlp;
pub(crate) use streams::Streams;

/// A decoder layer.
#[derive(Module, Debug)]
pub struct Gemma3nLayer {
    altup: AltUp,
    laurel: Laurel,
    input_layernorm: RmsNorm,
    self_attn: Gemma3nAttention,
    post_attention_layernorm: RmsNorm,
    pre_feedforward_layernorm: RmsNorm,
    mlp: Mlp,
    post_feedforward_layernorm: RmsNorm,
    per_layer_input_gate: Linear,
    per_layer_projection: Linear,
    post_per_layer_input_norm: RmsNorm,
}

impl Gemma3nLayer {
    pub(crate) fn new(build: Build<'_>, altup: &AltUpConfig, layer: usize) -> Self {
        let Build { config, device, .. } = build;
        let (hidden, own) = (config.hidden_size, altup.hidden_size_per_layer_input);
        let norm = || build.norm(hidden);
        let shares = altup.shares(layer, config.num_hidden_layers);
        Self {
            altup: AltUp::new(build, altup),
            laurel: Laurel {
                linear_left: new_linear(config, [hidden, altup.laurel_rank], false, device),
                linear_right: new_linear(config, [altup.laurel_rank, hidden], false, device),
                post_laurel_norm: norm(),
            },
            input_layernorm: norm(),
            self_attn: Gemma3nAttention::new(build, shares),
            post_attention_layernorm: norm(),
            pre_feedforward_layernorm: norm(),
            mlp: new_mlp(config, altup.activation_sparsity_pattern[layer], device),
            post_feedforward_layernorm: norm(),
            per_layer_input_gate: new_linear(config, [hidden, own], false, device),
            per_layer_projection: new_linear(config, [own, hidden], false, device),
            post_per_layer_input_norm: norm(),
        }
    }

    /// Returns the streams after this layer. `input` is the layer's own, `[b, s, own width]`.
    pub(crate) fn forward(
        &self,
        streams: Tensor<4>,
        input: Tensor<3>,
        place: Place<'_>,
        cache: Option<LayerCache<'_>>,
        shared: &mut SharedKeys,
    ) -> Result<Tensor<4>, CacheError> {
        let predicted = self.altup.predict(streams);
        let active = self.altup.active(&predicted);
        let normalised = self.input_layernorm.forward(active.clone());
        let beside = self.laurel.forward(normalised.clone());
        let attended = self.self_attn.forward(normalised, place, cache, shared)?;
        let attended = self.post_attention_layernorm.forward(attended);
        // Burn rounds the gradient of a division by a number to f32.
        let sum = (active + attended + beside) * std::f64::consts::FRAC_1_SQRT_2;
        let fed = self.pre_feedforward_layernorm.forward(sum.clone());
        let fed = self
            .post_feedforward_layernorm
            .forward(self.mlp.forward(fed));
        let corrected = self.altup.correct(predicted, sum + fed);
        let gate = self.altup.scaled(self.altup.active(&corrected));
        let own = gated(self.per_layer_input_gate.forward(gate), input);
        let own = self.per_layer_projection.forward(own);
        Ok(with_others(
            corrected,
            self.post_per_layer_input_norm.forward(own),
        ))
    }
}

/// Multiplies a layer's own input by the GELU of a gate.
#[fused_kernel("npu_fused_swiglu", activation = gelu_tanh, layer = "GeGLUMLP")]
pub fn gated(gate: Tensor<3>, up: Tensor<3>) -> Tensor<3> {
    gelu_approximate(gate) * up
}

fn new_mlp(config: &ModelConfig, sparsity: f64, device: &Device) -> Mlp {
    let new = NewMlp {
        config,
        width: config.intermediate_size,
        device,
    };
    let [gate_proj, up_proj, down_proj] = new.separate();
    if sparsity == 0.0 {
        return Mlp::Gemma2(Gemma2Mlp {
            gate_proj,
            up_proj,
            down_proj,
        });
    }
    Mlp::Gemma3n(Gemma3nSparseMlp {
        gate_proj,
        up_proj,
        down_proj,
        activation_sparsity: sparsity,
    })
}

/// A narrow path beside attention.
#[derive(Module, Debug)]
struct Laurel {
    linear_left: Linear,
    linear_right: Linear,
    post_laurel_norm: RmsNorm,
}

impl Laurel {
    fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        let narrow = self.linear_left.forward(x.clone());
        let wide = self.linear_right.forward(narrow);
        x + self.post_laurel_norm.forward(wide)
    }
}
