//! Layers without an embedding before them and a head behind them.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use burn_kernels::policy;

use crate::config::ModelConfig;
use crate::layers::arrangements::DecoderLayer;
use crate::layers::blocks::RmsNorm;
use crate::layers::kinds::Build;
use crate::layers::layer::Residual;
use crate::model::places::Rotary;

/// The layers and the last normalisation. [`crate::parameters`] knows that checkpoints have no name for this type.
#[derive(Module, Debug)]
pub(crate) struct Trunk {
    layers: Vec<DecoderLayer>,
    norm: RmsNorm,
    #[module(skip)]
    rotary: Rotary,
    #[module(skip)]
    config: ModelConfig,
}

impl Trunk {
    pub(crate) fn new(config: &ModelConfig, device: &Device) -> Self {
        let build = Build {
            config,
            layers: config.architecture.layers(),
            device,
        };
        let indices = 0..config.num_hidden_layers;
        Self {
            layers: indices
                .map(|layer| DecoderLayer::new(build, layer))
                .collect(),
            norm: build.norm(config.hidden_size),
            rotary: Rotary::new(config),
            config: config.clone(),
        }
    }

    pub(crate) fn config(&self) -> &ModelConfig {
        &self.config
    }

    /// Returns the hidden states behind the layers of embeddings, both `[b, s, hidden]`.
    pub(crate) fn forward(&self, embedded: Tensor<3>) -> Tensor<3> {
        let places = self.rotary.places_in_order(&self.config, &embedded);
        let mut residual = Residual::new(embedded);
        for (index, layer) in self.layers.iter().enumerate() {
            let _layer = policy::layer(index, self.layers.len());
            let passed = layer.forward(residual, places.of(&self.config, index), None);
            (residual, _) = passed.expect("a pass without a cache has no error of one");
        }
        residual.normalise(&self.norm).0
    }
}
