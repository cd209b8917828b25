//! The kernels. Tensors are slices of vectors: the rows of `x`, one after the other, of `vectors` vectors each. Statistics
//! and sums are in f32.

use crate::gpu::elements::{narrow, wide};
use crate::gpu::parts::sum_of_cube;
use burn_cubecl::cubecl;
use burn_cubecl::cubecl::prelude::*;

/// Writes the result of one row, its mean and its `rstd`.
#[cube(launch_unchecked)]
pub(super) fn forward<E: Float, N: Size>(
    x: &[Vector<E, N>],
    weight: &[Vector<E, N>],
    bias: ComptimeOption<&[Vector<E, N>]>,
    y: &mut [Vector<E, N>],
    mean: &mut [f32],
    rstd: &mut [f32],
    rows: usize,
    vectors: usize,
    eps: f32,
    #[comptime] units: usize,
    #[define(E)] _element: ElemType,
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
        sum += wide(x[start + at]);
        at += units;
    }
    let middle = sum_of_cube(sum.vector_sum(), units) / width;
    let mut squares = Vector::<f32, N>::new(0.0);
    let mut at = UNIT_POS as usize;
    while at < vectors {
        let off = wide(x[start + at]) - Vector::new(middle);
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
        let scaled = (wide(x[start + at]) - Vector::new(middle)) * Vector::new(r);
        y[start + at] = narrow(shifted(scaled * wide(weight[at]), bias, at));
        at += units;
    }
}

/// Writes the gradient of one row of `x`.
#[cube(launch_unchecked)]
pub(super) fn backward<E: Float, N: Size>(
    dy: &[Vector<E, N>],
    x: &[Vector<E, N>],
    weight: &[Vector<E, N>],
    mean: &[f32],
    rstd: &[f32],
    dx: &mut [Vector<E, N>],
    rows: usize,
    vectors: usize,
    #[comptime] units: usize,
    #[define(E)] _element: ElemType,
) {
    let row = CUBE_POS;
    if row >= rows {
        terminate!();
    }
    let start = row * vectors;
    let width = f32::cast_from(vectors * N::value());
    let middle = Vector::new(mean[row]);
    let mut sum = Vector::<f32, N>::new(0.0);
    let mut products = Vector::<f32, N>::new(0.0);
    let mut at = UNIT_POS as usize;
    while at < vectors {
        let scaled = wide(dy[start + at]) * wide(weight[at]);
        sum += scaled;
        products += scaled * (wide(x[start + at]) - middle);
        at += units;
    }
    let sum = Vector::new(sum_of_cube(sum.vector_sum(), units) / width);
    let r = rstd[row];
    let along = Vector::new(sum_of_cube(products.vector_sum(), units) * r / width);
    let r = Vector::new(r);
    let mut at = UNIT_POS as usize;
    while at < vectors {
        let scaled = wide(dy[start + at]) * wide(weight[at]);
        let normalised = (wide(x[start + at]) - middle) * r;
        dx[start + at] = narrow(r * (scaled - sum - normalised * along));
        at += units;
    }
}

/// Writes the gradients of the rows of one part, and over them the sums of the gradients of the weight, then of the bias. A
/// unit keeps its `each` vectors of a row, and of the sums, in registers.
#[cube(launch_unchecked)]
pub(super) fn backward_of_part<E: Float, N: Size>(
    dy: &[Vector<E, N>],
    x: &[Vector<E, N>],
    weight: &[Vector<E, N>],
    mean: &[f32],
    rstd: &[f32],
    dx: &mut [Vector<E, N>],
    sums: &mut [Vector<f32, N>],
    rows: usize,
    rows_of_part: usize,
    vectors: usize,
    #[comptime] each: usize,
    #[comptime] units: usize,
    #[define(E)] _element: ElemType,
) {
    let first = CUBE_POS * rows_of_part;
    if first >= rows {
        terminate!();
    }
    let end = min(first + rows_of_part, rows);
    let width = f32::cast_from(vectors * N::value());
    let unit = UNIT_POS as usize;
    let mut products_of_rows = Array::<Vector<f32, N>>::new(each);
    let mut sum_of_rows = Array::<Vector<f32, N>>::new(each);
    let mut of_dy = Array::<Vector<f32, N>>::new(each);
    let mut normalised = Array::<Vector<f32, N>>::new(each);
    #[unroll]
    for k in 0..each {
        products_of_rows[k] = Vector::new(0.0);
        sum_of_rows[k] = Vector::new(0.0);
    }
    for row in first..end {
        let start = row * vectors;
        let (middle, r) = (Vector::new(mean[row]), Vector::new(rstd[row]));
        let mut sum = Vector::<f32, N>::new(0.0);
        let mut products = Vector::<f32, N>::new(0.0);
        #[unroll]
        for k in 0..each {
            let at = comptime!(k * units) + unit;
            if at < vectors {
                of_dy[k] = wide(dy[start + at]);
                normalised[k] = (wide(x[start + at]) - middle) * r;
                let scaled = of_dy[k] * wide(weight[at]);
                sum += scaled;
                products += scaled * normalised[k];
            }
        }
        let sum = Vector::new(sum_of_cube(sum.vector_sum(), units) / width);
        let along = Vector::new(sum_of_cube(products.vector_sum(), units) / width);
        // The sums of the next row are in the same memory, which every unit must have read before.
        sync_cube();
        #[unroll]
        for k in 0..each {
            let at = comptime!(k * units) + unit;
            if at < vectors {
                let scaled = of_dy[k] * wide(weight[at]);
                dx[start + at] = narrow(r * (scaled - sum - normalised[k] * along));
                products_of_rows[k] += normalised[k] * of_dy[k];
                sum_of_rows[k] += of_dy[k];
            }
        }
    }
    let start = 2 * CUBE_POS * vectors;
    #[unroll]
    for k in 0..each {
        let at = comptime!(k * units) + unit;
        if at < vectors {
            sums[start + at] = products_of_rows[k];
            sums[start + vectors + at] = sum_of_rows[k];
        }
    }
}

/// Writes the sums of the gradients of the weight and of the bias over one part of the rows: a unit for each vector of the
/// axis, and cubes along y for the parts.
#[cube(launch_unchecked)]
pub(super) fn parameter_gradients<E: Float, N: Size>(
    dy: &[Vector<E, N>],
    x: &[Vector<E, N>],
    mean: &[f32],
    rstd: &[f32],
    of_weight: &mut [Vector<f32, N>],
    of_bias: &mut [Vector<f32, N>],
    rows: usize,
    rows_of_part: usize,
    vectors: usize,
    #[define(E)] _element: ElemType,
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
        let normalised = (wide(x[i]) - Vector::new(mean[row])) * Vector::new(rstd[row]);
        let dy = wide(dy[i]);
        products += normalised * dy;
        sum += dy;
    }
    of_weight[part * vectors + column] = products;
    of_bias[part * vectors + column] = sum;
}

/// Adds the bias, if there is one.
#[cube]
fn shifted<E: Float, N: Size>(
    y: Vector<f32, N>,
    bias: ComptimeOption<&[Vector<E, N>]>,
    at: usize,
) -> Vector<f32, N> {
    let bias: ComptimeOption<Vector<f32, N>> = bias.map(|bias| wide(bias[at]));
    y + bias.unwrap_or_else(|| Vector::new(0.0))
}
