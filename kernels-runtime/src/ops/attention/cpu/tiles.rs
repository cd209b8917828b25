//! The forward pass in tiles, where the machine has them for bf16.
//!
//! Keys and values are copied to tiles once for all queries. The exponentials of a block of scores become tiles in the pass
//! that computes them.

use super::KEYS;
use super::few;
use super::lanes::Lanes;
use super::rows::gather;
use super::scores::{Place, Running, Vectors, adjust, largest_of, scale, vector_of};
use super::view::{View, parts};
use crate::cpu::lanes::{Task, dispatch};
use crate::cpu::product::{Block, Gemm, InCacheLines, Stored, Tiled, TwoParts, multiply_stored};
use crate::cpu::share::map;
use crate::cpu::{Context, Element, LANES, Lanes as _, Number as _};
use std::ops::Range;

const IN_F32: &str = "bf16 is summed in f32";

/// A head of keys and its values, in blocks.
pub(super) struct StoredHead {
    keys: Stored,
    values: Stored,
}

impl StoredHead {
    /// Returns each head of keys, in the order of [`View::kv_heads`], or none if there are no tiles or all blocks of queries
    /// are few.
    pub(super) fn all<T: Element>(view: &View<'_, T>) -> Vec<Self>
    where
        T::Acc: Gemm,
    {
        let few = |rows: &Range<usize>| few::are_few(view, rows.len());
        if Stored::new::<T>().is_none() || view.blocks().iter().all(few) {
            return Vec::new();
        }
        let heads = map(view.kv_heads().collect(), |of| Self::new(view, of));
        heads.into_iter().flatten().collect()
    }

    fn new<T: Element>(view: &View<'_, T>, (batch, head): (usize, usize)) -> Option<Self> {
        let sizes = view.sizes;
        let (mut keys, mut values) = (Stored::new::<T>()?, Stored::new::<T>()?);
        for part in parts(0..sizes.keys) {
            let block = view.k.stored(batch, head, part.start);
            keys.push(block, [part.len(), sizes.width]);
            let block = view.v.stored(batch, head, part.start).transposed();
            values.push_twice(block, [sizes.value_width, part.len()]);
        }
        Some(Self { keys, values })
    }
}

/// The operands of a block of queries, and its results.
pub(super) struct Tiles<'a, A> {
    head: &'a StoredHead,
    /// The queries. They are exact in bf16 before they are scaled, so the scores are scaled in place of them.
    queries: Tiled,
    /// The scale of each lane, if scores are scaled before they are capped or have a bias.
    scales: Option<Vec<A>>,
    /// The scale that is left for the exponentials.
    factor: f32,
    scores: InCacheLines<A>,
    weights: Tiled,
}

impl<'a, A: Gemm> Tiles<'a, A> {
    pub(super) fn new<T: Element<Acc = A>>(
        view: &View<'_, T>,
        lanes: &Lanes,
        head: &'a StoredHead,
    ) -> Option<Self> {
        let (count, width) = (lanes.len(), view.sizes.width);
        let mut rows = Vec::new();
        gather(lanes, &view.q, A::ONE, &mut rows);
        let mut queries = Tiled::new::<T>()?;
        queries.right(Block::rows(&rows, width).transposed(), [width, count]);
        let is_last = view.cap.is_none() && view.bias.is_none();
        let factor = A::as_f32(&[view.scale]).map(|scale| scale[0]);
        // A scale below zero would turn the order of the scores.
        let factor = factor.filter(|factor| is_last && *factor > 0.0);
        Some(Self {
            head,
            queries,
            scales: factor.is_none().then(|| vec![view.scale; count]),
            factor: factor.unwrap_or(1.0),
            scores: InCacheLines::zeros(KEYS * count),
            weights: Tiled::new::<T>()?,
        })
    }

    /// Adds all keys to the weighted sums of values, `value width × lanes`.
    pub(super) fn add_all<T: Element<Acc = A>>(
        &mut self,
        view: &View<'_, T>,
        lanes: &Lanes,
        running: &mut Running<A>,
        sums: &mut [A],
    ) {
        let seen = lanes.all_keys();
        for keys in parts(seen.start / KEYS * KEYS..seen.end) {
            let seeing = lanes.that_see(&keys);
            if !seeing.is_empty() {
                let place = Place {
                    stride: lanes.len(),
                    lanes: seeing,
                    keys,
                };
                self.add(view, lanes, &place, running, sums);
            }
        }
    }

    fn add<T: Element<Acc = A>>(
        &mut self,
        view: &View<'_, T>,
        lanes: &Lanes,
        place: &Place,
        running: &mut Running<A>,
        sums: &mut [A],
    ) {
        let (stride, keys) = (place.stride, &place.keys);
        let index = keys.start / KEYS;
        let operand = (&self.head.keys, index, keys.len());
        let scores = &mut self.scores.values()[..keys.len() * stride];
        multiply_stored(operand, &self.queries, (&mut *scores, stride), false);
        if let Some(scales) = &self.scales {
            scale(scores, stride, place.lanes.clone(), scales);
        }
        adjust(view, lanes, place, scores, None);
        // The stored block may have more keys, whose weights are zero.
        let stored = KEYS.min(view.sizes.keys - index * KEYS);
        let changed = dispatch(Add {
            place,
            scores: A::as_f32(scores).expect(IN_F32),
            factor: self.factor,
            running: running.in_vectors().in_f32().expect(IN_F32),
            weights: self.weights.two_parts([stored, stride]),
        });
        if changed {
            scale(sums, stride, place.lanes.clone(), &running.factors);
        }
        let operand = (&self.head.values, index, view.sizes.value_width);
        multiply_stored(operand, &self.weights, (sums, stride), true);
    }
}

/// Computes as [`Running::add`] does, of scores times a factor, and writes the exponentials as an operand in tiles.
struct Add<'a> {
    place: &'a Place,
    scores: &'a [f32],
    factor: f32,
    running: Vectors<'a, f32>,
    weights: TwoParts<'a>,
}

impl Task for Add<'_> {
    type Acc = f32;
    type Output = bool;

    #[inline(always)]
    fn run<C: Context>(mut self, c: C) -> bool {
        let stride = self.place.stride;
        let factor = C::Of::<f32>::splat(c, self.factor);
        let zero = factor.like(0.0);
        let mut changed = false;
        let mut first = 0;
        while let Some([upper, rest]) = self.weights.next() {
            let lane = first;
            first += LANES;
            if !self.place.lanes.contains(&lane) {
                upper.fill([0.0; LANES]);
                rest.fill([0.0; LANES]);
                continue;
            }
            let most = largest_of(c, self.scores, stride, lane) * factor;
            let base = self.running.raise(c, lane, most);
            let mut sums = zero;
            let mut lines = upper.iter_mut().zip(rest);
            let mut pairs = self.scores.chunks_exact(2 * stride);
            for (scores, (upper, rest)) in (&mut pairs).zip(&mut lines) {
                let (first, second) = scores.split_at(stride);
                let first = vector_of(c, first, lane) * factor - base;
                let second = vector_of(c, second, lane) * factor - base;
                let (first, second) = (first.exp(), second.exp());
                sums = sums + (first + second);
                [*upper, *rest] = c.to_bf16_and_rest(first, second);
            }
            // An odd last key has no other. A line is taken only for it: those that are left must become zeros.
            let odd = pairs.remainder();
            if !odd.is_empty()
                && let Some((upper, rest)) = lines.next()
            {
                let last = (vector_of(c, odd, lane) * factor - base).exp();
                sums = sums + last;
                [*upper, *rest] = c.to_bf16_and_rest(last, zero);
            }
            for (upper, rest) in lines {
                (*upper, *rest) = ([0.0; LANES], [0.0; LANES]);
            }
            changed |= self.running.add_sums(c, lane, sums);
        }
        changed
    }
}
