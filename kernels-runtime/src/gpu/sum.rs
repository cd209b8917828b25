//! The kernel that adds the sums of parts.

use super::elements::narrow;
use burn_cubecl::cubecl;
use burn_cubecl::cubecl::prelude::*;

/// Writes the sum of rows, added in order: a unit for each vector of a row.
#[cube(launch_unchecked)]
pub(crate) fn sum_rows<E: Float, N: Size>(
    parts: &[Vector<f32, N>],
    y: &mut [Vector<E, N>],
    rows: usize,
    columns: usize,
    #[define(E)] _element: ElemType,
) {
    let column = ABSOLUTE_POS;
    if column >= columns {
        terminate!();
    }
    let mut sum = Vector::<f32, N>::new(0.0);
    for row in 0..rows {
        sum += parts[row * columns + column];
    }
    y[column] = narrow(sum);
}
