//! Attention: blocks of scores that stay in the cache.
//!
//! A block has up to `QUERIES` queries and `KEYS` keys. Queries are the lanes of its vectors: the scores of a block
//! are kept transposed, one line for each key, so keys and values are read in place, and the maximum and sum over keys
//! are those of whole vectors. Only the queries, few at a time, are transposed first. Blocks that no query sees are
//! skipped, and so are the lanes at the edges of a block that see none of its keys.
//!
//! Where the machine has AMX, blocks are multiplied in its tiles (`tiles`, `gradient_tiles`). Numbers of f32 are in three
//! parts of bf16, which have all their bits; operands with numbers that would not be exact there are multiplied in vectors.
//! In bf16, queries, keys, values and `dy` are exact. Probabilities are two numbers, what bf16 holds of them and the rest,
//! because they are as large as results, which are rounded once. Gradients of scores are rounded to bf16.
//!
//! Results lie in the layout of the operands, so that a model that joins its heads copies nothing.
//!
//! Heads that share keys are rows of one sequence of queries. Each block of queries is computed by one thread, in the
//! order of the keys, so results don't depend on the number of threads.

mod backward;
mod few;
mod forward;
mod gradient_tiles;
mod heads_out;
mod hidden;
mod lanes;
mod query_block;
mod rows;
mod scores;
mod sizes;
mod tiles;
mod units;
mod view;

pub(crate) use heads_out::{Extent, HeadRows, HeadsOut};
pub use sizes::Sizes;
pub(crate) use view::Heads;

use crate::keys::HeadLayout;
use crate::{Values, View, with_type};
use std::ops::Range;

/// The number of queries of a block: two tiles of products in f32 under AVX-512.
const QUERIES: usize = 96;

/// The number of keys of a block, and that of blocks in bf16 in tiles, whose sums are read and written once for each block.
const KEYS: usize = 64;
const KEYS_OF_TILES: usize = 128;

/// The operands. Heads are `[batch, heads, rows, width]` whatever the layout of the results; the rows of heads are
/// contiguous, and their strides are not negative.
#[derive(Clone)]
pub struct Operands<'a> {
    /// The queries.
    pub q: View<'a>,
    /// The keys.
    pub k: View<'a>,
    /// The values.
    pub v: View<'a>,
    /// The bias of the scores, `[batch or 1, heads or 1, queries or 1, keys]`, contiguous.
    pub bias: Option<View<'a>>,
    /// The score of each head's sink, `[heads]`, contiguous.
    pub sinks: Option<View<'a>>,
    /// The keys that a query of a sequence sees. The function gets the numbers of sequence and query. Neither end decreases
    /// from one query to the next.
    pub visible: &'a (dyn Fn(usize, usize) -> Range<usize> + Sync),
    /// The factor of the scores.
    pub scale: f64,
    /// The limit of the scores, if there is one.
    pub cap: Option<f64>,
    /// The layout of the results.
    pub layout: HeadLayout,
}

/// The results of the forward pass.
#[derive(Clone, Debug)]
pub struct Found {
    /// The result, in its layout.
    pub y: Values,
    /// The logarithm of the sum of exponentials of the scores of each query, `[batch, heads, queries]`, in f32, or in f64
    /// for f64.
    pub lse: Values,
}

/// The gradients, in the layout of the results.
#[derive(Clone, Debug)]
pub struct Gradients {
    /// The gradient of the queries.
    pub q: Values,
    /// The gradient of the keys.
    pub k: Values,
    /// The gradient of the values.
    pub v: Values,
    /// The gradient of the bias, if it is wanted.
    pub bias: Option<Values>,
    /// The gradient of the sinks, if there are any.
    pub sinks: Option<Values>,
}

/// Returns the result and the logarithms of the sums.
///
/// # Panics
/// Panics if sizes or types don't go together, or if a tensor can't be read in place.
pub fn forward(operands: &Operands<'_>) -> Found {
    with_type!(operands.q.dtype(), T => forward::forward::<T>(operands))
}

/// Returns the gradients, from that of the result, `dy`, and the results of the forward pass. `dy` and `y` are heads, as
/// the operands are, and `lse` is contiguous.
///
/// # Panics
/// Panics under the conditions of [`forward`](forward()).
pub fn backward(
    operands: &Operands<'_>,
    [dy, y, lse]: [&View<'_>; 3],
    bias_gradient: bool,
) -> Gradients {
    with_type!(operands.q.dtype(), T => {
        backward::backward::<T>(operands, [dy, y, lse], bias_gradient)
    })
}
