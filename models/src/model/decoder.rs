//! The embedding, the layers and the last normalisation: from token ids to hidden states.

use burn::module::Module;
use burn::tensor::{Device, Int, Tensor};
use burn_kernels::nn::{CacheError, Embedding, Linear};
use burn_kernels::policy;

use crate::config::{ModelConfig, SpeechConfig};
use crate::layers::arrangements::DecoderLayer;
use crate::layers::blocks::{RmsNorm, new_linear, new_weight};
use crate::layers::cache::Cache;
use crate::layers::gemma3n::{Gemma3nLayer, SharedKeys, Streams};
use crate::layers::kinds::Build;
use crate::layers::layer::Residual;
use crate::model::batch::Batch;
use crate::model::pictures::SeenPictures;
use crate::model::places::{Places, Rotary};
use crate::model::sequences::{Documents, Packed};

/// The layers of a model. [`crate::parameters`] knows that checkpoints have no names for these types.
#[derive(Module, Debug)]
#[allow(
    clippy::large_enum_variant,
    reason = "one a model; a box would save nothing that matters"
)]
enum LayerStack {
    /// Layers with one residual stream.
    Usual(UsualLayers),
    /// Layers with several.
    Streams(StreamLayers),
}

#[derive(Module, Debug)]
struct UsualLayers {
    layers: Vec<DecoderLayer>,
}

#[derive(Module, Debug)]
struct StreamLayers {
    around: Streams,
    layers: Vec<Gemma3nLayer>,
}

impl LayerStack {
    fn new(build: Build<'_>) -> Self {
        let config = build.config;
        let indices = 0..config.num_hidden_layers;
        match &config.altup {
            None => Self::Usual(UsualLayers {
                layers: indices
                    .map(|layer| DecoderLayer::new(build, layer))
                    .collect(),
            }),
            Some(altup) => Self::Streams(StreamLayers {
                around: Streams::new(build, altup),
                layers: indices
                    .map(|layer| Gemma3nLayer::new(build, altup, layer))
                    .collect(),
            }),
        }
    }
}

/// The embedding, the layers and the last normalisation.
#[derive(Module, Debug)]
pub struct Decoder {
    pub(crate) embed_tokens: Embedding,
    /// The projection of embeddings to the width of the layers, if their widths differ.
    thinker_to_talker_proj: Option<Linear>,
    stack: LayerStack,
    norm: RmsNorm,
    #[module(skip)]
    rotary: Rotary,
    #[module(skip)]
    config: ModelConfig,
}

impl Decoder {
    pub(crate) fn new(config: &ModelConfig, device: &Device) -> Self {
        let build = Build {
            config,
            layers: config.architecture.layers(),
            device,
        };
        let (width, hidden) = (config.embedding_width(), config.hidden_size);
        let is_projected = matches!(config.speech, Some(SpeechConfig::ProjectedTalker { .. }));
        Self {
            embed_tokens: Embedding {
                weight: new_weight(config, [config.vocab_size, width], device),
            },
            thinker_to_talker_proj: is_projected
                .then(|| new_linear(config, [width, hidden], true, device)),
            stack: LayerStack::new(build),
            norm: build.norm(config.hidden_size),
            rotary: Rotary::new(config),
            config: config.clone(),
        }
    }

    pub(crate) fn config(&self) -> &ModelConfig {
        &self.config
    }

    /// Returns the same layers under a configuration that differs in nothing that they read.
    pub(crate) fn with_config(self, config: ModelConfig) -> Self {
        Self { config, ..self }
    }

    /// Returns the hidden states `[b, s, hidden]` of a batch `[b, s]`, and the router logits `[b · s, num_experts]` of each
    /// sparse layer. With a cache, the tokens follow those that it has taken, and the first tokens of a
    /// row may be its padding.
    pub(crate) fn forward(
        &self,
        batch: Batch,
        cache: Option<&mut Cache>,
    ) -> Result<(Tensor<3>, Vec<Tensor<2>>), CacheError> {
        assert!(batch.pictures.is_none(), "this pass does not take pictures");
        self.forward_seeing(batch, None, cache)
    }

    /// Returns the results of [`forward`](Self::forward), of a batch with the pictures that are seen.
    pub(crate) fn forward_seeing(
        &self,
        batch: Batch,
        seen: Option<SeenPictures>,
        cache: Option<&mut Cache>,
    ) -> Result<(Tensor<3>, Vec<Tensor<2>>), CacheError> {
        let hidden = inserted(seen.as_ref(), self.enter(&batch));
        let places = self
            .rotary
            .places(&self.config, &hidden, &batch, cache.as_deref());
        self.layers(batch.input_ids, hidden, &places, (cache, seen.as_ref()))
    }

    /// Returns the results of [`forward`](Self::forward) of sequences that are several documents, one after the other.
    pub(crate) fn forward_packed(&self, packed: Packed) -> (Tensor<3>, Vec<Tensor<2>>) {
        let Packed {
            batch,
            documents,
            seen,
        } = packed;
        let hidden = inserted(seen.as_ref(), self.enter(&batch));
        let places = self.places_of(&hidden, &batch, documents);
        let passed = self.layers(batch.input_ids, hidden, &places, (None, seen.as_ref()));
        passed.expect("a pass without a cache has no error of one")
    }

    /// Returns the places of the tokens of sequences that are several documents, for hidden states like `hidden`.
    pub(crate) fn places_of(
        &self,
        hidden: &Tensor<3>,
        batch: &Batch,
        documents: Documents,
    ) -> Places {
        let places = self.rotary.places(&self.config, hidden, batch, None);
        places.with_documents(documents)
    }

    /// Returns the layers, if each takes no more than the residual stream of the one before.
    pub(crate) fn layers_one_by_one(&self) -> Option<&[DecoderLayer]> {
        match &self.stack {
            LayerStack::Usual(own) => Some(&own.layers),
            LayerStack::Streams(_) => None,
        }
    }

    /// Returns the hidden states of the residual stream behind the last layer.
    pub(crate) fn normalise(&self, residual: Residual) -> Tensor<3> {
        residual.normalise(&self.norm).0
    }

    /// Passes embedded tokens through all layers, with a cache or pictures.
    fn layers(
        &self,
        input_ids: Tensor<2, Int>,
        hidden: Tensor<3>,
        places: &Places,
        (mut cache, seen): (Option<&mut Cache>, Option<&SeenPictures>),
    ) -> Result<(Tensor<3>, Vec<Tensor<2>>), CacheError> {
        let layers = match &self.stack {
            LayerStack::Usual(own) => &own.layers,
            LayerStack::Streams(own) => {
                let hidden = self.streams(own, input_ids, hidden, places, cache)?;
                return Ok((self.norm.forward(hidden), Vec::new()));
            }
        };
        let mut routers = Vec::new();
        let mut residual = Residual::new(hidden);
        for (index, layer) in layers.iter().enumerate() {
            let _layer = policy::layer(index, layers.len());
            let router_logits;
            let cache = cache.as_mut().map(|cache| cache.layer(index));
            let place = places.of(&self.config, index);
            (residual, router_logits) = layer.forward(residual, place, cache)?;
            routers.extend(router_logits);
            if let Some(seen) = seen {
                residual = seen.add(index, residual);
            }
        }
        Ok((self.normalise(residual), routers))
    }

    /// Returns the hidden states behind the layers of a model with parallel residual streams.
    fn streams(
        &self,
        own: &StreamLayers,
        input_ids: Tensor<2, Int>,
        embedded: Tensor<3>,
        places: &Places,
        mut cache: Option<&mut Cache>,
    ) -> Result<Tensor<3>, CacheError> {
        let inputs = own.around.inputs(input_ids, &embedded);
        let mut streams = own.around.open(embedded);
        let mut shared = SharedKeys::default();
        for (index, layer) in own.layers.iter().enumerate() {
            let _layer = policy::layer(index, own.layers.len());
            let cache = cache.as_mut().map(|cache| cache.layer(index));
            let place = places.of(&self.config, index);
            let input = inputs.clone().narrow(2, index, 1).squeeze_dim(2);
            streams = layer.forward(streams, input, place, cache, &mut shared)?;
        }
        Ok(own.around.close(streams))
    }

    /// Returns the inputs of the layers for a batch.
    fn enter(&self, batch: &Batch) -> Tensor<3> {
        match &batch.inputs_embeds {
            Some(embedded) => self.projected(embedded.clone()),
            None => self.embed(batch.input_ids.clone()),
        }
    }

    fn projected(&self, embedded: Tensor<3>) -> Tensor<3> {
        match &self.thinker_to_talker_proj {
            Some(projection) => projection.forward(embedded),
            None => embedded,
        }
    }

    pub(crate) fn embed(&self, input_ids: Tensor<2, Int>) -> Tensor<3> {
        let hidden = self.projected(self.embed_tokens.forward(input_ids));
        if !self.config.family().scaled_embeddings {
            return hidden;
        }
        // `transformers` keeps the factor in f32, for every dtype of the model.
        let factor = (self.config.hidden_size as f64).sqrt() as f32;
        hidden * factor
    }
}

/// Puts the tokens of pictures in their places among embedded tokens, if there are pictures.
pub(crate) fn inserted(seen: Option<&SeenPictures>, embedded: Tensor<3>) -> Tensor<3> {
    match seen {
        Some(seen) => seen.insert(embedded),
        None => embedded,
    }
}
