//! The kernels of the backward pass whose rows are queries: the sums along their results, and their gradients.

use super::block::{
    Rows, STAGE, add_weighted, no_sums, products, rows_of_keys, rows_of_queries, write,
};
use super::{
    ACROSS, COLUMNS, EACH, Form, Four, Numbers, Place, bias_of, index_of, place_of, slope, weight,
};
use burn_cubecl::cubecl;
use burn_cubecl::cubecl::prelude::*;

/// A block of queries, as a unit of its cube reads it.
#[derive(CubeType)]
struct Block {
    /// The first key that a query of the block sees, and the end of those.
    begin: usize,
    end: usize,
    /// The statistics of the rows of the unit's line. Those behind the last row see nothing.
    statistics: Array<Vector<f32, Four>>,
    /// The places of the biases of these rows and the first key.
    biases: Array<usize>,
    q: Rows,
    k: Rows,
    v: Rows,
    dy: Rows,
}

/// Returns the block of a cube.
#[cube]
fn block_at(
    place: &Place,
    statistics: &[Vector<f32, Four>],
    numbers: &Numbers,
    #[comptime] form: Form,
    #[comptime] has_bias: bool,
) -> Block {
    let group = comptime!(form.group);
    let rows = numbers.queries * group;
    let last = min(place.first + comptime!(form.rows()), rows) - 1;
    let of_first = statistics[index_of(place, place.first, numbers, group)];
    let of_last = statistics[index_of(place, last, numbers, group)];
    let begin = usize::cast_from(of_first.extract(2usize));
    let end = usize::cast_from(of_last.extract(3usize));
    let line = UNIT_POS as usize / ACROSS;
    let mut of_rows = Array::<Vector<f32, Four>>::new(EACH);
    let mut biases = Array::<usize>::new(EACH);
    #[unroll]
    for i in 0..EACH {
        let row = place.first + line * EACH + i;
        of_rows[i] = Vector::new(0.0);
        biases[i] = 0;
        if row < rows {
            of_rows[i] = statistics[index_of(place, row, numbers, group)];
            if comptime!(has_bias) {
                biases[i] = bias_of(place, row, numbers, group);
            }
        }
    }
    let (queries, vectors, value_vectors) =
        (numbers.queries, numbers.vectors, numbers.value_vectors);
    Block {
        begin,
        end,
        statistics: of_rows,
        biases,
        q: rows_of_queries(place, &numbers.q, queries, vectors, group),
        k: rows_of_keys(place, &numbers.k, end, vectors),
        v: rows_of_keys(place, &numbers.v, end, value_vectors),
        dy: rows_of_queries(place, &numbers.dy, queries, value_vectors, group),
    }
}

/// Writes the products of a unit's pairs in the places of its weights in shared memory, where no other unit reads them: registers
/// hold the sums.
#[cube]
fn put_aside(products: &Array<f32>, weights: &mut [Vector<f32, Four>], #[comptime] lines: usize) {
    let line = UNIT_POS as usize / ACROSS;
    let across = UNIT_POS as usize % ACROSS;
    #[unroll]
    for c in 0..2usize {
        let mut of_column = Vector::<f32, Four>::new(0.0);
        #[unroll]
        for i in 0..EACH {
            of_column.insert(i, products[comptime!(c * EACH + i)]);
        }
        weights[(across + comptime!(c * ACROSS)) * lines + line] = of_column;
    }
}

/// Writes the statistics of a block of queries with their sums along the results, `Σ dy · y`, as sums `Σ p · (dy · v)`. A result
/// of a half type is rounded, and where the terms of a gradient cancel, that would be most of its error.
#[cube(launch_unchecked)]
pub(in super::super) fn sums_along<E: Float, N: Size>(
    q: &Tensor<Vector<E, N>>,
    k: &Tensor<Vector<E, N>>,
    v: &Tensor<Vector<E, N>>,
    dy: &Tensor<Vector<E, N>>,
    statistics: &[Vector<f32, Four>],
    bias: ComptimeOption<&[E]>,
    with_sums: &mut [Vector<f32, Four>],
    numbers: &Numbers,
    #[comptime] form: Form,
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
    let block = block_at(&place, statistics, numbers, form, comptime!(bias.is_some()));
    let mut scores = Array::<f32>::new(comptime!(2 * EACH));
    let mut slopes = Array::<f32>::new(comptime!(2 * EACH));
    let mut sum = Vector::<f32, Four>::new(0.0);
    let mut key = block.begin;
    while key < block.end {
        products(
            dy,
            &block.dy,
            place.first,
            v,
            &block.v,
            key,
            &mut slopes,
            &mut shared,
            lines,
        );
        if comptime!(form.puts_aside) {
            put_aside(&slopes, &mut weights, lines);
        }
        products(
            q,
            &block.q,
            place.first,
            k,
            &block.k,
            key,
            &mut scores,
            &mut shared,
            lines,
        );
        #[unroll]
        for c in 0..2usize {
            let column = across + comptime!(c * ACROSS);
            let at = f32::cast_from(key + column);
            let aside = weights[column * lines + line];
            let mut of_column = Vector::<f32, Four>::new(0.0);
            #[unroll]
            for i in 0..EACH {
                let row = block.statistics[i];
                if at >= row.extract(2usize) && at < row.extract(3usize) {
                    let (_, p) = weight(
                        scores[comptime!(c * EACH + i)],
                        row.extract(0usize),
                        bias,
                        block.biases[i] + key + column,
                        numbers,
                        comptime!(form.is_capped),
                    );
                    let mut d = slopes[comptime!(c * EACH + i)];
                    if comptime!(form.puts_aside) {
                        d = aside.extract(i);
                    }
                    of_column.insert(i, p * d);
                }
            }
            sum += of_column;
        }
        key += COLUMNS;
    }
    weights[across * lines + line] = sum;
    sync_cube();
    if across == 0 {
        let mut total = Vector::<f32, Four>::new(0.0);
        for unit in 0..ACROSS {
            total += weights[unit * lines + line];
        }
        #[unroll]
        for i in 0..EACH {
            let row = place.first + line * EACH + i;
            if row < rows {
                let mut found = block.statistics[i];
                found.insert(1usize, total.extract(i));
                with_sums[index_of(&place, row, numbers, group)] = found;
            }
        }
    }
}

/// Writes the gradient of a block of queries. `statistics` has those of each query, as
/// [`row_statistics`](super::row_statistics) or [`sums_along`] make them.
#[cube(launch_unchecked)]
pub(in super::super) fn query_gradients<E: Float, N: Size>(
    q: &Tensor<Vector<E, N>>,
    k: &Tensor<Vector<E, N>>,
    v: &Tensor<Vector<E, N>>,
    dy: &Tensor<Vector<E, N>>,
    statistics: &[Vector<f32, Four>],
    bias: ComptimeOption<&[E]>,
    dq: &mut [Vector<E, N>],
    numbers: &Numbers,
    #[comptime] form: Form,
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
    let block = block_at(&place, statistics, numbers, form, comptime!(bias.is_some()));
    let mut scores = Array::<f32>::new(comptime!(2 * EACH));
    let mut slopes = Array::<f32>::new(comptime!(2 * EACH));
    let mut sums = no_sums::<N>(comptime!(form.parts));
    let mut key = block.begin;
    while key < block.end {
        products(
            dy,
            &block.dy,
            place.first,
            v,
            &block.v,
            key,
            &mut slopes,
            &mut shared,
            lines,
        );
        if comptime!(form.puts_aside) {
            put_aside(&slopes, &mut weights, lines);
        }
        products(
            q,
            &block.q,
            place.first,
            k,
            &block.k,
            key,
            &mut scores,
            &mut shared,
            lines,
        );
        #[unroll]
        for c in 0..2usize {
            let column = across + comptime!(c * ACROSS);
            let at = f32::cast_from(key + column);
            let aside = weights[column * lines + line];
            let mut of_column = Vector::<f32, Four>::new(0.0);
            #[unroll]
            for i in 0..EACH {
                let row = block.statistics[i];
                if at >= row.extract(2usize) && at < row.extract(3usize) {
                    let (within, p) = weight(
                        scores[comptime!(c * EACH + i)],
                        row.extract(0usize),
                        bias,
                        block.biases[i] + key + column,
                        numbers,
                        comptime!(form.is_capped),
                    );
                    let mut d = slopes[comptime!(c * EACH + i)];
                    if comptime!(form.puts_aside) {
                        d = aside.extract(i);
                    }
                    d -= row.extract(1usize);
                    of_column.insert(
                        i,
                        p * d * slope(within, numbers.cap, comptime!(form.is_capped)),
                    );
                }
            }
            weights[column * lines + line] = of_column;
        }
        add_weighted(
            &weights,
            k,
            &block.k,
            key,
            &mut sums,
            &mut shared,
            comptime!(form.parts),
            lines,
        );
        key += COLUMNS;
    }
    let dq_rows = rows_of_queries(&place, &numbers.dq, numbers.queries, numbers.vectors, group);
    let scale = Vector::new(numbers.scale);
    write(
        &sums,
        scale,
        &dq_rows,
        place.first,
        dq,
        0,
        comptime!(form.parts),
    );
}
