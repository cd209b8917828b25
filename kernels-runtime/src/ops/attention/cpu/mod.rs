//! Attention on Flex: blocks of scores that stay in the cache.
//!
//! A block has up to [`QUERIES`] queries and [`KEYS`] keys. Queries are the lanes of its vectors: the scores of a block
//! are kept transposed, one line for each key, so keys and values are read in place, and the maximum and sum over keys
//! are those of whole vectors. Only the queries, few at a time, are transposed first. Blocks that no query sees are
//! skipped, and so are the lanes at the edges of a block that see none of its keys.
//!
//! Where the machine has AMX, blocks are multiplied in its tiles ([`tiles`], [`gradient_tiles`]). Numbers of f32 are in three
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
mod tiles;
mod units;
mod view;

use super::autodiff::{Gradients, Tensors};
use super::{AttentionBackend, AttentionKernel, Backward};
use crate::cpu::{BASE, dispatch_dtype};
use crate::ops::operands::checked;
use crate::registry::{Implementation, Launch};
use crate::semantics::SemanticsKey;
use burn::backend::Flex;
use burn::backend::flex::FlexTensor;

pub(super) const IMPLEMENTATION: Implementation = Implementation {
    launch: Launch::Attention(super::launch),
    accepts: |key| matches!(key, SemanticsKey::Attention(_)),
    ..BASE
};

/// The number of queries of a block: two tiles of products in f32 under AVX-512.
const QUERIES: usize = 96;

/// The number of keys of a block, and that of blocks in bf16 in tiles, whose sums are read and written once for each block.
const KEYS: usize = 64;
const KEYS_OF_TILES: usize = 128;

impl AttentionBackend for Flex {
    fn attention(operands: Tensors<Self>) -> FlexTensor {
        Self::attention_forward(operands).0
    }
}

impl AttentionKernel for Flex {
    fn attention_forward(operands: Tensors<Self>) -> (FlexTensor, FlexTensor) {
        dispatch_dtype!(checked(operands.dtype()), T => forward::forward::<T>(&operands))
    }

    fn attention_backward(backward: Backward<FlexTensor>) -> Gradients<FlexTensor> {
        let dtype = checked(backward.operands().dtype());
        dispatch_dtype!(dtype, T => backward::backward::<T>(&backward))
    }
}
