//! The kernel whose rows are keys: the gradients of keys and values.

use super::block::{STAGE, add_weighted, no_sums, products, rows_of_keys, rows_of_queries, write};
use super::{
    ACROSS, COLUMNS, EACH, Form, Four, Numbers, Place, bias_of, capped, index_of, place_of, slope,
};
use burn_cubecl::cubecl;
use burn_cubecl::cubecl::prelude::*;

/// Writes the gradients of a block of keys and of their values: `gradients` has those of all keys first, and those of the
/// values from `of_values` on.
#[cube(launch_unchecked)]
pub(in super::super) fn key_gradients<N: Size>(
    q: &Tensor<Vector<f32, N>>,
    k: &Tensor<Vector<f32, N>>,
    v: &Tensor<Vector<f32, N>>,
    dy: &Tensor<Vector<f32, N>>,
    statistics: &[Vector<f32, Four>],
    bias: ComptimeOption<&[f32]>,
    gradients: &mut [Vector<f32, N>],
    of_values: usize,
    numbers: &Numbers,
    #[comptime] form: Form,
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
    let mut scores = no_sums::<N>(2usize);
    let mut slopes = no_sums::<N>(2usize);
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
        let mut own = Array::<Vector<f32, Four>>::new(2usize);
        #[unroll]
        for c in 0..2usize {
            let column = across + comptime!(c * ACROSS);
            let mut of_query = Vector::<f32, Four>::new(0.0);
            let mut of_bias = 0usize;
            if row + column < rows {
                of_query = statistics[index_of(&place, row + column, numbers, group)];
                if comptime!(bias.is_some()) {
                    of_bias = bias_of(&place, row + column, numbers, group);
                }
            }
            let mut caps = Vector::<f32, Four>::new(0.0);
            let mut p = Vector::<f32, Four>::new(0.0);
            #[unroll]
            for i in 0..EACH {
                let key = place.first + line * EACH + i;
                let at = f32::cast_from(key);
                if at >= of_query.extract(2usize) && at < of_query.extract(3usize) {
                    let score = scores[comptime!(c * EACH + i)].vector_sum() * numbers.scale;
                    let mut score = capped(score, numbers.cap, comptime!(form.is_capped));
                    caps.insert(i, score);
                    if comptime!(bias.is_some()) {
                        let bias: &[f32] = bias.unwrap();
                        score += bias[of_bias + key];
                    }
                    p.insert(i, (score - of_query.extract(0usize)).exp());
                }
            }
            weights[column * lines + line] = p;
            within[c] = caps;
            own[c] = p;
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
            let mut ds = own[c];
            #[unroll]
            for i in 0..EACH {
                let d = slopes[comptime!(c * EACH + i)].vector_sum() - along;
                let d = d * slope(within[c].extract(i), numbers.cap, comptime!(form.is_capped));
                // A product with zero is not zero for what a hidden pair holds.
                let p = own[c].extract(i);
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
