//! The kernels of single rows of queries: what sinks do to them, and what the backward pass knows of them.

use super::{Four, Numbers};
use crate::gpu::parts::sum_of_cube;
use burn_cubecl::cubecl;
use burn_cubecl::cubecl::prelude::*;

/// Adds the sink of its head to the sum of one query: to its result and its `lse`, in place.
#[cube(launch_unchecked)]
pub(in super::super) fn add_sinks<N: Size>(
    sinks: &[f32],
    y: &mut [Vector<f32, N>],
    lse: &mut [f32],
    numbers: &Numbers,
    #[comptime] group: usize,
    #[comptime] units: usize,
) {
    let heads = numbers.kv_heads * group;
    let row = CUBE_POS;
    if row >= numbers.sequences * heads * numbers.queries {
        terminate!();
    }
    let (head, query) = (row / numbers.queries % heads, row % numbers.queries);
    let sequence = row / numbers.queries / heads;
    let (sink, without) = (sinks[head], lse[row]);
    // The logarithm of the sum of both exponentials, none of which is infinite.
    let (least, most) = (min(sink, without), max(sink, without));
    let with = most + (1.0 + (least - most).exp()).ln();
    let factor = Vector::new((without - with).exp());
    // All units have read it.
    sync_cube();
    if UNIT_POS == 0 {
        lse[row] = with;
    }
    let start = sequence * numbers.y.sequence + head * numbers.y.head + query * numbers.y.position;
    let mut at = UNIT_POS as usize;
    while at < numbers.value_vectors {
        y[start + at] *= factor;
        at += units;
    }
}

/// Writes the statistics of one query: its `lse`, the product of its result and the result's gradient, the first key that it
/// sees and the end of those. The last two are whole numbers of at most 24 bits.
#[cube(launch_unchecked)]
pub(in super::super) fn row_statistics<N: Size>(
    y: &Tensor<Vector<f32, N>>,
    dy: &Tensor<Vector<f32, N>>,
    lse: &[f32],
    ranges: &[u32],
    statistics: &mut [Vector<f32, Four>],
    numbers: &Numbers,
    #[comptime] group: usize,
    #[comptime] units: usize,
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
        sum += y[in_y + at] * dy[in_dy + at];
        at += units;
    }
    let along = sum_of_cube(sum.vector_sum(), units);
    if UNIT_POS == 0 {
        let of_range = sequence * numbers.ranges + query * 2;
        let l = lse[row];
        let mut found = Vector::<f32, Four>::new(0.0);
        // A query that sees no key, or none with a finite score, has no weights: they are below zero's exponential.
        found.insert(0usize, select(l < f32::MIN, f32::MAX, l));
        found.insert(1usize, along);
        found.insert(2usize, f32::cast_from(ranges[of_range]));
        found.insert(3usize, f32::cast_from(ranges[of_range + 1]));
        statistics[row] = found;
    }
}

/// Writes the gradient of the sink of one head.
#[cube(launch_unchecked)]
pub(in super::super) fn sink_gradients(
    sinks: &[f32],
    statistics: &[Vector<f32, Four>],
    gradients: &mut [f32],
    numbers: &Numbers,
    #[comptime] group: usize,
    #[comptime] units: usize,
) {
    let heads = numbers.kv_heads * group;
    let head = CUBE_POS;
    if head >= heads {
        terminate!();
    }
    let mut sum = 0.0f32;
    let mut at = UNIT_POS as usize;
    while at < numbers.sequences * numbers.queries {
        let (sequence, query) = (at / numbers.queries, at % numbers.queries);
        let of_query = statistics[(sequence * heads + head) * numbers.queries + query];
        sum -= (sinks[head] - of_query.extract(0usize)).exp() * of_query.extract(1usize);
        at += units;
    }
    let sum = sum_of_cube(sum, units);
    if UNIT_POS == 0 {
        gradients[head] = sum;
    }
}
