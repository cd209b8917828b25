//! The maths of the operators, on slices of f32 or of any type that operators compute in.
//!
//! Inputs are exact in f32, and results are rounded once when they are stored. If an operator rounds in between, its
//! function takes the rounding as an argument. The order of sums on a device is not documented; here they are summed
//! in pairs.

use std::ops::Range;

pub(crate) mod arithmetic;
pub(crate) mod attention;
pub(crate) mod convolution;
pub(crate) mod cross_entropy;
pub(crate) mod glu;
pub(crate) mod grouped_matmul;
pub(crate) mod index;
pub(crate) mod matmul;
pub(crate) mod moe;
pub(crate) mod norm;
pub(crate) mod random;
pub(crate) mod reduce;
pub(crate) mod reduce_ranks;
pub(crate) mod rotary;
pub(crate) mod routing;
pub(crate) mod training;

/// Sums by halves, so that the error grows with the logarithm of the length.
pub(crate) fn sum(values: &[f32]) -> f32 {
    if values.len() <= 8 {
        return values.iter().sum();
    }
    let (left, right) = values.split_at(values.len() / 2);
    sum(left) + sum(right)
}

/// Returns the sum of rows, by halves like [`sum`]. `add` adds a row to one of `width` values.
pub(crate) fn sum_of_rows(
    rows: Range<usize>,
    width: usize,
    add: &impl Fn(usize, &mut [f32]),
) -> Vec<f32> {
    if rows.len() <= 8 {
        let mut sums = vec![0.0; width];
        rows.for_each(|row| add(row, &mut sums));
        return sums;
    }
    let middle = rows.start + rows.len() / 2;
    let mut left = sum_of_rows(rows.start..middle, width, add);
    let right = sum_of_rows(middle..rows.end, width, add);
    left.iter_mut()
        .zip(right)
        .for_each(|(left, right)| *left += right);
    left
}
