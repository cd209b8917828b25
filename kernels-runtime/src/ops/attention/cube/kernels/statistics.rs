//! The kernels of single rows of queries: what the backward pass knows of them, and what sinks take of it.

use super::{Four, Numbers};
use crate::gpu::elements::wide;
use crate::gpu::parts::sum_of_cube;
use burn_cubecl::cubecl;
use burn_cubecl::cubecl::prelude::*;

/// Writes the statistics of one query: its `lse`, the product of its result and the result's gradient, the first key that it
/// sees and the end of those. The last two are whole numbers of at most 24 bits.
#[cube(launch_unchecked)]
pub(in super::super) fn row_statistics<E: Float, N: Size>(
    y: &Tensor<Vector<E, N>>,
    dy: &Tensor<Vector<E, N>>,
    lse: &[f32],
    ranges: &[u32],
    statistics: &mut [Vector<f32, Four>],
    numbers: &Numbers,
    #[comptime] group: usize,
    #[comptime] units: usize,
    #[define(E)] _element: ElemType,
) {
    let heads = numbers.kv_heads * group;
    let row = CUBE_POS;
    if row >= numbers.sequences * heads * numbers.queries {
        terminate!();
    }
    let (head, query) = (row / numbers.queries % heads, row % numbers.queries);
    let sequence = row / numbers.queries / heads;
    let in_y = sequence * numbers.y.sequence + head * numbers.y.head + query * numbers.y.position;
    let in_dy =
        sequence * numbers.dy.sequence + head * numbers.dy.head + query * numbers.dy.position;
    let mut sum = Vector::<f32, N>::new(0.0);
    let mut at = UNIT_POS as usize;
    while at < numbers.value_vectors {
        sum += wide(y[in_y + at]) * wide(dy[in_dy + at]);
        at += units;
    }
    let along = sum_of_cube(sum.vector_sum(), units);
    if UNIT_POS == 0 {
        let of_range = sequence * numbers.ranges + query * 2;
        statistics[row] = statistics_of(lse[row], along, ranges, of_range);
    }
}

/// Writes the statistics of one query but for [its sum along the result](super::sums_along). A unit writes those of one.
#[cube(launch_unchecked)]
pub(in super::super) fn statistics_without_sums(
    lse: &[f32],
    ranges: &[u32],
    statistics: &mut [Vector<f32, Four>],
    numbers: &Numbers,
    #[comptime] group: usize,
) {
    let heads = numbers.kv_heads * group;
    let row = ABSOLUTE_POS;
    if row >= numbers.sequences * heads * numbers.queries {
        terminate!();
    }
    let sequence = row / numbers.queries / heads;
    let of_range = sequence * numbers.ranges + row % numbers.queries * 2;
    statistics[row] = statistics_of(lse[row], 0.0, ranges, of_range);
}

/// Returns the statistics of a query.
#[cube]
fn statistics_of(lse: f32, along: f32, ranges: &[u32], of_range: usize) -> Vector<f32, Four> {
    let mut found = Vector::<f32, Four>::new(0.0);
    // A query that sees no key, or none with a finite score, has no weights: they are below zero's exponential.
    found.insert(0usize, select(lse < f32::MIN, f32::MAX, lse));
    found.insert(1usize, along);
    found.insert(2usize, f32::cast_from(ranges[of_range]));
    found.insert(3usize, f32::cast_from(ranges[of_range + 1]));
    found
}

/// Writes the gradient of the sink of one head.
#[cube(launch_unchecked)]
pub(in super::super) fn sink_gradients<E: Float>(
    sinks: &[E],
    statistics: &[Vector<f32, Four>],
    gradients: &mut [E],
    numbers: &Numbers,
    #[comptime] group: usize,
    #[comptime] units: usize,
    #[define(E)] _element: ElemType,
) {
    let heads = numbers.kv_heads * group;
    let head = CUBE_POS;
    if head >= heads {
        terminate!();
    }
    let sink = f32::cast_from(sinks[head]);
    let mut sum = 0.0f32;
    let mut at = UNIT_POS as usize;
    while at < numbers.sequences * numbers.queries {
        let (sequence, query) = (at / numbers.queries, at % numbers.queries);
        let of_query = statistics[(sequence * heads + head) * numbers.queries + query];
        sum -= (sink - of_query.extract(0usize)).exp() * of_query.extract(1usize);
        at += units;
    }
    let sum = sum_of_cube(sum, units);
    if UNIT_POS == 0 {
        gradients[head] = E::cast_from(sum);
    }
}
