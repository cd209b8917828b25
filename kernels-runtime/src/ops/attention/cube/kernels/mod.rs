//! The kernels. A cube has some lines of [`ACROSS`] units. It works on a block of scores: each line has [`EACH`] rows of the
//! block, and each unit two of its [`COLUMNS`]. In the kernels over queries the rows are queries and the
//! columns keys, and in the kernel over keys it is the other way round.
//!
//! Heads of queries that share a head of keys are rows of one sequence: the row `r` is that of the query `r / group`.
//!
//! Operands and results have elements of a type `E`. Everything between is in f32.

pub(super) mod block;
mod form;
mod keys;
mod queries;
mod results;
mod statistics;

pub(super) use form::{Form, Heads};
pub(super) use keys::key_gradients;
pub(super) use queries::{query_gradients, sums_along};
pub(super) use results::{forward, sinks_first};
pub(super) use statistics::{row_statistics, sink_gradients, statistics_without_sums};

use burn_cubecl::cubecl;
use burn_cubecl::cubecl::prelude::*;

/// The number of rows of a line.
pub(super) const EACH: usize = 4;

/// The number of units of a line.
pub(super) const ACROSS: usize = 16;

/// The number of columns of a block.
pub(super) const COLUMNS: usize = 2 * ACROSS;

/// The numbers of a vector with one number for each row of a line, and of the statistics of a query.
pub(super) type Four = Const<4>;

/// The distances of neighbours in a tensor, in vectors, or in elements for a bias.
#[derive(CubeType, CubeLaunch)]
pub(super) struct Strides {
    pub(super) sequence: usize,
    pub(super) head: usize,
    pub(super) position: usize,
}

/// The numbers of a call.
#[derive(CubeType, CubeLaunch)]
pub(super) struct Numbers {
    pub(super) sequences: usize,
    /// The number of heads of keys.
    pub(super) kv_heads: usize,
    pub(super) queries: usize,
    pub(super) keys: usize,
    /// The number of vectors of a row of keys, and of one of values.
    pub(super) vectors: usize,
    pub(super) value_vectors: usize,
    pub(super) scale: f32,
    pub(super) cap: f32,
    /// Minus infinity, the logarithm of nothing.
    pub(super) nothing: f32,
    /// The distance of sequences in the ranges, 0 if all share them.
    pub(super) ranges: usize,
    pub(super) q: Strides,
    pub(super) k: Strides,
    pub(super) v: Strides,
    pub(super) bias: Strides,
    /// Those of the gradient of the result, in the backward pass.
    pub(super) dy: Strides,
    /// Those of the result of the forward pass.
    pub(super) y: Strides,
    /// Those of the gradients of queries, keys and values.
    pub(super) dq: Strides,
    pub(super) dk: Strides,
    pub(super) dv: Strides,
}

/// The place of a cube: a block of rows of a head of keys of a sequence.
#[derive(CubeType, Clone, Copy)]
pub(super) struct Place {
    pub(super) sequence: usize,
    pub(super) kv_head: usize,
    /// The first row of the block.
    pub(super) first: usize,
}

/// Returns the place of a cube, given the number of rows of a head of keys. It is behind the last sequence for cubes that
/// have nothing to do.
#[cube]
pub(super) fn place_of(numbers: &Numbers, rows: usize, #[comptime] of_block: usize) -> Place {
    let blocks = rows.div_ceil(of_block);
    let above = CUBE_POS / blocks;
    Place {
        sequence: above / numbers.kv_heads,
        kv_head: above % numbers.kv_heads,
        first: CUBE_POS % blocks * of_block,
    }
}

/// Returns the place of a row of queries among all, `[batch, heads, queries]`.
#[cube]
pub(super) fn index_of(
    place: &Place,
    row: usize,
    numbers: &Numbers,
    #[comptime] group: usize,
) -> usize {
    let head = (place.sequence * numbers.kv_heads + place.kv_head) * group + row % group;
    head * numbers.queries + row / group
}

/// Returns the place of the bias of a row of queries and the first key.
#[cube]
pub(super) fn bias_of(
    place: &Place,
    row: usize,
    numbers: &Numbers,
    #[comptime] group: usize,
) -> usize {
    place.sequence * numbers.bias.sequence
        + (place.kv_head * group + row % group) * numbers.bias.head
        + row / group * numbers.bias.position
}

/// Returns a score within the cap.
#[cube]
pub(super) fn capped(score: f32, cap: f32, #[comptime] is_capped: bool) -> f32 {
    if comptime!(is_capped) {
        // Beyond 20, the tangent is 1, and some devices return NaN for large numbers.
        let mut z = score / cap;
        z = select(z > 20.0f32, 20.0f32, z);
        z = select(z < -20.0f32, -20.0f32, z);
        z.tanh() * cap
    } else {
        score
    }
}

/// Returns a score with its bias, if there are biases.
#[cube]
pub(super) fn biased<E: Float>(score: f32, bias: ComptimeOption<&[E]>, at: usize) -> f32 {
    let mut with = score;
    if comptime!(bias.is_some()) {
        let bias: &[E] = bias.unwrap();
        with += f32::cast_from(bias[at]);
    }
    with
}

/// Returns the score within the cap of a pair of query and key, given their product, and its weight, given the `lse` of the
/// query.
#[cube]
pub(super) fn weight<E: Float>(
    product: f32,
    lse: f32,
    bias: ComptimeOption<&[E]>,
    at: usize,
    numbers: &Numbers,
    #[comptime] is_capped: bool,
) -> (f32, f32) {
    let within = capped(product * numbers.scale, numbers.cap, is_capped);
    (within, (biased(within, bias, at) - lse).exp())
}

/// Returns the slope of a capped score.
#[cube]
pub(super) fn slope(capped: f32, cap: f32, #[comptime] is_capped: bool) -> f32 {
    if comptime!(is_capped) {
        let part = capped / cap;
        1.0f32 - part * part
    } else {
        1.0f32.runtime()
    }
}
