//! The positions of the tokens of one pass, as a layer takes them.

use std::sync::Arc;

use burn::tensor::Tensor;

use crate::layers::cache::Seen;
use crate::layers::rope::RotaryTables;

/// The positions of a layer's tokens: their rotation, factors, and the keys that they see.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    /// The tables that rotate queries and keys, if the layer rotates them.
    pub(crate) rotation: Option<Rotation<'a>>,
    /// The factor of the queries, `[b or 1, s, 1, 1]` in at least `f32`, if the layer has one.
    pub(crate) query_factor: Option<&'a Tensor<4>>,
    /// The number of keys that a query sees, if some are hidden.
    pub(crate) window: Option<usize>,
    /// The number of last keys of each sequence that are not padding, if some are padding and no cache is used, which
    /// knows its own.
    pub(crate) lengths: Option<&'a [usize]>,
    /// The lengths of the documents of all sequences, if a query sees keys of its own document alone.
    pub(crate) documents: Option<&'a Arc<[usize]>>,
}

impl Place<'_> {
    /// Returns the keys and values of a pass without a cache.
    pub(crate) fn seen(&self, keys: Tensor<4>, values: Tensor<4>) -> Seen {
        Seen {
            keys,
            values,
            lengths: self.lengths.map(<[usize]>::to_vec),
        }
    }
}

/// The tables that rotate queries and keys.
#[derive(Clone, Copy)]
pub(crate) enum Rotation<'a> {
    /// By the position of a token.
    One(&'a RotaryTables),
    /// By its three positions.
    Axes(&'a AxisTables),
}

/// Tables of three positions of each token.
pub(crate) struct AxisTables {
    /// The cosines, `[3, b or 1, s, d]`.
    pub(crate) cos: Tensor<4>,
    /// The sines, of the same shape.
    pub(crate) sin: Tensor<4>,
    /// The numbers of pairs that take each position.
    pub(crate) sections: [usize; 3],
}
