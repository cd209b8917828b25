//! The kernel whose rows are keys: the gradients of keys and values.

use super::block::{STAGE, add_weighted, no_sums, products, rows_of_keys, rows_of_queries, write};
use super::{
    ACROSS, COLUMNS, EACH, Form, Four, Numbers, Place, bias_of, index_of, place_of, slope, weight,
};
use burn_cubecl::cubecl;
use burn_cubecl::cubecl::prelude::*;

/// Writes the gradients of a block of keys and of their values: `gradients` has those of all keys first, and those of the
/// values from `of_values` on.
#[cube(launch_unchecked)]
pub(in super::super) fn key_gradients<E: Float, N: Size>(
    q: &Tensor<Vector<E, N>>,
    k: &Tensor<Vector<E, N>>,
    v: &Tensor<Vector<E, N>>,
    dy: &Tensor<Vector<E, N>>,
    statistics: &[Vector<f32, Four>],
    bias: ComptimeOption<&[E]>,
    gradients: &mut [Vector<E, N>],
    of_values: usize,
    numbers: &Numbers,
    #[comptime] form: Form,
    #[define(E)] _element: ElemType,
) {
    let group = comptime!(form.group);
    let lines = comptime!(form.lines);
    let rows = numbers.queries * group;
    let place = place_of(numbers, numbers.keys, comptime!(form.rows()));
    if place.sequence >= numbers.sequences {
        terminate!();
    }
    let size = N::value();
    let mut shared = Shared::<[Vector<f32, N>]>::new_slice(comptime!(STAGE / size));
    let mut weights = Shared::<[Vector<f32, Four>]>::new_slice(comptime!(COLUMNS * lines));
    let line = UNIT_POS as usize / ACROSS;
    let across = UNIT_POS as usize % ACROSS;
    let q_rows = rows_of_queries(&place, &numbers.q, numbers.queries, numbers.vectors, group);
    let dy_rows = rows_of_queries(
        &place,
        &numbers.dy,
        numbers.queries,
        numbers.value_vectors,
        group,
    );
    let k_rows = rows_of_keys(&place, &numbers.k, numbers.keys, numbers.vectors);
    let v_rows = rows_of_keys(&place, &numbers.v, numbers.keys, numbers.value_vectors);
    let first_key = place.first + line * EACH;
    let first = f32::cast_from(first_key);
    let mut scores = Array::<f32>::new(comptime!(2 * EACH));
    let mut slopes = Array::<f32>::new(comptime!(2 * EACH));
    let mut of_keys = no_sums::<N>(comptime!(form.parts));
    let mut sums = no_sums::<N>(comptime!(form.value_parts));
    let behind = min(place.first + comptime!(form.rows()), numbers.keys);
    let end = first_query(statistics, &place, behind, numbers, 2usize, group) * group;
    let mut row = first_query(statistics, &place, place.first + 1, numbers, 3usize, group) * group;
    while row < end {
        products(
            k,
            &k_rows,
            place.first,
            q,
            &q_rows,
            row,
            &mut scores,
            &mut shared,
            lines,
        );
        let mut within = Array::<Vector<f32, Four>>::new(2usize);
        #[unroll]
        for c in 0..2usize {
            let column = across + comptime!(c * ACROSS);
            let mut of_query = Vector::<f32, Four>::new(0.0);
            let mut of_bias = 0usize;
            if row + column < rows {
                of_query = statistics[index_of(&place, row + column, numbers, group)];
                if comptime!(bias.is_some()) {
                    of_bias = bias_of(&place, row + column, numbers, group) + first_key;
                }
            }
            // The keys that the query sees, counted from the first one of the line: one number in a register, not one a key.
            let begin = of_query.extract(2usize) - first;
            let end = of_query.extract(3usize) - first;
            let mut caps = Vector::<f32, Four>::new(0.0);
            let mut p = Vector::<f32, Four>::new(0.0);
            #[unroll]
            for i in 0..EACH {
                let at = comptime!(i as f32);
                if begin <= at && end > at {
                    let (score, of_key) = weight(
                        scores[comptime!(c * EACH + i)],
                        of_query.extract(0usize),
                        bias,
                        of_bias + i,
                        numbers,
                        comptime!(form.is_capped),
                    );
                    caps.insert(i, score);
                    p.insert(i, of_key);
                }
            }
            weights[column * lines + line] = p;
            within[c] = caps;
        }
        add_weighted(
            &weights,
            dy,
            &dy_rows,
            row,
            &mut sums,
            &mut shared,
            comptime!(form.value_parts),
            lines,
        );
        products(
            v,
            &v_rows,
            place.first,
            dy,
            &dy_rows,
            row,
            &mut slopes,
            &mut shared,
            lines,
        );
        #[unroll]
        for c in 0..2usize {
            let column = across + comptime!(c * ACROSS);
            let mut along = 0.0f32;
            if row + column < rows {
                along = statistics[index_of(&place, row + column, numbers, group)].extract(1usize);
            }
            // The unit's own weights, still in shared memory: registers hold the sums.
            let p = weights[column * lines + line];
            let mut ds = p;
            #[unroll]
            for i in 0..EACH {
                let d = slopes[comptime!(c * EACH + i)] - along;
                let d = d * slope(within[c].extract(i), numbers.cap, comptime!(form.is_capped));
                // A product with zero is not zero for what a hidden pair holds.
                let p = p.extract(i);
                ds.insert(i, select(p == 0.0, 0.0, p * d));
            }
            weights[column * lines + line] = ds;
        }
        add_weighted(
            &weights,
            q,
            &q_rows,
            row,
            &mut of_keys,
            &mut shared,
            comptime!(form.parts),
            lines,
        );
        row += COLUMNS;
    }
    let scale = Vector::new(numbers.scale);
    let dk_rows = rows_of_keys(&place, &numbers.dk, numbers.keys, numbers.vectors);
    write(
        &of_keys,
        scale,
        &dk_rows,
        place.first,
        gradients,
        0,
        comptime!(form.parts),
    );
    let one = Vector::new(1.0);
    let dv_rows = rows_of_keys(&place, &numbers.dv, numbers.keys, numbers.value_vectors);
    write(
        &sums,
        one,
        &dv_rows,
        place.first,
        gradients,
        of_values,
        comptime!(form.value_parts),
    );
}

/// Returns the first query whose range has a start (2) or an end (3) of at least `least`, or the number of queries.
#[cube]
fn first_query(
    statistics: &[Vector<f32, Four>],
    place: &Place,
    least: usize,
    numbers: &Numbers,
    #[comptime] side: usize,
    #[comptime] group: usize,
) -> usize {
    let least = f32::cast_from(least);
    let mut low = 0usize;
    let mut high = numbers.queries;
    while low < high {
        let middle = (low + high) / 2;
        let of_middle = statistics[index_of(place, middle * group, numbers, group)];
        if of_middle.extract(side) >= least {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    low
}
