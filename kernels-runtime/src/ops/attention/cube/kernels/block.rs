//! Products of blocks of rows, which the units of a cube stage together in shared memory.

use super::{ACROSS, COLUMNS, EACH, Four, Place, Strides};
use crate::gpu::elements::{narrow, wide};
use burn_cubecl::cubecl;
use burn_cubecl::cubecl::prelude::*;

/// The number of elements of rows that are staged together for products.
const PART: usize = 16;

/// The number of elements of the shared memory for rows. With [`COLUMNS`] weights for each of 64 rows, it makes 16 KiB, which
/// every WebGPU device has.
pub(in super::super) const STAGE: usize = 2048;

/// The rows of one tensor of a head of keys.
#[derive(CubeType, Clone, Copy)]
pub(in super::super) struct Rows {
    /// The place of the first one, and the distances of positions and of heads that share keys, in vectors.
    start: usize,
    position: usize,
    head: usize,
    /// The number of rows. Those behind are zeros.
    count: usize,
    /// The number of vectors of a row.
    vectors: usize,
    /// The number of heads that share keys.
    #[cube(comptime)]
    group: usize,
}

/// Returns the rows of queries of a head of keys.
#[cube]
pub(super) fn rows_of_queries(
    place: &Place,
    strides: &Strides,
    queries: usize,
    vectors: usize,
    #[comptime] group: usize,
) -> Rows {
    Rows {
        start: place.sequence * strides.sequence + place.kv_head * group * strides.head,
        position: strides.position,
        head: strides.head,
        count: queries * group,
        vectors,
        group,
    }
}

/// Returns the first `count` rows of a head of keys.
#[cube]
pub(super) fn rows_of_keys(place: &Place, strides: &Strides, count: usize, vectors: usize) -> Rows {
    Rows {
        start: place.sequence * strides.sequence + place.kv_head * strides.head,
        position: strides.position,
        head: strides.head,
        count,
        vectors,
        group: comptime!(1usize),
    }
}

/// Returns the place of a row.
#[cube]
fn place_of_row(rows: &Rows, row: usize) -> usize {
    let group = rows.group;
    rows.start + row / group * rows.position + row % group * rows.head
}

/// Copies a part of `count` rows, `width` vectors of each, to shared memory, where rows are `stride` vectors apart. Each element
/// is widened here once, and not for each of its products.
#[cube]
fn stage<E: Float, N: Size>(
    from: &Tensor<Vector<E, N>>,
    rows: &Rows,
    first: usize,
    column: usize,
    to: &mut [Vector<f32, N>],
    start: usize,
    #[comptime] count: usize,
    #[comptime] width: usize,
    #[comptime] stride: usize,
    #[comptime] units: usize,
) {
    let mut item = UNIT_POS as usize;
    while item < comptime!(count * width) {
        let row = first + item / width;
        let at = column + item % width;
        let mut vector = Vector::<f32, N>::new(0.0);
        if row < rows.count && at < rows.vectors {
            vector = wide(from[place_of_row(rows, row) + at]);
        }
        to[start + item / width * stride + item % width] = vector;
        item += units;
    }
}

/// Computes the products of the rows of a block from `first_row` on with those of its columns from `first_column` on. Writes
/// the unit's: one for each row of its line, for its first column and then for its second. All units of a cube meet before
/// shared memory is written, and after.
#[cube]
pub(super) fn products<E: Float, N: Size>(
    a: &Tensor<Vector<E, N>>,
    a_rows: &Rows,
    first_row: usize,
    b: &Tensor<Vector<E, N>>,
    b_rows: &Rows,
    first_column: usize,
    sums: &mut Array<f32>,
    shared: &mut [Vector<f32, N>],
    #[comptime] lines: usize,
) {
    let size = N::value();
    let width = comptime!(PART / size);
    // One vector more than there are, so that units read neighbouring rows from different banks.
    let stride = comptime!(width + 1);
    let units = comptime!(lines * ACROSS);
    let of_columns = comptime!(lines * EACH * (width + 1));
    let line = UNIT_POS as usize / ACROSS;
    let across = UNIT_POS as usize % ACROSS;
    let row = line * comptime!(EACH * stride);
    let column = of_columns + across * stride;
    #[unroll]
    for i in 0..comptime!(2 * EACH) {
        sums[i] = 0.0;
    }
    let mut from = 0usize;
    while from < a_rows.vectors {
        sync_cube();
        let of_block = comptime!(lines * EACH);
        stage(
            a, a_rows, first_row, from, shared, 0, of_block, width, stride, units,
        );
        stage(
            b,
            b_rows,
            first_column,
            from,
            shared,
            of_columns,
            COLUMNS,
            width,
            stride,
            units,
        );
        sync_cube();
        #[unroll]
        for at in 0..width {
            let first = shared[column + at];
            let second = shared[column + comptime!(ACROSS * stride) + at];
            #[unroll]
            for i in 0..EACH {
                let x = shared[row + comptime!(i * stride + at)];
                sums[i] = with_product(sums[i], x, first);
                sums[comptime!(EACH + i)] = with_product(sums[comptime!(EACH + i)], x, second);
            }
        }
        from += width;
    }
}

/// Returns a sum and the products of the elements of two vectors. One number stays in a register for each sum, and not a vector.
#[cube]
fn with_product<N: Size>(sum: f32, a: Vector<f32, N>, b: Vector<f32, N>) -> f32 {
    let mut with = sum;
    #[unroll]
    for k in 0..N::value() {
        with += a.extract(k) * b.extract(k);
    }
    with
}

/// Adds the products of weights and the rows of a block's columns from `first` on to sums: for each part of a row, one vector
/// for each row of the unit's line. All units of a cube meet between the writing of weights and their reading here.
#[cube]
pub(super) fn add_weighted<E: Float, N: Size>(
    weights: &[Vector<f32, Four>],
    values: &Tensor<Vector<E, N>>,
    rows: &Rows,
    first: usize,
    sums: &mut Array<Vector<f32, N>>,
    shared: &mut [Vector<f32, N>],
    #[comptime] parts: usize,
    #[comptime] lines: usize,
) {
    let units = comptime!(lines * ACROSS);
    let line = UNIT_POS as usize / ACROSS;
    let across = UNIT_POS as usize % ACROSS;
    #[unroll]
    for part in 0..parts {
        sync_cube();
        let from = comptime!(part * ACROSS);
        stage(
            values, rows, first, from, shared, 0, COLUMNS, ACROSS, ACROSS, units,
        );
        sync_cube();
        for column in 0..COLUMNS {
            let weight = weights[column * lines + line];
            let value = shared[column * ACROSS + across];
            #[unroll]
            for i in 0..EACH {
                sums[comptime!(part * EACH + i)] += Vector::new(weight.extract(i)) * value;
            }
        }
    }
}

/// Returns sums of [`add_weighted`] that nothing was added to.
#[cube]
pub(super) fn no_sums<N: Size>(#[comptime] parts: usize) -> Array<Vector<f32, N>> {
    let mut sums = Array::<Vector<f32, N>>::new(comptime!(parts * EACH));
    #[unroll]
    for i in 0..comptime!(parts * EACH) {
        sums[i] = Vector::new(0.0);
    }
    sums
}

/// Writes the sums of a unit's line of rows, each times the factor of its row, rounded. The rows of the result begin at `start`.
#[cube]
pub(super) fn write<E: Float, N: Size>(
    sums: &Array<Vector<f32, N>>,
    factors: Vector<f32, Four>,
    rows: &Rows,
    first: usize,
    to: &mut [Vector<E, N>],
    start: usize,
    #[comptime] parts: usize,
) {
    let line = UNIT_POS as usize / ACROSS;
    let across = UNIT_POS as usize % ACROSS;
    #[unroll]
    for part in 0..parts {
        let at = comptime!(part * ACROSS) + across;
        #[unroll]
        for i in 0..EACH {
            let row = first + line * EACH + i;
            if row < rows.count && at < rows.vectors {
                let factor = Vector::new(factors.extract(i));
                to[start + place_of_row(rows, row) + at] =
                    narrow(sums[comptime!(part * EACH + i)] * factor);
            }
        }
    }
}
