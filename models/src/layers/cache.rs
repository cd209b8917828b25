//! The keys and values of all layers, or the states of those with linear attention, kept from one step of decoding to
//! the next.

use burn::tensor::Tensor;
use burn_kernels::nn::{CacheError, KvCache};
use burn_kernels::semantics::HeadLayout;

use crate::config::ModelConfig;
use crate::layers::state::{DeltaShapes, DeltaState, StateCache};

/// The keys and values of the tokens that a model has seen; see [`CausalLm::next`](crate::CausalLm::next).
///
/// Layers with a sliding window keep only the keys in it. Layers with linear attention keep a state, which is as large
/// after any number of tokens, and which can't go back to an earlier token: clone the cache before tokens that may be
/// rejected.
#[derive(Clone, Debug)]
pub struct Cache {
    layers: Vec<LayerKept>,
    /// The number of positions before the first token of each sequence. Empty if no sequence has any.
    padding: Vec<usize>,
    /// The number of positions that the tokens of pictures share with others, of each sequence. Empty without pictures.
    shared: Vec<usize>,
}

/// The part of the cache of one layer: keys and values, or a state.
#[derive(Clone, Debug)]
enum LayerKept {
    /// Keys and values.
    Keys(KvCache),
    /// The state of linear attention.
    State(StateCache),
}

impl LayerKept {
    fn positions(&self) -> usize {
        match self {
            Self::Keys(keys) => keys.positions(),
            Self::State(state) => state.positions(),
        }
    }

    fn clear(&mut self) {
        match self {
            Self::Keys(keys) => keys.clear(),
            Self::State(state) => state.clear(),
        }
    }

    /// Forgets the tokens after the first `positions`. Returns `false`, and changes nothing, if it has dropped
    /// tokens that the next one needs.
    fn cut(&mut self, positions: usize) -> bool {
        match self {
            Self::Keys(keys) => keys.cut(positions),
            Self::State(state) => state.cut(positions),
        }
    }
}

/// The caches of the layers with a window or a state, as they were after some tokens. These layers drop what a cut
/// needs, while other layers keep all.
#[derive(Debug)]
pub(crate) struct Mark {
    positions: usize,
    /// `None` for a layer that keeps all.
    layers: Vec<Option<LayerKept>>,
}

impl ModelConfig {
    /// Makes an empty cache, which takes as many tokens as the model: `max_position_embeddings`. It grows as they come.
    pub fn cache(&self) -> Cache {
        let layer = |index| {
            if self.is_linear(index) {
                return LayerKept::State(StateCache::default());
            }
            let cache = KvCache::new(HeadLayout::Bsnd);
            LayerKept::Keys(match self.kept(index) {
                Some(window) => cache.with_window(window),
                None => cache,
            })
        };
        Cache {
            layers: (0..self.num_hidden_layers).map(layer).collect(),
            padding: Vec::new(),
            shared: Vec::new(),
        }
    }
}

impl Cache {
    /// Returns the number of tokens that were taken of each sequence, or of the longest if they began with prompts of
    /// different lengths.
    pub fn positions(&self) -> usize {
        self.layers.first().map_or(0, LayerKept::positions)
    }

    /// Returns the state of a layer with linear attention, counted from 0, if it has taken tokens: the last inputs of
    /// its convolution, `[b, K − 1, channels]`, and the states of its heads, `[b, heads, key width, value width]`, in
    /// at least `f32`.
    pub fn linear_state(&self, layer: usize) -> Option<(Tensor<3>, Tensor<4>)> {
        match self.layers.get(layer)? {
            LayerKept::State(state) => state.kept(),
            LayerKept::Keys(_) => None,
        }
    }

    /// Forgets all tokens, the lengths of the prompts and their pictures, and releases the memory.
    pub fn clear(&mut self) {
        self.layers.iter_mut().for_each(LayerKept::clear);
        self.padding.clear();
        self.shared.clear();
    }

    /// Keeps what a later [`cut`](Self::cut) to these tokens, or to a few less, needs.
    pub(crate) fn mark(&self, config: &ModelConfig) -> Mark {
        // Templates put a few tokens behind the messages, where an answer begins, and may leave them out of earlier turns.
        const FEW: usize = 64;
        let tail = |(index, layer): (usize, &LayerKept)| match layer {
            LayerKept::Keys(keys) => config.kept(index).map(|_| LayerKept::Keys(keys.tail(FEW))),
            LayerKept::State(_) => Some(layer.clone()),
        };
        Mark {
            positions: self.positions(),
            layers: self.layers.iter().enumerate().map(tail).collect(),
        }
    }

    /// Forgets the tokens after the first `positions`. If a window has dropped keys that the next query sees, or a
    /// state has taken later tokens, it forgets more: those after the mark, or all. Returns the number of tokens that
    /// are left. The mark is of the same tokens.
    pub(crate) fn cut(&mut self, positions: usize, mark: Option<&Mark>) -> usize {
        let marked = mark.map(|mark| {
            let own = mark.layers.iter().zip(&self.layers);
            let layers = own.map(|(marked, layer)| marked.as_ref().unwrap_or(layer).clone());
            (layers.collect(), positions.min(mark.positions))
        });
        for (mut layers, positions) in [(self.layers.clone(), positions)].into_iter().chain(marked)
        {
            if layers.iter_mut().all(|layer| layer.cut(positions)) {
                self.layers = layers;
                return positions;
            }
        }
        self.clear();
        0
    }

    pub(crate) fn len(&self) -> usize {
        self.layers.len()
    }

    /// Sets the number of positions before the first token of each sequence. The cache must be empty.
    pub(crate) fn pad(&mut self, padding: Vec<usize>) {
        let padded = padding.iter().any(|&before| before > 0);
        self.padding = if padded { padding } else { Vec::new() };
    }

    /// Sets the number of positions that tokens of pictures share with others, of each sequence: the next token of a
    /// sequence has as much less than its number of tokens as position. The cache must be empty, and have no padding.
    pub(crate) fn share(&mut self, shared: Vec<usize>) {
        self.shared = shared;
    }

    /// Returns the numbers that are subtracted from the numbers of sequences' tokens, padding included, to get the
    /// positions of the next ones. Empty if they are 0 in every sequence.
    pub(crate) fn subtracted(&self) -> &[usize] {
        match self.shared.is_empty() {
            true => &self.padding,
            false => &self.shared,
        }
    }

    pub(crate) fn layer(&mut self, index: usize) -> LayerCache<'_> {
        LayerCache {
            kept: &mut self.layers[index],
            padding: &self.padding,
        }
    }
}

/// The keys and values of one layer, or its state.
pub(crate) struct LayerCache<'a> {
    kept: &'a mut LayerKept,
    padding: &'a [usize],
}

/// The keys and values that new queries may see.
#[derive(Clone)]
pub(crate) struct Seen {
    /// The keys, `[b, t, heads, width]`.
    pub(crate) keys: Tensor<4>,
    /// The values, of the same shape.
    pub(crate) values: Tensor<4>,
    /// The number of last keys of each sequence that are not padding, if some are padding.
    pub(crate) lengths: Option<Vec<usize>>,
}

impl LayerCache<'_> {
    /// Appends the keys and values of new positions. Returns those that the new queries may see.
    pub(crate) fn append(
        &mut self,
        keys: Tensor<4>,
        values: Tensor<4>,
    ) -> Result<Seen, CacheError> {
        let LayerKept::Keys(own) = self.kept else {
            return Err(of_another_model("a state", "keys and values"));
        };
        let (keys, values) = own.append(keys, values)?;
        let (all, kept) = (own.positions(), own.kept());
        Ok(Seen {
            keys,
            values,
            lengths: lengths(self.padding, all, kept),
        })
    }

    /// Returns the state of these shapes that inputs like `inputs` go on from.
    pub(crate) fn state(
        &self,
        inputs: &Tensor<3>,
        shapes: DeltaShapes,
    ) -> Result<DeltaState, CacheError> {
        match &self.kept {
            LayerKept::State(own) => own.state(inputs, shapes),
            LayerKept::Keys(_) => Err(of_another_model("keys and values", "a state")),
        }
    }

    /// Keeps the state after further tokens, of a layer with a [`state`](Self::state).
    pub(crate) fn keep(&mut self, state: DeltaState, tokens: usize) {
        if let LayerKept::State(own) = self.kept {
            own.keep(state, tokens);
        }
    }

    /// Returns the numbers of positions that are not padding among so many further ones, if some are padding.
    pub(crate) fn lengths_of(&self, further: usize) -> Option<Vec<usize>> {
        lengths(self.padding, self.kept.positions() + further, further)
    }
}

/// Returns the error of a cache that keeps something else for a layer than the layer needs.
fn of_another_model(kept: &str, needed: &str) -> CacheError {
    CacheError::Mismatch(format!(
        "a layer that keeps {needed} has {kept} there: it is of another model"
    ))
}

/// Returns the number of last positions of each sequence that are not padding, of the `kept` last ones of `all`, or
/// `None` if there is no padding among these.
fn lengths(padding: &[usize], all: usize, kept: usize) -> Option<Vec<usize>> {
    let forgotten = all - kept;
    let length = |&before: &usize| kept - before.saturating_sub(forgotten);
    let hides = padding.iter().any(|&before| before > forgotten);
    hides.then(|| padding.iter().map(length).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn padding_leaves_a_window_with_the_keys() {
        assert_eq!(lengths(&[], 7, 7), None);
        assert_eq!(lengths(&[2, 0], 5, 5), Some(vec![3, 5]));
        assert_eq!(lengths(&[2, 0], 9, 9), Some(vec![7, 9]));
        assert_eq!(lengths(&[2, 0], 9, 8), Some(vec![7, 8]));
        assert_eq!(lengths(&[2, 0], 9, 7), None);
    }
}
