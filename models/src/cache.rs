//! The keys and values of all layers, kept from one step of decoding to the next.

use burn_kernels::nn::KvCache;
use burn_kernels::semantics::HeadLayout;

use crate::config::ModelConfig;

/// The keys and values of the tokens that a model has seen; see [`CausalLm::next`](crate::CausalLm::next).
///
/// Layers with a window keep only the keys in it.
#[derive(Clone, Debug)]
pub struct Cache {
    layers: Vec<KvCache>,
}

impl ModelConfig {
    /// Makes an empty cache, which takes as many tokens as the model: `max_position_embeddings`. It grows as they come.
    pub fn cache(&self) -> Cache {
        let layer = |index| {
            let cache = KvCache::new(HeadLayout::Bsnd);
            match self.window(index) {
                Some(window) => cache.with_window(window),
                None => cache,
            }
        };
        Cache {
            layers: (0..self.num_hidden_layers).map(layer).collect(),
        }
    }
}

impl Cache {
    /// Returns the number of tokens of each sequence that were taken.
    pub fn positions(&self) -> usize {
        self.layers.first().map_or(0, KvCache::positions)
    }

    /// Forgets all tokens and releases the memory.
    pub fn clear(&mut self) {
        self.layers.iter_mut().for_each(KvCache::clear);
    }

    pub(crate) fn len(&self) -> usize {
        self.layers.len()
    }

    pub(crate) fn layer(&mut self, index: usize) -> &mut KvCache {
        &mut self.layers[index]
    }
}
