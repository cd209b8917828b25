//! Attention on GPUs: blocks of scores in shared memory, with products by plain multiplications and additions in f32.
//!
//! | pass | kernels | products of a pair of query and key |
//! |---|---|---|
//! | forward | with sinks [`kernels::sinks_first`]; [`kernels::forward`] | 2 |
//! | backward | [`kernels::row_statistics`], [`kernels::query_gradients`] for dq, [`kernels::key_gradients`] for dk and dv; with sinks [`kernels::sink_gradients`] | 7 |
//! | backward in half types | the same, but [`kernels::statistics_without_sums`] and [`kernels::sums_along`] for the statistics | 9 |
//!
//! A cube has a block of up to 64 queries, those of all heads that share keys, and goes over the keys that they see, 32 at a
//! time. Rows are read as vectors, a part of each at a time, into shared memory, from where the units multiply them in tiles of
//! 4 × 2 scores. The results stay in registers. The gradients of keys and values have a kernel of their own, in which blocks
//! of up to 64 keys go over the queries that see them, so that no two cubes add to one number.
//!
//! **Ranges.** Every query sees consecutive keys, whatever mask, window and lengths are. The host computes where they begin and
//! end, and kernels skip the rest. Where they are floats, among the [statistics](kernels::row_statistics) of a query,
//! they have at most 24 bits.
//!
//! **Half types.** Rows are widened where they are staged. Scores, weights and all sums are in f32, and what is written is
//! rounded once.
//!
//! **Limits.** Heads are at most [`WIDEST`] elements wide. Queries, keys and values may have any strides if the elements of a
//! row are adjacent. Others are copied first. A bias has no gradient here: a call with a tracked bias takes the reference.

mod call;
mod gradients;
mod kernels;

use super::{Attention, Each, Launch, Operands};
use crate::gpu::{BASE, MOST_ELEMENTS, OnGpu, indexable};
use crate::ops::fused::{Backward, BackwardOn, Made, OpLaunch, Tensors};
use crate::reason::Reason;
use crate::registry::{self, Implementation};
use crate::semantics::{AttentionBias, AttentionKey, HeadLayout, SemanticsKey};
use burn::backend::{Cube, Dispatch, DispatchTensor, Shape, TensorMetadata};
use burn_cubecl::tensor::CubeTensor;
use call::Call;

/// The largest number of elements of a row of keys or values. Units hold their sums in registers.
const WIDEST: usize = 256;

/// The number of statistics of a query.
const STATISTICS: usize = 4;

/// The largest number of keys. Statistics hold it in f32.
const MOST_KEYS: usize = 1 << 24;

pub(super) const IMPLEMENTATION: Implementation = Implementation {
    launch: registry::Launch::Attention(Launch(OpLaunch::of::<Attention, Cube>())),
    accepts: |key| matches!(key, SemanticsKey::Attention(_)),
    limits: Some(|key, tensors| within_limits(key.known(), tensors)),
    ..BASE
};

/// Returns the reason why kernels don't take the tensors, if they don't.
fn within_limits(key: AttentionKey, tensors: &[&DispatchTensor]) -> Result<(), Reason> {
    indexable(tensors)?;
    let shapes = [0, 1, 2].map(|tensor| tensors[tensor].shape());
    if !fits(shapes, key.layout) {
        return Err(Reason::Shape);
    }
    let has_bias = key.bias == AttentionBias::Additive;
    match has_bias && Dispatch::is_tracked(tensors[3]) {
        true => Err(Reason::NoGradient),
        false => Ok(()),
    }
}

/// Returns whether queries, keys and values of these shapes are within the kernels' limits.
fn fits([q, k, v]: [Shape; 3], layout: HeadLayout) -> bool {
    let keys = match layout {
        HeadLayout::Bnsd => k[2],
        HeadLayout::Bsnd => k[1],
    };
    let (width, value_width) = (q[3], v[3]);
    let rows = q[0] * q[1] * q[2];
    let of_rows = rows.saturating_mul(value_width.max(STATISTICS));
    let of_keys = k.num_elements() + v.num_elements();
    width.max(value_width) <= WIDEST
        && (width > 0 || value_width == 0)
        && keys <= MOST_KEYS
        && of_rows.max(of_keys) <= MOST_ELEMENTS
}

/// Panics if the sizes of a call that nobody [decided](within_limits) are beyond the limits.
fn assert_fits(operands: &Tensors<Attention, Cube>) {
    let shapes = [operands.q(), operands.k(), operands.v()].map(TensorMetadata::shape);
    let [q, k, v] = shapes.each_ref().map(|shape| shape.as_slice());
    assert!(
        fits(shapes.clone(), operands.key().layout),
        "attention: kernels for GPUs don't take queries {q:?}, keys {k:?} and values {v:?}"
    );
}

impl OnGpu for Attention {
    fn prepared(operands: Tensors<Self, Cube>) -> Tensors<Self, Cube> {
        assert_fits(&operands);
        operands
    }

    fn check_backward(backward: &BackwardOn<Self, Cube>) {
        assert!(
            !backward.wanted().bias,
            "kernels for GPUs have no gradient of a bias"
        );
    }

    fn forward(operands: Operands<CubeTensor>, _: Option<&Each<bool>>) -> Made<CubeTensor> {
        let [y, lse] = Call::new(operands).forward();
        Made::new(y.clone()).saving([y, lse])
    }

    fn backward(backward: Backward<Self, CubeTensor>) -> Each<Option<CubeTensor>> {
        gradients::gradients(backward)
    }
}
