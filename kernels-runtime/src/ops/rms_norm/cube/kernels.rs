//! The kernels. Tensors are slices of vectors: the rows of `x`, one after the other, of `vectors` vectors each. Statistics and
//! sums are in f32.

#![allow(
    clippy::needless_range_loop,
    reason = "kernels have no iterators over slices"
)]

use crate::gpu::elements::{narrow, stepped, wide};
use crate::gpu::parts::{sigmoid, silu_with_slope, sum_of_cube};
use crate::semantics::Gating;
use burn_cubecl::cubecl;
use burn_cubecl::cubecl::prelude::*;

/// The numbers of a row.
#[derive(CubeType, CubeLaunch)]
pub(in crate::ops) struct Row {
    /// The number of rows.
    all: usize,
    /// The number of rows that share one row of the tensor: each of these is one of its groups.
    groups: usize,
    /// The number of vectors of a row.
    vectors: usize,
    /// The number that is added to the weight.
    offset: f32,
}

/// Writes the result of one row, and its `rstd`. Between its steps, values are rounded to elements if `is_stepped`.
#[cube(launch_unchecked)]
pub(super) fn forward<E: Float, N: Size>(
    x: &[Vector<E, N>],
    weight: ComptimeOption<&[Vector<E, N>]>,
    gate: ComptimeOption<&[Vector<E, N>]>,
    y: &mut [Vector<E, N>],
    rstd: &mut [f32],
    row: &Row,
    eps: f32,
    #[comptime] gating: Gating,
    #[comptime] is_stepped: bool,
    #[comptime] units: usize,
    #[define(E)] _element: ElemType,
) {
    if CUBE_POS >= row.all {
        terminate!();
    }
    let start = CUBE_POS * row.vectors;
    let mut squares = Vector::<f32, N>::new(0.0);
    let mut at = UNIT_POS as usize;
    while at < row.vectors {
        let v = before(wide(x[start + at]), gate, start + at, gating);
        squares += v * v;
        at += units;
    }
    let r = rstd_of(squares, row.vectors, eps, units);
    if UNIT_POS == 0 {
        rstd[CUBE_POS] = r;
    }
    normalise(x, weight, gate, y, row, r, gating, is_stepped);
}

/// Writes the sum of one row and of its residual, the result of the norm of the sum, and its `rstd`.
#[cube(launch_unchecked)]
pub(in crate::ops) fn forward_of_sum<E: Float, N: Size>(
    x: &[Vector<E, N>],
    residual: &[Vector<E, N>],
    weight: ComptimeOption<&[Vector<E, N>]>,
    gate: ComptimeOption<&[Vector<E, N>]>,
    sum: &mut [Vector<E, N>],
    y: &mut [Vector<E, N>],
    rstd: &mut [f32],
    row: &Row,
    eps: f32,
    #[comptime] gating: Gating,
    #[comptime] is_stepped: bool,
    #[comptime] units: usize,
    #[define(E)] _element: ElemType,
) {
    if CUBE_POS >= row.all {
        terminate!();
    }
    let start = CUBE_POS * row.vectors;
    let mut squares = Vector::<f32, N>::new(0.0);
    let mut at = UNIT_POS as usize;
    while at < row.vectors {
        let term = narrow::<E, N>(wide(x[start + at]) + wide(residual[start + at]));
        sum[start + at] = term;
        let v = before(wide(term), gate, start + at, gating);
        squares += v * v;
        at += units;
    }
    let r = rstd_of(squares, row.vectors, eps, units);
    if UNIT_POS == 0 {
        rstd[CUBE_POS] = r;
    }
    // Each unit reads the elements of the sum that it wrote itself.
    normalise(&*sum, weight, gate, y, row, r, gating, is_stepped);
}

/// Writes the result of the row of this cube.
#[cube]
fn normalise<E: Float, N: Size>(
    x: &[Vector<E, N>],
    weight: ComptimeOption<&[Vector<E, N>]>,
    gate: ComptimeOption<&[Vector<E, N>]>,
    y: &mut [Vector<E, N>],
    row: &Row,
    r: f32,
    #[comptime] gating: Gating,
    #[comptime] is_stepped: bool,
) {
    let (start, part) = (
        CUBE_POS * row.vectors,
        (CUBE_POS % row.groups) * row.vectors,
    );
    let mut at = UNIT_POS as usize;
    while at < row.vectors {
        let v = before(wide(x[start + at]), gate, start + at, gating);
        let normal = stepped::<E, N>(v * Vector::new(r), is_stepped);
        let scaled = normal * gain(weight, part + at, row.offset);
        y[start + at] = narrow(after(scaled, gate, start + at, gating, is_stepped));
        at += CUBE_DIM as usize;
    }
}

/// Writes the gradient of one row of `x`, without a gate.
#[cube(launch_unchecked)]
pub(super) fn backward<E: Float, N: Size>(
    dy: &[Vector<E, N>],
    x: &[Vector<E, N>],
    weight: ComptimeOption<&[Vector<E, N>]>,
    rstd: &[f32],
    dx: &mut [Vector<E, N>],
    row: &Row,
    #[comptime] units: usize,
    #[define(E)] _element: ElemType,
) {
    if CUBE_POS >= row.all {
        terminate!();
    }
    let (vectors, offset) = (row.vectors, row.offset);
    let (start, part) = (CUBE_POS * vectors, (CUBE_POS % row.groups) * vectors);
    let mut products = Vector::<f32, N>::new(0.0);
    let mut at = UNIT_POS as usize;
    while at < vectors {
        products += wide(dy[start + at]) * gain(weight, part + at, offset) * wide(x[start + at]);
        at += units;
    }
    let projection = sum_of_cube(products.vector_sum(), units);
    let (r, along) = along(rstd[CUBE_POS], projection, vectors);
    let mut at = UNIT_POS as usize;
    while at < vectors {
        let dv = wide(dy[start + at]) * gain(weight, part + at, offset);
        dx[start + at] = narrow(r * (dv - wide(x[start + at]) * along));
        at += units;
    }
}

/// Writes the gradients of the rows of one part, without groups or a gate, and the sum of the weight's gradient over them.
/// A unit keeps its `each` vectors of a row, and of the sum, in registers.
#[cube(launch_unchecked)]
pub(super) fn backward_of_part<E: Float, N: Size>(
    dy: &[Vector<E, N>],
    x: &[Vector<E, N>],
    weight: &[Vector<E, N>],
    rstd: &[f32],
    dx: &mut [Vector<E, N>],
    sums: &mut [Vector<f32, N>],
    row: &Row,
    rows_of_part: usize,
    #[comptime] each: usize,
    #[comptime] units: usize,
    #[define(E)] _element: ElemType,
) {
    let first = CUBE_POS * rows_of_part;
    if first >= row.all {
        terminate!();
    }
    let end = min(first + rows_of_part, row.all);
    let (vectors, offset) = (row.vectors, Vector::new(row.offset));
    let unit = UNIT_POS as usize;
    let mut sum = Array::<Vector<f32, N>>::new(each);
    let mut of_dy = Array::<Vector<f32, N>>::new(each);
    let mut of_x = Array::<Vector<f32, N>>::new(each);
    #[unroll]
    for k in 0..each {
        sum[k] = Vector::new(0.0);
    }
    for i in first..end {
        let start = i * vectors;
        let mut products = Vector::<f32, N>::new(0.0);
        #[unroll]
        for k in 0..each {
            let at = comptime!(k * units) + unit;
            if at < vectors {
                of_dy[k] = wide(dy[start + at]);
                of_x[k] = wide(x[start + at]);
                products += of_dy[k] * (wide(weight[at]) + offset) * of_x[k];
            }
        }
        let projection = sum_of_cube(products.vector_sum(), units);
        // The sum of the next row is in the same memory, which every unit must have read before.
        sync_cube();
        let (r, along) = along(rstd[i], projection, vectors);
        #[unroll]
        for k in 0..each {
            let at = comptime!(k * units) + unit;
            if at < vectors {
                let dv = of_dy[k] * (wide(weight[at]) + offset);
                dx[start + at] = narrow(r * (dv - of_x[k] * along));
                sum[k] += of_x[k] * r * of_dy[k];
            }
        }
    }
    let start = CUBE_POS * vectors;
    #[unroll]
    for k in 0..each {
        let at = comptime!(k * units) + unit;
        if at < vectors {
            sums[start + at] = sum[k];
        }
    }
}

/// Writes the gradients of one row of `x` and of its gate.
#[cube(launch_unchecked)]
pub(super) fn gated_backward<E: Float, N: Size>(
    dy: &[Vector<E, N>],
    x: &[Vector<E, N>],
    weight: ComptimeOption<&[Vector<E, N>]>,
    gate: &[Vector<E, N>],
    rstd: &[f32],
    dx: &mut [Vector<E, N>],
    d_gate: &mut [Vector<E, N>],
    row: &Row,
    #[comptime] gating: Gating,
    #[comptime] units: usize,
    #[define(E)] _element: ElemType,
) {
    if CUBE_POS >= row.all {
        terminate!();
    }
    let (vectors, offset) = (row.vectors, row.offset);
    let (start, part) = (CUBE_POS * vectors, (CUBE_POS % row.groups) * vectors);
    let mut products = Vector::<f32, N>::new(0.0);
    let mut at = UNIT_POS as usize;
    while at < vectors {
        let i = start + at;
        let z = wide(gate[i]);
        let silu = z * sigmoid(z);
        let v = if_gated(wide(x[i]), silu, comptime!(gating == Gating::BeforeNorm));
        let dn = if_gated(wide(dy[i]), silu, comptime!(gating == Gating::AfterNorm));
        products += dn * gain(weight, part + at, offset) * v;
        at += units;
    }
    let projection = sum_of_cube(products.vector_sum(), units);
    let (r, along) = along(rstd[CUBE_POS], projection, vectors);
    let mut at = UNIT_POS as usize;
    while at < vectors {
        let i = start + at;
        let (x, dy) = (wide(x[i]), wide(dy[i]));
        let (silu, slope) = silu_with_slope(wide(gate[i]));
        let g = gain(weight, part + at, offset);
        let dn = dy * g;
        if comptime!(gating == Gating::BeforeNorm) {
            let dv = r * (dn - x * silu * along);
            d_gate[i] = narrow(dv * x * slope);
            dx[i] = narrow(dv * silu);
        } else {
            d_gate[i] = narrow(dn * (x * r) * slope);
            dx[i] = narrow(r * (dn * silu - x * along));
        }
        at += units;
    }
}

/// Writes the sum of the weight's gradient over one part of the rows: a unit for each vector of the axis, and cubes along
/// y for the parts. A row has all its groups here.
#[cube(launch_unchecked)]
pub(super) fn weight_gradient<E: Float, N: Size>(
    dy: &[Vector<E, N>],
    x: &[Vector<E, N>],
    gate: ComptimeOption<&[Vector<E, N>]>,
    rstd: &[f32],
    sums: &mut [Vector<f32, N>],
    rows: usize,
    rows_of_part: usize,
    groups: usize,
    vectors: usize,
    #[comptime] gating: Gating,
    #[define(E)] _element: ElemType,
) {
    let columns = groups * vectors;
    let column = ABSOLUTE_POS_X as usize;
    if column >= columns {
        terminate!();
    }
    let part = CUBE_POS_Y as usize;
    let (group, first) = (column / vectors, part * rows_of_part);
    let end = min(first + rows_of_part, rows);
    let mut sum = Vector::<f32, N>::new(0.0);
    for row in first..end {
        let i = row * columns + column;
        let r = Vector::new(rstd[row * groups + group]);
        // A gate multiplies x before the norm, and dy after it.
        let product = before(wide(x[i]), gate, i, gating) * r * wide(dy[i]);
        sum += after(product, gate, i, gating, false);
    }
    sums[part * columns + column] = sum;
}

/// Returns `rstd` of the row of this cube, given the squares that each unit added up.
#[cube]
pub(in crate::ops) fn rstd_of<N: Size>(
    squares: Vector<f32, N>,
    vectors: usize,
    eps: f32,
    #[comptime] units: usize,
) -> f32 {
    let sum = sum_of_cube(squares.vector_sum(), units);
    let width = f32::cast_from(vectors * N::value());
    1.0 / (sum / width + eps).sqrt()
}

/// Returns `rstd` of a row, and the factor of an element in the part of its gradient that goes through `rstd`.
#[cube]
pub(in crate::ops) fn along<N: Size>(
    rstd: f32,
    projection: f32,
    vectors: usize,
) -> (Vector<f32, N>, Vector<f32, N>) {
    let width = f32::cast_from(vectors * N::value());
    // In this order, the square of `rstd` alone, which may underflow, is never formed.
    (
        Vector::new(rstd),
        Vector::new(projection * rstd / width * rstd),
    )
}

/// Returns the factor of a vector of the normalised row.
#[cube]
fn gain<E: Float, N: Size>(
    weight: ComptimeOption<&[Vector<E, N>]>,
    at: usize,
    offset: f32,
) -> Vector<f32, N> {
    let weight: ComptimeOption<Vector<f32, N>> =
        weight.map(|weight| wide(weight[at]) + Vector::new(offset));
    weight.unwrap_or_else(|| Vector::new(1.0))
}

/// Returns a vector of the row to normalise, given one of x.
#[cube]
fn before<E: Float, N: Size>(
    x: Vector<f32, N>,
    gate: ComptimeOption<&[Vector<E, N>]>,
    at: usize,
    #[comptime] gating: Gating,
) -> Vector<f32, N> {
    if comptime!(gating == Gating::BeforeNorm) {
        x * silu(gate, at)
    } else {
        x
    }
}

/// Returns a vector of the result, given one of the normalised and scaled row.
#[cube]
fn after<E: Float, N: Size>(
    y: Vector<f32, N>,
    gate: ComptimeOption<&[Vector<E, N>]>,
    at: usize,
    #[comptime] gating: Gating,
    #[comptime] is_stepped: bool,
) -> Vector<f32, N> {
    if comptime!(gating == Gating::AfterNorm) {
        stepped::<E, N>(y, is_stepped) * silu(gate, at)
    } else {
        y
    }
}

/// Returns the factor of the gate.
#[cube]
fn silu<E: Float, N: Size>(gate: ComptimeOption<&[Vector<E, N>]>, at: usize) -> Vector<f32, N> {
    let z = wide(gate.unwrap()[at]);
    z * sigmoid(z)
}

#[cube]
fn if_gated<N: Size>(
    value: Vector<f32, N>,
    silu: Vector<f32, N>,
    #[comptime] gated: bool,
) -> Vector<f32, N> {
    if gated { value * silu } else { value }
}
