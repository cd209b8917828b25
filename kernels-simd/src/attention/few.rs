//! Few queries, as in decoding: each key and value is read once, at the rate of the memory.
//!
//! The products of blocks would compute a whole vector of queries, most of them padding. Here the elements of a head are
//! the lanes.

use super::KEYS;
use super::lanes::Lanes;
use super::rows::gather;
use super::scores::{Place, Running, adjust};
use super::view::{Heads, View, parts};
use crate::lanes::{Padded, Task, dispatch};
use crate::product::Gemm;
use crate::{Context, Element, LANES, Lanes as _, Number, Read, Real, Whole, block, prefetch};
use std::ops::Range;

/// The largest number of queries that are few.
const FEW: usize = 8;

/// The numbers of keys and of queries whose products are computed together, while they are in registers.
const TOGETHER: usize = 4;

const _: () = assert!(TOGETHER * TOGETHER == LANES, "the products fill a vector");

/// Returns whether a block of so many queries has few.
pub(super) fn are_few<T: Element>(view: &View<'_, T>, count: usize) -> bool {
    count <= FEW && view.sizes.width > 0 && view.sizes.value_width > 0
}

/// Returns the weighted sums of values, a row for each query.
pub(super) fn sums<T: Element>(
    view: &View<'_, T>,
    lanes: &Lanes,
    (batch, kv_head): (usize, usize),
    running: &mut Running<T::Acc>,
) -> Vec<T::Acc>
where
    T::Acc: Gemm,
{
    let zero = <T::Acc as Gemm>::ZERO;
    let (stride, width, value_width) = (lanes.len(), view.sizes.width, view.sizes.value_width);
    let mut queries = Vec::new();
    gather(lanes, &view.q, view.scale, &mut queries);
    let mut scores = vec![zero; KEYS * stride];
    let mut sums = vec![zero; lanes.count * value_width];
    for keys in parts(lanes.all_keys(), KEYS) {
        if lanes.that_see(&keys).is_empty() {
            continue;
        }
        let place = Place {
            stride,
            lanes: 0..stride,
            keys,
        };
        let rows = |heads| Rows {
            heads,
            of: (batch, kv_head),
            range: place.keys.clone(),
            count: view.sizes.keys,
        };
        dispatch(Scores {
            keys: rows(&view.k),
            queries: &queries[..lanes.count * width],
            scores: &mut scores,
            stride,
        });
        adjust(view, lanes, &place, &mut scores, None);
        let changed = running.add(&place, &mut scores);
        dispatch(Add {
            values: rows(&view.v),
            weights: &scores,
            stride,
            factors: changed.then_some(&running.factors),
            sums: &mut sums,
        });
    }
    sums
}

/// Some rows of a head of keys or values.
struct Rows<'a, T> {
    heads: &'a Heads<'a, T>,
    /// The sequence and the head.
    of: (usize, usize),
    range: Range<usize>,
    /// The number of rows of the head.
    count: usize,
}

/// The number of rows between a row and the one that is prefetched. Rows of a head may be far apart, which processors do
/// not foresee.
const AHEAD: usize = 16;

impl<'a, T: Element> Rows<'a, T> {
    #[inline(always)]
    fn row(&self, row: usize) -> &'a [T] {
        let ahead = row + AHEAD;
        if ahead < self.count {
            prefetch(self.heads.row(self.of.0, self.of.1, ahead));
        }
        self.heads.row(self.of.0, self.of.1, row)
    }

    /// Returns `K` rows. Behind the last row of the range, it is repeated.
    #[inline(always)]
    fn rows<const K: usize>(&self, first: usize) -> [&'a [T]; K] {
        let last = self.range.end - 1;
        let mut rows = [&[][..]; K];
        for (i, row) in rows.iter_mut().enumerate() {
            *row = self.row(last.min(first + i));
        }
        rows
    }

    /// Returns the numbers of the first rows, by [`TOGETHER`].
    fn starts(&self) -> impl Iterator<Item = usize> + use<T> {
        self.range.clone().step_by(TOGETHER)
    }
}

/// Reads a block of each row.
#[inline(always)]
fn blocks<C: Context, T: Element, B: Read, const K: usize>(
    c: C,
    rows: &[&[T]; K],
    at: usize,
) -> [C::Of<T::Acc>; K] {
    let mut blocks = [C::Of::<T::Acc>::splat(c, T::Acc::ZERO); K];
    for (lanes, row) in blocks.iter_mut().zip(rows) {
        *lanes = block::<C, T, B>(c, row, at);
    }
    blocks
}

/// Computes the scores of a block: one line for each key, one lane for each query. Other lanes become zero.
struct Scores<'a, T: Element> {
    keys: Rows<'a, T>,
    queries: &'a [T::Acc],
    scores: &'a mut [T::Acc],
    stride: usize,
}

impl<T: Element> Task for Scores<'_, T> {
    type Acc = T::Acc;
    type Output = ();

    #[inline(always)]
    fn run<C: Context>(self, c: C) {
        let lines = self.keys.range.len() * self.stride;
        self.scores[..lines].fill(T::Acc::ZERO);
        for first in self.keys.starts() {
            let keys = self.keys.rows::<TOGETHER>(first);
            let count = TOGETHER.min(self.keys.range.end - first);
            let line = (first - self.keys.range.start) * self.stride;
            let groups = self.queries.chunks(TOGETHER * keys[0].len());
            for (group, queries) in groups.enumerate() {
                let totals = products(c, &keys, queries);
                let lanes = queries.len() / keys[0].len();
                for (key, totals) in totals.chunks_exact(TOGETHER).take(count).enumerate() {
                    let start = line + key * self.stride + group * TOGETHER;
                    self.scores[start..][..lanes].copy_from_slice(&totals[..lanes]);
                }
            }
        }
    }
}

/// Returns the products of some keys with up to [`TOGETHER`] queries, those of the first key first.
#[inline(always)]
fn products<C: Context, T: Element>(
    c: C,
    keys: &[&[T]; TOGETHER],
    queries: &[T::Acc],
) -> [T::Acc; LANES] {
    let (width, zero) = (keys[0].len(), C::Of::<T::Acc>::splat(c, T::Acc::ZERO));
    let last = queries.len() / width - 1;
    let queries: [_; TOGETHER] =
        std::array::from_fn(|query| &queries[query.min(last) * width..][..width]);
    let mut sums = [zero; LANES];
    for at in 0..width / LANES {
        sums = add_products::<C, T, Whole>(c, keys, &queries, at, sums);
    }
    if !width.is_multiple_of(LANES) {
        sums = add_products::<C, T, Padded>(c, keys, &queries, width / LANES, sums);
    }
    C::Of::<T::Acc>::totals(sums)
}

#[inline(always)]
fn add_products<C: Context, T: Element, B: Read>(
    c: C,
    keys: &[&[T]; TOGETHER],
    queries: &[&[T::Acc]; TOGETHER],
    at: usize,
    mut sums: [C::Of<T::Acc>; LANES],
) -> [C::Of<T::Acc>; LANES] {
    let keys = blocks::<C, T, B, _>(c, keys, at);
    for (query, row) in queries.iter().enumerate() {
        let values = C::Of::<T::Acc>::read(c, &B::block(row, at));
        for (key, key_values) in keys.into_iter().enumerate() {
            let sum = &mut sums[key * TOGETHER + query];
            *sum = key_values.mul_add(values, *sum);
        }
    }
    sums
}

/// Adds the weighted values of a block to the sums, which are multiplied by the factors first. Sums are one row for each
/// query.
struct Add<'a, T: Element> {
    values: Rows<'a, T>,
    weights: &'a [T::Acc],
    stride: usize,
    factors: Option<&'a Vec<T::Acc>>,
    sums: &'a mut [T::Acc],
}

impl<T: Element> Task for Add<'_, T> {
    type Acc = T::Acc;
    type Output = ();

    #[inline(always)]
    fn run<C: Context>(mut self, c: C) {
        let width = self.values.heads.width();
        if let Some(factors) = self.factors {
            for (sums, factor) in self.sums.chunks_exact_mut(width).zip(factors) {
                for sum in sums {
                    *sum = *sum * *factor;
                }
            }
        }
        let end = self.values.range.end;
        for first in self.values.starts() {
            if first + TOGETHER <= end {
                self.add::<C, TOGETHER>(c, first);
            } else {
                (first..end).for_each(|key| self.add::<C, 1>(c, key));
            }
        }
    }
}

impl<T: Element> Add<'_, T> {
    /// Adds `K` values to the sums of all queries.
    #[inline(always)]
    fn add<C: Context, const K: usize>(&mut self, c: C, first: usize) {
        let width = self.values.heads.width();
        let rows = self.values.rows::<K>(first);
        let line = (first - self.values.range.start) * self.stride;
        let groups = self.sums.chunks_mut(TOGETHER * width);
        for (group, sums) in groups.enumerate() {
            // Lines have whole vectors of queries, so a group has all its weights.
            let mut weights = [[C::Of::<T::Acc>::splat(c, T::Acc::ZERO); K]; TOGETHER];
            for (query, weights) in weights.iter_mut().enumerate() {
                for (key, weight) in weights.iter_mut().enumerate() {
                    let place = line + key * self.stride + group * TOGETHER + query;
                    *weight = C::Of::<T::Acc>::splat(c, self.weights[place]);
                }
            }
            for at in 0..width / LANES {
                let values = blocks::<C, T, Whole, K>(c, &rows, at);
                for (sums, weights) in sums.chunks_exact_mut(width).zip(&weights) {
                    let sums = &mut sums.as_chunks_mut::<LANES>().0[at];
                    let before = C::Of::<T::Acc>::read(c, sums);
                    *sums = weighted(before, &values, weights).values();
                }
            }
            if !width.is_multiple_of(LANES) {
                let at = width / LANES;
                let values = blocks::<C, T, Padded, K>(c, &rows, at);
                for (sums, weights) in sums.chunks_exact_mut(width).zip(&weights) {
                    let before = C::Of::<T::Acc>::read(c, &Padded::block(sums, at));
                    let after = weighted(before, &values, weights).values();
                    let rest = sums.as_chunks_mut::<LANES>().1;
                    rest.copy_from_slice(&after[..rest.len()]);
                }
            }
        }
    }
}

/// Adds weighted values to a sum.
#[inline(always)]
fn weighted<V: Number, const K: usize>(sum: V, values: &[V; K], weights: &[V; K]) -> V {
    let mut sum = sum;
    for (value, weight) in values.iter().zip(weights) {
        sum = value.mul_add(*weight, sum);
    }
    sum
}
