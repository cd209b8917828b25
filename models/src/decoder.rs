//! The stack of layers between token ids and the last normalisation.

use burn::module::Module;
use burn::nn::Embedding;
use burn::tensor::{Bool, Device, Int, Tensor};
use burn_kernels::policy;

use crate::attention::{Attention, causal_mask};
use crate::blocks::{Mlp, RmsNorm, new_weight};
use crate::config::ModelConfig;
use crate::rope::{RotaryEmbedding, RotaryTables};

/// One layer: attention and MLP, each on the normalised residual stream and added to it.
#[derive(Module, Debug)]
pub struct DecoderLayer {
    input_layernorm: RmsNorm,
    self_attn: Attention,
    post_attention_layernorm: RmsNorm,
    mlp: Mlp,
}

impl DecoderLayer {
    fn new(config: &ModelConfig, device: &Device) -> Self {
        Self {
            input_layernorm: RmsNorm::new(config, config.hidden_size, device),
            self_attn: Attention::new(config, device),
            post_attention_layernorm: RmsNorm::new(config, config.hidden_size, device),
            mlp: Mlp::new(config, device),
        }
    }

    fn forward(&self, x: Tensor<3>, tables: &RotaryTables, mask: &Tensor<4, Bool>) -> Tensor<3> {
        let attended =
            self.self_attn
                .forward(self.input_layernorm.forward(x.clone()), tables, mask);
        let x = x + attended;
        x.clone() + self.mlp.forward(self.post_attention_layernorm.forward(x))
    }
}

/// Embedding, layers and last normalisation.
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
                .map(|_| DecoderLayer::new(config, device))
                .collect(),
            norm: RmsNorm::new(config, config.hidden_size, device),
            rotary: RotaryEmbedding::new(&config.rope, config.head_dim),
            config: config.clone(),
        }
    }

    pub(crate) fn config(&self) -> &ModelConfig {
        &self.config
    }

    /// Hidden states `[b, s, hidden]` of the token ids `[b, s]`.
    pub(crate) fn forward(
        &self,
        input_ids: Tensor<2, Int>,
        position_ids: Option<Tensor<2, Int>>,
    ) -> Tensor<3> {
        let [_, seq] = input_ids.dims();
        let mut hidden = self.embed_tokens.forward(input_ids);
        let (device, dtype) = (hidden.device(), hidden.dtype());
        let tables = match position_ids {
            Some(position_ids) => self.rotary.tables_at(position_ids, dtype),
            None => self.rotary.tables(seq, &device, dtype),
        };
        let mask = causal_mask(&self.config, seq, &device);
        for (index, layer) in self.layers.iter().enumerate() {
            let _layer = policy::layer(index, self.layers.len());
            hidden = layer.forward(hidden, &tables, &mask);
        }
        self.norm.forward(hidden)
    }
}
