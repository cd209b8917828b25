//! The kernels. Tensors are slices of vectors: the rows of `x`, one after the other, of `vectors` vectors each.

use crate::gpu::parts::sum_of_cube;
use burn_cubecl::cubecl;
use burn_cubecl::cubecl::prelude::*;

/// Writes the result of one row, its mean and its `rstd`.
#[cube(launch_unchecked)]
pub(super) fn forward<N: Size>(
    x: &[Vector<f32, N>],
    weight: &[Vector<f32, N>],
    bias: ComptimeOption<&[Vector<f32, N>]>,
    y: &mut [Vector<f32, N>],
    mean: &mut [f32],
    rstd: &mut [f32],
    rows: usize,
    vectors: usize,
    eps: f32,
    #[comptime] units: usize,
) {
    let row = CUBE_POS;
    if row >= rows {
        terminate!();
    }
    let start = row * vectors;
    let width = f32::cast_from(vectors * N::value());
    let mut sum = Vector::<f32, N>::new(0.0);
    let mut at = UNIT_POS as usize;
    while at < vectors {
        sum += x[start + at];
        at += units;
    }
    let middle = sum_of_cube(sum.vector_sum(), units) / width;
    let mut squares = Vector::<f32, N>::new(0.0);
    let mut at = UNIT_POS as usize;
    while at < vectors {
        let off = x[start + at] - Vector::new(middle);
        squares += off * off;
        at += units;
    }
    let r = 1.0 / (sum_of_cube(squares.vector_sum(), units) / width + eps).sqrt();
    if UNIT_POS == 0 {
        mean[row] = middle;
        rstd[row] = r;
    }
    let mut at = UNIT_POS as usize;
    while at < vectors {
        let scaled = (x[start + at] - Vector::new(middle)) * Vector::new(r) * weight[at];
        y[start + at] = shifted(scaled, bias, at);
        at += units;
    }
}

/// Writes the gradient of one row of `x`.
#[cube(launch_unchecked)]
pub(super) fn backward<N: Size>(
    dy: &[Vector<f32, N>],
    x: &[Vector<f32, N>],
    weight: &[Vector<f32, N>],
    mean: &[f32],
    rstd: &[f32],
    dx: &mut [Vector<f32, N>],
    rows: usize,
    vectors: usize,
    #[comptime] units: usize,
) {
    let row = CUBE_POS;
    if row >= rows {
        terminate!();
    }
    let start = row * vectors;
    let width = f32::cast_from(vectors * N::value());
    let (middle, r) = (Vector::new(mean[row]), Vector::new(rstd[row]));
    let mut sum = Vector::<f32, N>::new(0.0);
    let mut products = Vector::<f32, N>::new(0.0);
    let mut at = UNIT_POS as usize;
    while at < vectors {
        let scaled = dy[start + at] * weight[at];
        sum += scaled;
        products += scaled * ((x[start + at] - middle) * r);
        at += units;
    }
    let sum = Vector::new(sum_of_cube(sum.vector_sum(), units) / width);
    let along = Vector::new(sum_of_cube(products.vector_sum(), units) / width);
    let mut at = UNIT_POS as usize;
    while at < vectors {
        let scaled = dy[start + at] * weight[at];
        let normalised = (x[start + at] - middle) * r;
        dx[start + at] = r * (scaled - sum - normalised * along);
        at += units;
    }
}

/// Writes the sums of the gradients of the weight and of the bias over one part of the rows: a unit for each vector of the
/// axis, and cubes along y for the parts.
#[cube(launch_unchecked)]
pub(super) fn parameter_gradients<N: Size>(
    dy: &[Vector<f32, N>],
    x: &[Vector<f32, N>],
    mean: &[f32],
    rstd: &[f32],
    of_weight: &mut [Vector<f32, N>],
    of_bias: &mut [Vector<f32, N>],
    rows: usize,
    rows_of_part: usize,
    vectors: usize,
) {
    let column = ABSOLUTE_POS_X as usize;
    if column >= vectors {
        terminate!();
    }
    let part = CUBE_POS_Y as usize;
    let first = part * rows_of_part;
    let end = min(first + rows_of_part, rows);
    let mut products = Vector::<f32, N>::new(0.0);
    let mut sum = Vector::<f32, N>::new(0.0);
    for row in first..end {
        let i = row * vectors + column;
        products += (x[i] - Vector::new(mean[row])) * Vector::new(rstd[row]) * dy[i];
        sum += dy[i];
    }
    of_weight[part * vectors + column] = products;
    of_bias[part * vectors + column] = sum;
}

/// Adds the bias, if there is one.
#[cube]
fn shifted<N: Size>(
    y: Vector<f32, N>,
    bias: ComptimeOption<&[Vector<f32, N>]>,
    at: usize,
) -> Vector<f32, N> {
    let bias: ComptimeOption<Vector<f32, N>> = bias.map(|bias| bias[at]);
    y + bias.unwrap_or_else(|| Vector::new(0.0))
}
