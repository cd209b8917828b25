//! The kernel: a unit of a cube turns one vector of pairs, or copies one vector of the rest of a head.

use crate::gpu::elements::{narrow, wide};
use crate::gpu::parts::{apart, by_turns};
use burn_cubecl::cubecl;
use burn_cubecl::cubecl::prelude::*;

/// The places of the elements of a pair in a row of `w` elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::ops) enum Places {
    /// Elements `i` and `i + w/2`.
    Halves,
    /// Elements `2i` and `2i + 1`.
    Neighbours,
    /// One element for both, `i`.
    Same,
}

/// The variant of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::ops) struct Order {
    pub(in crate::ops) read: Places,
    pub(in crate::ops) write: Places,
    pub(in crate::ops) table: Places,
    /// True if heads are rotated back, for gradients.
    pub(in crate::ops) is_backward: bool,
    /// True if the tokens are on the third axis, false if they are on the second.
    pub(in crate::ops) tokens_last: bool,
}

/// The sizes of a call, in vectors where they are along a head.
#[derive(CubeType, CubeLaunch)]
pub(super) struct Sizes {
    /// The number of vectors of results.
    all: usize,
    /// The sizes of the second and the third axis.
    second: usize,
    third: usize,
    /// The strides of the first three axes.
    strides: Sequence<usize>,
    /// The number of vectors of pairs of a head, and of the elements that stay.
    pairs: usize,
    rest: usize,
    /// The distance of two tokens in a table, and of two sequences in the cosines and in the sines: 0 if all share one.
    token: usize,
    cos: usize,
    sin: usize,
}

/// Writes the rotated heads. The tables may have elements of another type.
#[cube(launch_unchecked)]
pub(super) fn rotate<E: Float, T: Float, N: Size>(
    x: &Tensor<Vector<E, N>>,
    cos: &[Vector<T, N>],
    sin: &[Vector<T, N>],
    y: &mut [Vector<E, N>],
    sizes: &Sizes,
    #[comptime] order: Order,
    #[define(E, T)] _elements: [ElemType; 2],
) {
    let items = sizes.pairs + sizes.rest;
    let row = ABSOLUTE_POS / items;
    let item = ABSOLUTE_POS % items;
    if row >= sizes.all / items {
        terminate!();
    }
    let third = row % sizes.third;
    let above = row / sizes.third;
    let (second, first) = (above % sizes.second, above / sizes.second);
    let from = first * *sizes.strides.index(0)
        + second * *sizes.strides.index(1)
        + third * *sizes.strides.index(2);
    let to = row * (2 * sizes.pairs + sizes.rest);
    if item < sizes.pairs {
        let token = if comptime!(order.tokens_last) {
            third
        } else {
            second
        };
        let angles = token * sizes.token;
        let (in_cos, in_sin) = (angles + first * sizes.cos, angles + first * sizes.sin);
        let (a, b) = places(from, item, sizes.pairs, comptime!(order.read));
        let rows = (in_cos, in_sin);
        let (first, second) = turn(
            (wide(x[a]), wide(x[b])),
            cos,
            sin,
            rows,
            item,
            sizes.pairs,
            order,
        );
        let (a, b) = places(to, item, sizes.pairs, comptime!(order.write));
        y[a] = narrow(first);
        y[b] = narrow(second);
    } else {
        let at = sizes.pairs + item;
        y[to + at] = x[from + at];
    }
}

/// Turns a vector of pairs, given the two vectors that it is read from, by the angles of rows of the tables, which begin at
/// two places. Returns the two vectors to write.
#[cube]
pub(in crate::ops) fn turn<T: Float, N: Size>(
    pair: (Vector<f32, N>, Vector<f32, N>),
    cos: &[Vector<T, N>],
    sin: &[Vector<T, N>],
    rows: (usize, usize),
    item: usize,
    pairs: usize,
    #[comptime] order: Order,
) -> (Vector<f32, N>, Vector<f32, N>) {
    let (in_cos, in_sin) = rows;
    let (c1, c2) = read(cos, in_cos, item, pairs, comptime!(order.table));
    let (s1, s2) = read(sin, in_sin, item, pairs, comptime!(order.table));
    let (a, b) = pair;
    let (x1, x2) = ordered(a, b, comptime!(order.read));
    let (y1, y2) = if comptime!(order.is_backward) {
        (x1 * c1 + x2 * s2, x2 * c2 - x1 * s1)
    } else {
        (x1 * c1 - x2 * s1, x2 * c2 + x1 * s2)
    };
    if comptime!(order.write == Places::Neighbours) {
        by_turns(y1, y2)
    } else {
        (y1, y2)
    }
}

/// Returns the places of the two vectors that a vector of pairs is in.
#[cube]
pub(in crate::ops) fn places(
    start: usize,
    item: usize,
    pairs: usize,
    #[comptime] places: Places,
) -> (usize, usize) {
    match comptime!(places) {
        Places::Halves => (start + item, start + pairs + item),
        Places::Neighbours => (start + 2 * item, start + 2 * item + 1),
        Places::Same => (start + item, start + item),
    }
}

/// Returns the first and the second elements of pairs, given the two vectors that they are in.
#[cube]
fn ordered<N: Size>(
    a: Vector<f32, N>,
    b: Vector<f32, N>,
    #[comptime] places: Places,
) -> (Vector<f32, N>, Vector<f32, N>) {
    if comptime!(places == Places::Neighbours) {
        apart(a, b)
    } else {
        (a, b)
    }
}

/// Returns the elements of a table for the first and the second results of pairs.
#[cube]
fn read<T: Float, N: Size>(
    table: &[Vector<T, N>],
    start: usize,
    item: usize,
    pairs: usize,
    #[comptime] order: Places,
) -> (Vector<f32, N>, Vector<f32, N>) {
    let (a, b) = places(start, item, pairs, order);
    ordered(wide(table[a]), wide(table[b]), order)
}
