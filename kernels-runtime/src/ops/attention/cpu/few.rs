//! Few queries, as in decoding: each key and value is read once, at the rate of the memory.
//!
//! The products of blocks would compute a whole vector of queries, most of them padding. Here the elements of a head are
//! the lanes.

use super::KEYS;
use super::lanes::{Lanes, transposed};
use super::scores::{Place, Running, adjust};
use super::view::{Heads, View, parts};
use crate::cpu::product::Gemm;
use crate::cpu::{Element, sum_of};
use std::ops::Range;

/// The largest number of queries that are few.
const FEW: usize = 8;

/// The number of values that are added to a sum while it is in registers.
const VALUES: usize = 4;

/// Returns whether the queries are few.
pub(super) fn are_few<T: Element>(view: &View<'_, T>, lanes: &Lanes) -> bool {
    lanes.count <= FEW && view.sizes.width > 0 && view.sizes.value_width > 0
}

/// Returns the weighted sums of values, one line for each element and one lane for each query.
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
    lanes.gather(&view.q, width, view.scale, &mut queries);
    let mut scores = vec![zero; KEYS * stride];
    let mut sums = vec![zero; stride * value_width];
    let arch = pulp::Arch::new();
    for keys in parts(lanes.all_keys()) {
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
        };
        arch.dispatch(Scores {
            keys: rows(&view.k),
            queries: &queries[..lanes.count * width],
            scores: &mut scores,
            stride,
        });
        adjust(view, lanes, &place, &mut scores, None);
        let changed = running.add(&place, &mut scores);
        arch.dispatch(Add {
            values: rows(&view.v),
            weights: &scores,
            stride,
            factors: changed.then_some(&running.factors),
            sums: &mut sums[..lanes.count * value_width],
        });
    }
    let mut lines = Vec::new();
    transposed(&sums, [stride, value_width], &mut lines);
    lines
}

/// Some rows of a head of keys or values.
struct Rows<'a, T> {
    heads: &'a Heads<'a, T>,
    /// The sequence and the head.
    of: (usize, usize),
    range: Range<usize>,
}

impl<'a, T: Element> Rows<'a, T> {
    #[inline(always)]
    fn row(&self, row: usize) -> &'a [T] {
        self.heads.row(self.of.0, self.of.1, row)
    }
}

/// Computes the scores of a block: one line for each key, one lane for each query. Other lanes become zero.
struct Scores<'a, T: Element> {
    keys: Rows<'a, T>,
    queries: &'a [T::Acc],
    scores: &'a mut [T::Acc],
    stride: usize,
}

impl<T: Element> pulp::WithSimd for Scores<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _: S) {
        let lines = self.scores.chunks_exact_mut(self.stride);
        for (line, key) in lines.zip(self.keys.range.clone()) {
            let key = self.keys.row(key);
            line.fill(crate::cpu::Real::ZERO);
            let queries = self.queries.chunks_exact(key.len());
            for (score, query) in line.iter_mut().zip(queries) {
                *score = sum_of(key, query, query, |key: T, query, _| key.load() * query);
            }
        }
    }
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

impl<T: Element> pulp::WithSimd for Add<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _: S) {
        let width = self.values.heads.width();
        if let Some(factors) = self.factors {
            for (sums, factor) in self.sums.chunks_exact_mut(width).zip(factors) {
                for sum in sums {
                    *sum = *sum * *factor;
                }
            }
        }
        let Range { start, end } = self.values.range;
        let weight = |key: usize, lane: usize| self.weights[(key - start) * self.stride + lane];
        let mut key = start;
        while key + VALUES <= end {
            let [a, b, c, d]: [_; VALUES] = std::array::from_fn(|i| self.values.row(key + i));
            for (lane, sums) in self.sums.chunks_exact_mut(width).enumerate() {
                let p: [_; VALUES] = std::array::from_fn(|i| weight(key + i, lane));
                let values = a.iter().zip(b).zip(c.iter().zip(d));
                for (sum, ((a, b), (c, d))) in sums.iter_mut().zip(values) {
                    let first = p[0] * a.load() + p[1] * b.load();
                    *sum += first + (p[2] * c.load() + p[3] * d.load());
                }
            }
            key += VALUES;
        }
        for key in key..end {
            let values = self.values.row(key);
            for (lane, sums) in self.sums.chunks_exact_mut(width).enumerate() {
                let p = weight(key, lane);
                for (sum, value) in sums.iter_mut().zip(values) {
                    *sum += p * value.load();
                }
            }
        }
    }
}
