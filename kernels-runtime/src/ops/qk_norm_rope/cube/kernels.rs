//! The kernels. A cube has one normalised row: a head, or all heads of a token. A unit takes items of it: a vector of pairs,
//! in two vectors of its head, or a vector of the rest, which is not rotated.

use crate::gpu::elements::{narrow, stepped, wide};
use crate::gpu::parts::sum_of_cube;
use crate::ops::rms_norm::cube::kernels::{along, rstd_of};
use crate::ops::rope::cube::kernels::{Order, places, turn};
use burn_cubecl::cubecl;
use burn_cubecl::cubecl::prelude::*;

/// The sizes of a call, in vectors where they are along a head.
#[derive(CubeType, CubeLaunch)]
pub(super) struct Sizes {
    /// The number of normalised rows, and of heads in each.
    rows: usize,
    of_row: usize,
    /// The number of heads of a token, and of tokens of a sequence.
    heads: usize,
    tokens: usize,
    /// The number of vectors of pairs of a head, and of the elements that stay.
    pairs: usize,
    rest: usize,
    /// The distance of two tokens in a table, and of two sequences in the cosines and in the sines: 0 if all share one.
    token: usize,
    cos: usize,
    sin: usize,
}

/// The values of a normalised row that are rounded to elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Rounded {
    /// None, because elements are numbers in f32.
    Never,
    /// Those that are rotated.
    Result,
    /// Those, and before them those without the weight.
    Steps,
}

/// Writes one normalised and rotated row.
#[cube(launch_unchecked)]
pub(super) fn forward<E: Float, T: Float, N: Size>(
    x: &[Vector<E, N>],
    weight: &[Vector<E, N>],
    cos: &[Vector<T, N>],
    sin: &[Vector<T, N>],
    y: &mut [Vector<E, N>],
    sizes: &Sizes,
    eps: f32,
    offset: f32,
    #[comptime] order: Order,
    #[comptime] rounded: Rounded,
    #[comptime] units: usize,
    #[define(E, T)] _elements: [ElemType; 2],
) {
    let row = CUBE_POS;
    if row >= sizes.rows {
        terminate!();
    }
    let (pairs, items) = (sizes.pairs, sizes.pairs + sizes.rest);
    let width = pairs + items;
    let start = row * sizes.of_row * width;
    let mut squares = Vector::<f32, N>::new(0.0);
    let mut at = UNIT_POS as usize;
    while at < sizes.of_row * width {
        let v = wide(x[start + at]);
        squares += v * v;
        at += units;
    }
    let r = Vector::new(rstd_of(squares, sizes.of_row * width, eps, units));
    let offset = Vector::new(offset);
    let mut at = UNIT_POS as usize;
    while at < sizes.of_row * items {
        let (head, item) = (at / items, at % items);
        let (to, in_cos, in_sin) = placed(row * sizes.of_row + head, sizes, order);
        if item < pairs {
            let (a, b) = places(head * width, item, pairs, comptime!(order.read));
            let pair = (
                normalised(x[start + a], r, weight[a], offset, rounded),
                normalised(x[start + b], r, weight[b], offset, rounded),
            );
            let (first, second) = turn(pair, cos, sin, (in_cos, in_sin), item, pairs, order);
            let (a, b) = places(to, item, pairs, comptime!(order.write));
            y[a] = narrow(first);
            y[b] = narrow(second);
        } else {
            let a = head * width + pairs + item;
            let rest = normalised(x[start + a], r, weight[a], offset, rounded);
            y[to + pairs + item] = narrow(rest);
        }
        at += units;
    }
}

/// Returns a vector of the normalised row, with the roundings of an RMSNorm alone.
#[cube]
fn normalised<E: Float, N: Size>(
    x: Vector<E, N>,
    r: Vector<f32, N>,
    weight: Vector<E, N>,
    offset: Vector<f32, N>,
    #[comptime] rounded: Rounded,
) -> Vector<f32, N> {
    let normal = stepped::<E, N>(wide(x) * r, comptime!(rounded == Rounded::Steps));
    let scaled = normal * (wide(weight) + offset);
    stepped::<E, N>(scaled, comptime!(rounded != Rounded::Never))
}

/// Writes the gradient of one row of `x`, and its `rstd`. The order is that of the rotation back.
#[cube(launch_unchecked)]
pub(super) fn backward<E: Float, T: Float, N: Size>(
    dy: &[Vector<E, N>],
    x: &[Vector<E, N>],
    weight: &[Vector<E, N>],
    cos: &[Vector<T, N>],
    sin: &[Vector<T, N>],
    dx: &mut [Vector<E, N>],
    rstd: &mut [f32],
    sizes: &Sizes,
    eps: f32,
    offset: f32,
    #[comptime] order: Order,
    #[comptime] units: usize,
    #[define(E, T)] _elements: [ElemType; 2],
) {
    let row = CUBE_POS;
    if row >= sizes.rows {
        terminate!();
    }
    let (pairs, items) = (sizes.pairs, sizes.pairs + sizes.rest);
    let width = pairs + items;
    let start = row * sizes.of_row * width;
    let offset = Vector::new(offset);
    let mut squares = Vector::<f32, N>::new(0.0);
    let mut products = Vector::<f32, N>::new(0.0);
    let mut at = UNIT_POS as usize;
    while at < sizes.of_row * items {
        let (head, item) = (at / items, at % items);
        let place = placed(row * sizes.of_row + head, sizes, order);
        let (a, b) = of_item(head * width, item, pairs, order);
        let (da, db) = turned_back(dy, cos, sin, place, item, pairs, order);
        let (xa, xb) = (wide(x[start + a]), wide(x[start + b]));
        squares += xa * xa;
        products += da * (wide(weight[a]) + offset) * xa;
        if item < pairs {
            squares += xb * xb;
            products += db * (wide(weight[b]) + offset) * xb;
        }
        at += units;
    }
    let r = rstd_of(squares, sizes.of_row * width, eps, units);
    if UNIT_POS == 0 {
        rstd[row] = r;
    }
    let projection = sum_of_cube(products.vector_sum(), units);
    let (r, along) = along(r, projection, sizes.of_row * width);
    let mut at = UNIT_POS as usize;
    while at < sizes.of_row * items {
        let (head, item) = (at / items, at % items);
        let place = placed(row * sizes.of_row + head, sizes, order);
        let (a, b) = of_item(head * width, item, pairs, order);
        let (da, db) = turned_back(dy, cos, sin, place, item, pairs, order);
        let (xa, xb) = (wide(x[start + a]), wide(x[start + b]));
        dx[start + a] = narrow(r * (da * (wide(weight[a]) + offset) - xa * along));
        if item < pairs {
            dx[start + b] = narrow(r * (db * (wide(weight[b]) + offset) - xb * along));
        }
        at += units;
    }
}

/// Writes the sum of the weight's gradient over one part of the rows: a unit for each item of a row, and cubes along y for
/// the parts.
#[cube(launch_unchecked)]
pub(super) fn weight_gradient<E: Float, T: Float, N: Size>(
    dy: &[Vector<E, N>],
    x: &[Vector<E, N>],
    cos: &[Vector<T, N>],
    sin: &[Vector<T, N>],
    rstd: &[f32],
    sums: &mut [Vector<f32, N>],
    sizes: &Sizes,
    rows_of_part: usize,
    #[comptime] order: Order,
    #[define(E, T)] _elements: [ElemType; 2],
) {
    let (pairs, items) = (sizes.pairs, sizes.pairs + sizes.rest);
    let column = ABSOLUTE_POS_X as usize;
    if column >= sizes.of_row * items {
        terminate!();
    }
    let vectors = sizes.of_row * (pairs + items);
    let (head, item) = (column / items, column % items);
    let (a, b) = of_item(head * (pairs + items), item, pairs, order);
    let part = CUBE_POS_Y as usize;
    let first = part * rows_of_part;
    let end = min(first + rows_of_part, sizes.rows);
    let mut sum_a = Vector::<f32, N>::new(0.0);
    let mut sum_b = Vector::<f32, N>::new(0.0);
    for row in first..end {
        let place = placed(row * sizes.of_row + head, sizes, order);
        let (da, db) = turned_back(dy, cos, sin, place, item, pairs, order);
        let r = Vector::new(rstd[row]);
        sum_a += wide(x[row * vectors + a]) * r * da;
        sum_b += wide(x[row * vectors + b]) * r * db;
    }
    sums[part * vectors + a] = sum_a;
    if item < pairs {
        sums[part * vectors + b] = sum_b;
    }
}

/// Returns the place of a head in the result, and the places of its angles in the cosines and in the sines.
#[cube]
fn placed(head: usize, sizes: &Sizes, #[comptime] order: Order) -> (usize, usize, usize) {
    let (of_token, above) = (head % sizes.heads, head / sizes.heads);
    let (token, sequence) = (above % sizes.tokens, above / sizes.tokens);
    let head = if comptime!(order.tokens_last) {
        (sequence * sizes.heads + of_token) * sizes.tokens + token
    } else {
        head
    };
    let angles = token * sizes.token;
    (
        head * (2 * sizes.pairs + sizes.rest),
        angles + sequence * sizes.cos,
        angles + sequence * sizes.sin,
    )
}

/// Returns the places of an item in `x`. Both are the same for a vector of the rest.
#[cube]
fn of_item(start: usize, item: usize, pairs: usize, #[comptime] order: Order) -> (usize, usize) {
    let (a, b) = places(start, item, pairs, comptime!(order.write));
    let rest = start + pairs + item;
    (select(item < pairs, a, rest), select(item < pairs, b, rest))
}

/// Returns the gradients of the normalised vectors of an item. Both are the same for a vector of the rest.
#[cube]
fn turned_back<E: Float, T: Float, N: Size>(
    dy: &[Vector<E, N>],
    cos: &[Vector<T, N>],
    sin: &[Vector<T, N>],
    place: (usize, usize, usize),
    item: usize,
    pairs: usize,
    #[comptime] order: Order,
) -> (Vector<f32, N>, Vector<f32, N>) {
    let (start, in_cos, in_sin) = place;
    let rest = start + pairs + item;
    let (a, b) = places(start, item, pairs, comptime!(order.read));
    let (a, b) = (select(item < pairs, a, rest), select(item < pairs, b, rest));
    // The rest has no angles. Those of the first pair are read instead, and not used.
    let of_angles = select(item < pairs, item, 0);
    let (da, db) = (wide(dy[a]), wide(dy[b]));
    let rows = (in_cos, in_sin);
    let (first, second) = turn((da, db), cos, sin, rows, of_angles, pairs, order);
    (
        select(item < pairs, first, da),
        select(item < pairs, second, db),
    )
}
