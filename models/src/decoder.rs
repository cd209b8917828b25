//! The layers between the token ids and the last normalisation.

use burn::module::Module;
use burn::nn::Embedding;
use burn::tensor::{Device, Int, Tensor};
use burn_kernels::nn::CacheError;
use burn_kernels::policy;

use crate::attention::Attention;
use crate::blocks::{Mlp, RmsNorm, new_weight};
use crate::cache::{Cache, LayerCache};
use crate::config::ModelConfig;
use crate::rope::{RotaryEmbedding, RotaryTables};
use crate::sparse::{NewBlock, SparseMoeBlock};

/// The part of a layer after attention.
#[derive(Module, Debug)]
#[allow(
    clippy::large_enum_variant,
    reason = "one a layer; a box would save nothing that matters"
)]
pub enum FeedForward {
    /// A dense MLP.
    Dense(Mlp),
    /// A mixture of experts.
    Sparse(SparseMoeBlock),
}

impl FeedForward {
    fn new(config: &ModelConfig, layer: usize, device: &Device) -> Self {
        match (&config.moe, &config.family().experts) {
            (Some(moe), Some(experts)) if moe.is_sparse(layer) => {
                Self::Sparse((experts.block)(&NewBlock {
                    config,
                    moe,
                    device,
                }))
            }
            _ => Self::Dense(Mlp::new(config, device)),
        }
    }

    /// Returns the output for `x`, both `[b, s, hidden]`, and the router's logits if there is a router.
    fn forward(&self, x: Tensor<3>) -> (Tensor<3>, Option<Tensor<2>>) {
        match self {
            Self::Dense(mlp) => (mlp.forward(x), None),
            Self::Sparse(block) => {
                let (out, router_logits) = block.forward(x);
                (out, Some(router_logits))
            }
        }
    }
}

/// The residual stream between layers, `sum + last`. The next norm adds `last`, so that sum and norm are one
/// operation.
struct Residual {
    sum: Tensor<3>,
    last: Option<Tensor<3>>,
}

impl Residual {
    /// Returns the normalised stream and the stream itself.
    fn normalise(self, norm: &RmsNorm) -> (Tensor<3>, Tensor<3>) {
        match self.last {
            Some(last) => norm.forward_sum(last, self.sum),
            None => (norm.forward(self.sum.clone()), self.sum),
        }
    }
}

/// A decoder layer: attention, then MLP or experts. Each takes the normalised residual stream, and its output is added
/// to the stream.
#[derive(Module, Debug)]
pub struct DecoderLayer {
    input_layernorm: RmsNorm,
    self_attn: Attention,
    post_attention_layernorm: RmsNorm,
    mlp: FeedForward,
}

impl DecoderLayer {
    fn new(config: &ModelConfig, layer: usize, device: &Device) -> Self {
        Self {
            input_layernorm: RmsNorm::new(config, config.hidden_size, device),
            self_attn: Attention::new(config, device),
            post_attention_layernorm: RmsNorm::new(config, config.hidden_size, device),
            mlp: FeedForward::new(config, layer, device),
        }
    }

    fn forward(
        &self,
        residual: Residual,
        tables: &RotaryTables,
        window: Option<usize>,
        cache: Option<LayerCache<'_>>,
    ) -> Result<(Residual, Option<Tensor<2>>), CacheError> {
        let (normalised, sum) = residual.normalise(&self.input_layernorm);
        let attended = self.self_attn.forward(normalised, tables, window, cache)?;
        let (normalised, sum) = self.post_attention_layernorm.forward_sum(attended, sum);
        let (fed, router_logits) = self.mlp.forward(normalised);
        let last = Some(fed);
        Ok((Residual { sum, last }, router_logits))
    }
}

/// The embedding, the layers and the last normalisation.
#[derive(Module, Debug)]
pub struct Decoder {
    pub(crate) embed_tokens: Embedding,
    layers: Vec<DecoderLayer>,
    norm: RmsNorm,
    #[module(skip)]
    rotary: RotaryEmbedding,
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
            rotary: RotaryEmbedding::new(&config.rope, config.head_dim),
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
        let hidden = self.embed_tokens.forward(input_ids);
        let (device, dtype) = (hidden.device(), hidden.dtype());
        let tables = match position_ids {
            Some(position_ids) => self.rotary.tables_at(position_ids, dtype),
            None => {
                let (first, padding) = cache
                    .as_ref()
                    .map_or((0, &[][..]), |cache| (cache.positions(), cache.padding()));
                let padding = if padding.is_empty() { &[0] } else { padding };
                let positions = first..first + seq;
                self.rotary
                    .padded_tables(positions, padding, &device, dtype)
            }
        };
        let mut routers = Vec::new();
        let mut residual = Residual {
            sum: hidden,
            last: None,
        };
        for (index, layer) in self.layers.iter().enumerate() {
            let _layer = policy::layer(index, self.layers.len());
            let router_logits;
            let cache = cache.as_mut().map(|cache| cache.layer(index));
            (residual, router_logits) =
                layer.forward(residual, &tables, self.config.window(index), cache)?;
            routers.extend(router_logits);
        }
        Ok((residual.normalise(&self.norm).0, routers))
    }
}
