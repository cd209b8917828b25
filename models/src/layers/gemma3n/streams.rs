//! The parallel residual streams (AltUp, Baykal et al., *Alternating Updates for Efficient Transformers*, arXiv:2301.13310):
//! between embedding and layers, and within a layer.

use burn::module::{Initializer, Module, Param};
use burn::tensor::{Int, Tensor};
use burn_kernels::nn::{Embedding, Linear};

use crate::config::AltUpConfig;
use crate::layers::blocks::{RmsNorm, new_linear, new_weight};
use crate::layers::kinds::Build;
use crate::layers::wide::at_least_f32;

/// The parts of a model outside its layers: the embeddings of layers, and the projections between embedding and streams.
/// [`crate::parameters`] leaves the field of this type out of the paths of parameters.
#[derive(Module, Debug)]
pub(crate) struct Streams {
    /// The embeddings of all layers, one behind the other.
    embed_tokens_per_layer: Embedding,
    per_layer_model_projection: Linear,
    per_layer_projection_norm: RmsNorm,
    altup_projections: Vec<Linear>,
    altup_unembed_projections: Vec<Linear>,
    #[module(skip)]
    sizes: Sizes,
}

#[derive(Debug, Clone)]
struct Sizes {
    layers: usize,
    hidden: usize,
    altup: AltUpConfig,
}

impl Streams {
    pub(crate) fn new(build: Build<'_>, altup: &AltUpConfig) -> Self {
        let Build { config, device, .. } = build;
        let (hidden, layers) = (config.hidden_size, config.num_hidden_layers);
        let own = altup.hidden_size_per_layer_input;
        let linear = |shape| new_linear(config, shape, false, device);
        let others = || (1..altup.altup_num_inputs).map(|_| linear([hidden, hidden]));
        let table = [altup.vocab_size_per_layer_input, layers * own];
        Self {
            embed_tokens_per_layer: Embedding {
                weight: new_weight(config, table, device),
            },
            per_layer_model_projection: linear([hidden, layers * own]),
            per_layer_projection_norm: build.norm(own),
            altup_projections: others().collect(),
            altup_unembed_projections: others().collect(),
            sizes: Sizes {
                layers,
                hidden,
                altup: altup.clone(),
            },
        }
    }

    /// Returns the layers' own inputs, `[b, s, layers, own width]`, of token ids and their embeddings.
    pub(crate) fn inputs(&self, input_ids: Tensor<2, Int>, embedded: &Tensor<3>) -> Tensor<4> {
        let [batch, seq, _] = embedded.dims();
        let own = self.sizes.altup.hidden_size_per_layer_input;
        let shape = [batch, seq, self.sizes.layers, own];
        // Tokens beyond the table have the embedding of the first.
        let vocab = self.sizes.altup.vocab_size_per_layer_input as i64;
        let beyond = input_ids.clone().greater_equal_elem(vocab);
        let looked_up = self
            .embed_tokens_per_layer
            .forward(input_ids.mask_fill(beyond, 0));
        let looked_up = looked_up.reshape(shape) * (own as f64).sqrt() as f32;
        let projected = self.per_layer_model_projection.forward(embedded.clone());
        let projected = projected * (self.sizes.hidden as f64).powf(-0.5) as f32;
        let projected = self
            .per_layer_projection_norm
            .forward(projected.reshape(shape));
        (projected + looked_up) * 0.5_f64.sqrt() as f32
    }

    /// Returns all streams `[streams, b, s, hidden]` of the embeddings: these, and projections of the same size.
    pub(crate) fn open(&self, embedded: Tensor<3>) -> Tensor<4> {
        let size = magnitude(&embedded);
        let others = self.altup_projections.iter();
        let others = others.map(|projection| resized(projection.forward(embedded.clone()), &size));
        let streams = std::iter::once(embedded.clone()).chain(others);
        Tensor::stack(streams.collect(), 0)
    }

    /// Returns the mean of all streams, which projections bring together with the size of the first.
    pub(crate) fn close(&self, streams: Tensor<4>) -> Tensor<3> {
        let stream = |at: usize| streams.clone().narrow(0, at, 1).squeeze_dim::<3>(0);
        let first = stream(0);
        let size = magnitude(&first);
        let others = self.altup_unembed_projections.iter().enumerate();
        let others =
            others.map(|(at, projection)| resized(projection.forward(stream(at + 1)), &size));
        let all: Vec<_> = std::iter::once(first).chain(others).collect();
        Tensor::stack::<4>(all, 0).mean_dim(0).squeeze_dim(0)
    }
}

/// Returns the root of the mean square of the last axis, which stays with length 1.
fn magnitude(x: &Tensor<3>) -> Tensor<3> {
    x.clone().square().mean_dim(2).sqrt()
}

/// Gives each vector the size that is wanted.
fn resized(x: Tensor<3>, size: &Tensor<3>) -> Tensor<3> {
    let own = x.clone().square().mean_dim(2).clamp_min(1e-5).sqrt();
    x * size.clone() / own
}

/// The parallel streams of a layer: it predicts all, computes one, and corrects all by the difference.
#[derive(Module, Debug)]
pub(super) struct AltUp {
    correct_output_scale: Param<Tensor<1>>,
    correction_coefs: Linear,
    prediction_coefs: Linear,
    modality_router: Linear,
    router_norm: RmsNorm,
    #[module(skip)]
    streams: StreamSizes,
}

#[derive(Debug, Clone, Copy)]
struct StreamSizes {
    hidden: usize,
    active: usize,
    scales: bool,
}

impl AltUp {
    pub(super) fn new(build: Build<'_>, altup: &AltUpConfig) -> Self {
        let Build { config, device, .. } = build;
        let (hidden, count) = (config.hidden_size, altup.altup_num_inputs);
        let linear = |shape| new_linear(config, shape, false, device);
        Self {
            correct_output_scale: Initializer::Zeros.init([hidden], device),
            correction_coefs: linear([count, count]),
            prediction_coefs: linear([count, count * count]),
            modality_router: linear([hidden, count]),
            router_norm: build.norm(hidden),
            streams: StreamSizes {
                hidden,
                active: altup.altup_active_idx,
                scales: altup.altup_correct_scale,
            },
        }
    }

    /// Returns the stream that layers take, `[b, s, hidden]`, of all `[streams, b, s, hidden]`.
    pub(super) fn active(&self, streams: &Tensor<4>) -> Tensor<3> {
        let active = streams.clone().narrow(0, self.streams.active, 1);
        active.squeeze_dim(0)
    }

    /// Returns the weights of streams, `[b, s, streams]`, from -1 to 1.
    fn modalities(&self, x: Tensor<3>) -> Tensor<3> {
        let scale = (self.streams.hidden as f64).recip() as f32;
        let routed = self
            .modality_router
            .forward(self.router_norm.forward(x) * scale);
        let dtype = routed.dtype();
        routed.cast(at_least_f32(dtype)).tanh().cast(dtype)
    }

    /// Returns what the streams are expected to be after the layer.
    pub(super) fn predict(&self, streams: Tensor<4>) -> Tensor<4> {
        let [count, batch, seq, _] = streams.dims();
        let weights = self.modalities(self.active(&streams));
        let mixing = self.prediction_coefs.forward(weights);
        let mixing: Tensor<4> = mixing.reshape([batch, seq, count, count]);
        let mixed = streams.clone().permute([1, 2, 3, 0]);
        let mixed = mixed.matmul(mixing.swap_dims(2, 3));
        mixed.permute([3, 0, 1, 2]) + streams
    }

    /// Adds to each stream a part of the difference between the computed stream and its prediction.
    pub(super) fn correct(&self, predicted: Tensor<4>, computed: Tensor<3>) -> Tensor<4> {
        let difference = computed.clone() - self.active(&predicted);
        let parts = self.correction_coefs.forward(self.modalities(computed)) + 1.0;
        let parts: Tensor<4> = parts.permute([2, 0, 1]).unsqueeze_dim(3);
        difference.unsqueeze_dim::<4>(0) * parts + predicted
    }

    pub(super) fn scaled(&self, x: Tensor<3>) -> Tensor<3> {
        match self.streams.scales {
            true => x * self.correct_output_scale.val().unsqueeze(),
            false => x,
        }
    }
}

/// Adds to all streams but the first.
pub(super) fn with_others(streams: Tensor<4>, added: Tensor<3>) -> Tensor<4> {
    let [count, ..] = streams.dims();
    let first = streams.clone().narrow(0, 0, 1);
    let others = streams.narrow(0, 1, count - 1) + added.unsqueeze_dim::<4>(0);
    Tensor::cat(vec![first, others], 0)
}
