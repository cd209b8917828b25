//! The embedding, the layers and the last normalisation: from token ids to hidden states.

use std::ops::Range;

use burn::module::Module;
use burn::nn::Embedding;
use burn::tensor::{DType, Device, Int, Tensor};
use burn_kernels::nn::CacheError;
use burn_kernels::policy;

use crate::blocks::{RmsNorm, new_weight};
use crate::cache::Cache;
use crate::config::ModelConfig;
use crate::layer::{DecoderLayer, Residual};
use crate::rope::{RotaryEmbedding, RotaryTables};

/// The embedding, the layers and the last normalisation.
#[derive(Module, Debug)]
pub struct Decoder {
    pub(crate) embed_tokens: Embedding,
    layers: Vec<DecoderLayer>,
    norm: RmsNorm,
    #[module(skip)]
    rotary: Rotary,
    #[module(skip)]
    config: ModelConfig,
}

impl Decoder {
    pub(crate) fn new(config: &ModelConfig, device: &Device) -> Self {
        Self {
            embed_tokens: Embedding {
                weight: new_weight(config, [config.vocab_size, config.hidden_size], device),
            },
            layers: (0..config.num_hidden_layers)
                .map(|layer| DecoderLayer::new(config, layer, device))
                .collect(),
            norm: RmsNorm::new(config, config.hidden_size, device),
            rotary: Rotary::new(config),
            config: config.clone(),
        }
    }

    pub(crate) fn config(&self) -> &ModelConfig {
        &self.config
    }

    /// Returns the hidden states `[b, s, hidden]` of the token ids `[b, s]`, and the router logits `[b · s,
    /// num_experts]` of each sparse layer. With a cache, the tokens follow those that it has taken, and the first tokens of a
    /// row may be its padding.
    pub(crate) fn forward(
        &self,
        input_ids: Tensor<2, Int>,
        position_ids: Option<Tensor<2, Int>>,
        mut cache: Option<&mut Cache>,
    ) -> Result<(Tensor<3>, Vec<Tensor<2>>), CacheError> {
        let [_, seq] = input_ids.dims();
        let hidden = self.embed(input_ids);
        let tables = self.tables(&hidden, position_ids, seq, cache.as_deref());
        let mut routers = Vec::new();
        let mut residual = Residual::new(hidden);
        for (index, layer) in self.layers.iter().enumerate() {
            let _layer = policy::layer(index, self.layers.len());
            let router_logits;
            let cache = cache.as_mut().map(|cache| cache.layer(index));
            let window = self.config.window(index);
            let tables = tables.of(window.is_some());
            (residual, router_logits) = layer.forward(residual, tables, window, cache)?;
            routers.extend(router_logits);
        }
        Ok((residual.normalise(&self.norm).0, routers))
    }

    fn embed(&self, input_ids: Tensor<2, Int>) -> Tensor<3> {
        let hidden = self.embed_tokens.forward(input_ids);
        if !self.config.family().scaled_embeddings {
            return hidden;
        }
        // `transformers` keeps the factor in f32, for every dtype of the model.
        let factor = (self.config.hidden_size as f64).sqrt() as f32;
        hidden * factor
    }

    /// Returns the rotary tables of these tokens, for hidden states like `hidden`.
    fn tables(
        &self,
        hidden: &Tensor<3>,
        position_ids: Option<Tensor<2, Int>>,
        seq: usize,
        cache: Option<&Cache>,
    ) -> Tables {
        let dtype = match hidden.dtype() {
            DType::F16 | DType::BF16 if self.config.family().positions.wide_tables => DType::F32,
            dtype => dtype,
        };
        if let Some(position_ids) = position_ids {
            return self
                .rotary
                .each(|rotary| rotary.tables_at(position_ids.clone(), dtype));
        }
        let (first, padding) =
            cache.map_or((0, &[][..]), |cache| (cache.positions(), cache.padding()));
        let padding = if padding.is_empty() { &[0] } else { padding };
        let positions: Range<usize> = first..first + seq;
        let device = hidden.device();
        self.rotary
            .each(|rotary| rotary.padded_tables(positions.clone(), padding, &device, dtype))
    }
}

/// The rotary frequencies of a model.
#[derive(Debug, Clone)]
struct Rotary {
    global: RotaryEmbedding,
    /// The frequencies of layers with a window, if they have their own.
    local: Option<RotaryEmbedding>,
}

/// The rotary tables of one forward pass.
struct Tables {
    global: RotaryTables,
    local: Option<RotaryTables>,
}

impl Rotary {
    fn new(config: &ModelConfig) -> Self {
        let of = |rope| RotaryEmbedding::new(rope, config.head_dim);
        Self {
            global: of(&config.rope),
            local: config.local_rope.as_ref().map(of),
        }
    }

    fn each(&self, tables: impl Fn(&RotaryEmbedding) -> RotaryTables) -> Tables {
        Tables {
            global: tables(&self.global),
            local: self.local.as_ref().map(tables),
        }
    }
}

impl Tables {
    /// Returns the tables of a layer with or without a window.
    fn of(&self, windowed: bool) -> &RotaryTables {
        match &self.local {
            Some(local) if windowed => local,
            _ => &self.global,
        }
    }
}
