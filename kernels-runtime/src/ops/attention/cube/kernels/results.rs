//! The forward pass: the result, of blocks whose rows are queries, and what it begins with.

use super::block::{STAGE, add_weighted, no_sums, products, rows_of_keys, rows_of_queries, write};
use super::{
    ACROSS, COLUMNS, EACH, Form, Four, Numbers, bias_of, biased, capped, index_of, place_of,
};
use crate::gpu::parts::{at_least, shrinkage};
use burn_cubecl::cubecl;
use burn_cubecl::cubecl::prelude::*;

/// The least finite number in f32, at which running maxima start. Differences to it are not NaN, as those of two negative
/// infinities are.
const LEAST: f32 = f32::MIN;

/// Writes the sink of its head in the place of each query's `lse`, for [`forward`] to begin with, so that the result is rounded
/// once. A unit writes one.
#[cube(launch_unchecked)]
pub(in super::super) fn sinks_first<E: Float>(
    sinks: &[E],
    lse: &mut [f32],
    heads: usize,
    queries: usize,
    count: usize,
    #[define(E)] _element: ElemType,
) {
    let i = ABSOLUTE_POS;
    if i >= count {
        terminate!();
    }
    lse[i] = f32::cast_from(sinks[i / queries % heads]);
}

/// Writes the result of a block of queries, and their `lse`, in whose place are [their sinks](sinks_first) before, if there are
/// any. `ranges` has the first key that each query of a sequence sees and the end of those, neither of which decreases from one
/// query to the next.
#[cube(launch_unchecked)]
pub(in super::super) fn forward<E: Float, N: Size>(
    q: &Tensor<Vector<E, N>>,
    k: &Tensor<Vector<E, N>>,
    v: &Tensor<Vector<E, N>>,
    bias: ComptimeOption<&[E]>,
    ranges: &[u32],
    y: &mut [Vector<E, N>],
    lse: &mut [f32],
    numbers: &Numbers,
    #[comptime] form: Form,
    #[comptime] has_sinks: bool,
    #[define(E)] _element: ElemType,
) {
    let group = comptime!(form.group);
    let lines = comptime!(form.lines);
    let rows = numbers.queries * group;
    let place = place_of(numbers, rows, comptime!(form.rows()));
    if place.sequence >= numbers.sequences {
        terminate!();
    }
    let size = N::value();
    let mut shared = Shared::<[Vector<f32, N>]>::new_slice(comptime!(STAGE / size));
    let mut weights = Shared::<[Vector<f32, Four>]>::new_slice(comptime!(COLUMNS * lines));
    let line = UNIT_POS as usize / ACROSS;
    let across = UNIT_POS as usize % ACROSS;
    let of_sequence = place.sequence * numbers.ranges;
    let last = min(place.first + comptime!(form.rows()), rows) - 1;
    let begin = ranges[of_sequence + place.first / group * 2] as usize;
    let end = ranges[of_sequence + last / group * 2 + 1] as usize;
    // The keys that the unit's rows see, and where their biases are.
    let mut starts = Array::<usize>::new(EACH);
    let mut ends = Array::<usize>::new(EACH);
    let mut biases = Array::<usize>::new(EACH);
    #[unroll]
    for i in 0..EACH {
        let row = place.first + line * EACH + i;
        starts[i] = 0;
        ends[i] = 0;
        biases[i] = 0;
        if row < rows {
            starts[i] = ranges[of_sequence + row / group * 2] as usize;
            ends[i] = ranges[of_sequence + row / group * 2 + 1] as usize;
            if comptime!(bias.is_some()) {
                biases[i] = bias_of(&place, row, numbers, group);
            }
        }
    }
    let q_rows = rows_of_queries(&place, &numbers.q, numbers.queries, numbers.vectors, group);
    let k_rows = rows_of_keys(&place, &numbers.k, end, numbers.vectors);
    let v_rows = rows_of_keys(&place, &numbers.v, end, numbers.value_vectors);
    let mut scores = Array::<f32>::new(comptime!(2 * EACH));
    let mut sums = no_sums::<N>(comptime!(form.value_parts));
    // The largest score so far, and this unit's sum of the exponentials of the differences to it.
    let mut largest = Vector::<f32, Four>::new(LEAST);
    let mut sum = Vector::<f32, Four>::new(0.0);
    if comptime!(has_sinks) {
        #[unroll]
        for i in 0..EACH {
            let row = place.first + line * EACH + i;
            if row < rows {
                let sink = lse[index_of(&place, row, numbers, group)];
                let start = select(sink < LEAST, LEAST, sink);
                largest.insert(i, start);
                if across == 0 {
                    sum.insert(i, (sink - start).exp());
                }
            }
        }
    }
    let mut key = begin;
    while key < end {
        products(
            q,
            &q_rows,
            place.first,
            k,
            &k_rows,
            key,
            &mut scores,
            &mut shared,
            lines,
        );
        #[unroll]
        for c in 0..2usize {
            let column = across + comptime!(c * ACROSS);
            let mut of_rows = Vector::<f32, Four>::new(LEAST);
            #[unroll]
            for i in 0..EACH {
                if key + column >= starts[i] && key + column < ends[i] {
                    let score = scores[comptime!(c * EACH + i)] * numbers.scale;
                    let score = capped(score, numbers.cap, comptime!(form.is_capped));
                    of_rows.insert(i, biased(score, bias, biases[i] + key + column));
                }
            }
            weights[column * lines + line] = of_rows;
        }
        sync_cube();
        let mut next = largest;
        for column in 0..COLUMNS {
            next = at_least(weights[column * lines + line], next);
        }
        sync_cube();
        let shrink = shrinkage(largest, next);
        largest = next;
        sum *= shrink;
        #[unroll]
        for c in 0..2usize {
            let column = across + comptime!(c * ACROSS);
            // This unit's own scores, which wait there so that registers hold the sums.
            let exponentials = (weights[column * lines + line] - next).exp();
            let mut of_rows = Vector::<f32, Four>::new(0.0);
            #[unroll]
            for i in 0..EACH {
                if key + column >= starts[i] && key + column < ends[i] {
                    of_rows.insert(i, exponentials.extract(i));
                }
            }
            weights[column * lines + line] = of_rows;
            sum += of_rows;
        }
        #[unroll]
        for i in 0..comptime!(form.value_parts * EACH) {
            sums[i] *= Vector::new(shrink.extract(comptime!(i % EACH)));
        }
        add_weighted(
            &weights,
            v,
            &v_rows,
            key,
            &mut sums,
            &mut shared,
            comptime!(form.value_parts),
            lines,
        );
        key += COLUMNS;
    }
    sync_cube();
    weights[across * lines + line] = sum;
    sync_cube();
    let mut total = Vector::<f32, Four>::new(0.0);
    for unit in 0..ACROSS {
        total += weights[unit * lines + line];
    }
    let mut factors = Vector::<f32, Four>::new(0.0);
    #[unroll]
    for i in 0..EACH {
        let row = place.first + line * EACH + i;
        let of_row = total.extract(i);
        if of_row != 0.0 {
            factors.insert(i, 1.0 / of_row);
        }
        if across == 0 && row < rows {
            let logarithm = largest.extract(i) + of_row.ln();
            let at = index_of(&place, row, numbers, group);
            lse[at] = select(of_row == 0.0, numbers.nothing, logarithm);
        }
    }
    let y_rows = rows_of_queries(
        &place,
        &numbers.y,
        numbers.queries,
        numbers.value_vectors,
        group,
    );
    write(
        &sums,
        factors,
        &y_rows,
        place.first,
        y,
        0,
        comptime!(form.value_parts),
    );
}
