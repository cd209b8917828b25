//! The kernel that adds the sums of parts.

use super::elements::narrow;
use burn_cubecl::cubecl;
use burn_cubecl::cubecl::prelude::*;

/// Writes the sum of `columns` columns of rows of `stride` vectors, from column `first` on. Each of a cube's `lines`
/// lines has `across` units, one for each vector of a row, and adds every `lines`-th row. The first line then adds the
/// sums of all of them in order.
#[cube(launch_unchecked)]
pub(crate) fn sum_rows<E: Float, N: Size>(
    parts: &[Vector<f32, N>],
    y: &mut [Vector<E, N>],
    rows: usize,
    stride: usize,
    first: usize,
    columns: usize,
    #[comptime] across: usize,
    #[comptime] lines: usize,
    #[define(E)] _element: ElemType,
) {
    let unit = UNIT_POS as usize;
    let column = CUBE_POS * across + unit % across;
    let line = unit / across;
    let mut sum = Vector::<f32, N>::new(0.0);
    if column < columns {
        let mut row = line;
        while row < rows {
            sum += parts[row * stride + first + column];
            row += lines;
        }
    }
    let mut sums = Shared::<[Vector<f32, N>]>::new_slice(comptime!(across * lines));
    sums[unit] = sum;
    sync_cube();
    if line == 0 && column < columns {
        #[unroll]
        for other in 1..lines {
            sum += sums[comptime!(other * across) + unit];
        }
        y[column] = narrow(sum);
    }
}
