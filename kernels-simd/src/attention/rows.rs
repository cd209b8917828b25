//! Passes over the rows of a block of queries: they are collected from tensors and transposed.

use super::lanes::Lanes;
use super::view::Heads;
use crate::lanes::{Task, dispatch};
use crate::product::{Gemm, Transpose};
use crate::{Context, Element, LANES, Lanes as _, Read, Real, Terms, Whole, block, sum_of_terms};

/// Collects the rows of the queries, times a factor, one after the other. Rows of the padding are zero.
pub(super) fn gather<T: Element>(
    lanes: &Lanes,
    heads: &Heads<'_, T>,
    factor: T::Acc,
    to: &mut Vec<T::Acc>,
) where
    T::Acc: Gemm,
{
    to.resize(lanes.len() * heads.width(), Gemm::ZERO);
    if to.is_empty() {
        return;
    }
    dispatch(Gather {
        lanes,
        heads,
        factor,
        to,
    });
}

struct Gather<'a, T: Element> {
    lanes: &'a Lanes,
    heads: &'a Heads<'a, T>,
    factor: T::Acc,
    to: &'a mut [T::Acc],
}

impl<T: Element> Task for Gather<'_, T> {
    type Acc = T::Acc;
    type Output = ();

    #[inline(always)]
    fn run<C: Context>(self, c: C) {
        let factor = C::Of::splat(c, self.factor);
        let (queries, width) = (self.lanes.queries(), self.heads.width());
        let (rows, padding) = self.to.split_at_mut(queries.len() * width);
        for (to, (head, query)) in rows.chunks_exact_mut(width).zip(queries) {
            let row = self.heads.row(self.lanes.batch, *head, *query);
            let (blocks, rest) = to.as_chunks_mut::<LANES>();
            for (at, to) in blocks.iter_mut().enumerate() {
                *to = (block::<C, T, Whole>(c, row, at) * factor).values();
            }
            for (to, x) in rest.iter_mut().rev().zip(row.iter().rev()) {
                *to = x.load() * self.factor;
            }
        }
        padding.fill(T::Acc::ZERO);
    }
}

/// Transposes `lines` of `length` elements.
pub(super) fn transposed<A: Gemm>(from: &[A], [lines, length]: [usize; 2], to: &mut Vec<A>) {
    to.resize(lines * length, Gemm::ZERO);
    let transpose = Transpose {
        from,
        rows: lines,
        columns: length,
        stride: length,
        to,
        to_stride: lines,
        add: false,
    };
    transpose.run();
}

/// Sums `dy · y` over each query's elements. `dy` has a row for each lane, and sums of the padding are not written.
pub(super) struct SumAlong<'a, T: Element> {
    pub(super) lanes: &'a Lanes,
    pub(super) y: &'a Heads<'a, T>,
    pub(super) dy: &'a [T::Acc],
    pub(super) along: &'a mut [T::Acc],
}

impl<T: Element> Task for SumAlong<'_, T> {
    type Acc = T::Acc;
    type Output = ();

    #[inline(always)]
    fn run<C: Context>(self, c: C) {
        let width = self.y.width();
        let queries = self.lanes.queries().iter().enumerate();
        for ((lane, (head, query)), along) in queries.zip(self.along) {
            let terms = Products {
                c,
                left: self.y.row(self.lanes.batch, *head, *query),
                right: &self.dy[lane * width..][..width],
            };
            [*along] = sum_of_terms(c, width, &terms);
        }
    }
}

struct Products<'a, T: Element, C> {
    c: C,
    left: &'a [T],
    right: &'a [T::Acc],
}

impl<T: Element, C: Context> Terms<T::Acc, C, 1> for Products<'_, T, C> {
    #[inline(always)]
    fn add<R: Read>(&self, at: usize, [sum]: [C::Of<T::Acc>; 1]) -> [C::Of<T::Acc>; 1] {
        use crate::Number;
        let left = block::<C, T, R>(self.c, self.left, at);
        let right = block::<C, T::Acc, R>(self.c, self.right, at);
        [left.mul_add(right, sum)]
    }
}
