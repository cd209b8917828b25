//! The forward pass in tiles, where the machine has them.
//!
//! Keys and values are copied to tiles once for all queries. In bf16, the exponentials of a block of scores become tiles in
//! the pass that computes them.

use super::few;
use super::lanes::Lanes;
use super::rows::gather;
use super::scores::{Place, Running, Vectors, adjust, clear_others, largest_of, scale, vector_of};
use super::view::{View, parts};
use crate::lanes::{Task, dispatch};
use crate::product::{
    Block, Columns, Gemm, InCacheLines, Stored, Tiled, TwoParts, multiply_stored,
};
use crate::share::map;
use crate::threads::threads;
use crate::{Context, Element, LANES, Lanes as _, Number as _};
use std::num::NonZeroUsize;
use std::ops::Range;

const IN_F32: &str = "bf16 is summed in f32";

/// The number of bytes of heads that are copied at a time, unless there are more threads than such heads.
const MEMORY: usize = 4 << 20;

/// A head of keys and its values, in blocks.
pub(super) struct StoredHead {
    keys: Stored,
    values: Stored,
}

impl StoredHead {
    /// Returns the number of heads of keys that are copied at a time, which bounds their memory. Returns `None` without
    /// tiles for them, or if all blocks of queries are few.
    pub(super) fn together<T: Element>(view: &View<'_, T>) -> Option<NonZeroUsize>
    where
        T::Acc: Gemm,
    {
        let few = |rows: &Range<usize>| few::are_few(view, rows.len());
        if !are_for(view) || view.blocks().iter().all(few) {
            return None;
        }
        let sizes = view.sizes;
        // Those of three parts of f32, or of keys in bf16 and values that are there twice.
        let bytes = 3 * size_of::<T>() / 2 * (sizes.width + sizes.value_width) * sizes.keys;
        NonZeroUsize::new((MEMORY / bytes.max(1)).max(threads()))
    }

    /// Returns some heads of keys, or `None` for those that tiles can't hold.
    pub(super) fn all<T: Element>(view: &View<'_, T>, heads: &[(usize, usize)]) -> Vec<Option<Self>>
    where
        T::Acc: Gemm,
    {
        map(heads.to_vec(), |of| Self::new(view, of))
    }

    fn new<T: Element>(view: &View<'_, T>, (batch, head): (usize, usize)) -> Option<Self> {
        let sizes = view.sizes;
        let (mut keys, mut values) = (Stored::new::<T>()?, Stored::new::<T>()?);
        keys.reserve([sizes.keys, sizes.width]);
        let copies = if values.are_exact() { 1 } else { 2 };
        values.reserve([sizes.value_width, copies * sizes.keys]);
        for part in parts(0..sizes.keys, view.keys) {
            let block = view.k.stored(batch, head, part.start);
            keys.push(block, [part.len(), sizes.width]);
            let block = view.v.stored(batch, head, part.start).transposed();
            let sizes = [sizes.value_width, part.len()];
            match values.are_exact() {
                true => values.push(block, sizes),
                false => values.push_twice(block, sizes),
            }
        }
        let is_in_range = keys.is_in_range() && values.is_in_range();
        is_in_range.then_some(Self { keys, values })
    }
}

/// The least width of heads in f32 for which tiles are faster: probabilities and gradients of scores are copied to three parts,
/// which costs as much as narrower heads gain.
const LEAST_WIDTH: usize = 64;

/// Returns whether this machine has tiles for the operands, and is faster with them.
pub(super) fn are_for<T: Element>(view: &View<'_, T>) -> bool
where
    T::Acc: Gemm,
{
    let sizes = view.sizes;
    let least = sizes.width.min(sizes.value_width);
    Tiled::new::<T>().is_some_and(|tiled| !tiled.are_exact() || least >= LEAST_WIDTH)
}

/// The operands of a block of queries, and its results.
pub(super) struct Tiles<'a, A> {
    head: &'a StoredHead,
    /// The queries. In bf16, they are exact before they are scaled, so the scores are scaled in place of them.
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
        let (mut queries, weights) = (Tiled::new::<T>()?, Tiled::new::<T>()?);
        let are_exact = queries.are_exact();
        let mut rows = Vec::new();
        let scale = if are_exact { view.scale } else { A::ONE };
        gather(lanes, &view.q, scale, &mut rows);
        queries.right(Block::rows(&rows, width).transposed(), [width, count]);
        if !queries.is_in_range() {
            return None;
        }
        let is_last = view.cap.is_none() && view.bias.is_none();
        let factor = A::as_f32(&[view.scale]).map(|scale| scale[0]);
        // A scale below zero would turn the order of the scores.
        let factor = factor.filter(|factor| is_last && *factor > 0.0);
        Some(Self {
            head,
            queries,
            scales: (!are_exact && factor.is_none()).then(|| vec![view.scale; count]),
            factor: factor.unwrap_or(1.0),
            scores: InCacheLines::zeros(view.keys * count),
            weights,
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
        for keys in lanes.blocks_of_keys(true) {
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
        let (stride, keys, columns) = (place.stride, &place.keys, whole_columns(&place.lanes));
        let index = keys.start / view.keys;
        let operand = (&self.head.keys, index, keys.len());
        let scores = &mut self.scores.values()[..keys.len() * stride];
        let to = (&mut scores[columns.start..], stride);
        multiply_stored(operand, self.queries.columns(columns.clone()), to, false);
        if let Some(scales) = &self.scales {
            scale(scores, stride, place.lanes.clone(), scales);
        }
        adjust(view, lanes, place, scores, None);
        // The stored block may have more keys, whose weights are zero.
        let stored = view.keys.min(view.sizes.keys - index * view.keys);
        let changed = match self.weights.are_exact() {
            true => self.take_weights(place, stored, running),
            false => dispatch(Add {
                place,
                scores: A::as_f32(scores).expect(IN_F32),
                factor: self.factor,
                running: running.in_vectors().in_f32().expect(IN_F32),
                first: columns.start,
                weights: self.weights.two_parts([stored, columns.len()]),
            }),
        };
        if changed {
            scale(sums, stride, place.lanes.clone(), &running.factors);
        }
        let operand = (&self.head.values, index, view.sizes.value_width);
        // Values of no elements have no lines.
        let from = columns.start.min(sums.len());
        let to = (&mut sums[from..], stride);
        multiply_stored(operand, self.weights.all(), to, true);
    }

    /// Computes the exponentials of scores in f32, and takes them as weights. Returns true if a factor is not 1.
    fn take_weights(&mut self, place: &Place, stored: usize, running: &mut Running<A>) -> bool {
        let (stride, columns) = (place.stride, whole_columns(&place.lanes));
        let scores = self.scores.values();
        let changed = running.add(place, scores);
        clear_others(place, scores);
        scores[place.keys.len() * stride..stored * stride].fill(Gemm::ZERO);
        let scores = Block::rows(&scores[columns.start..], stride);
        self.weights.right(scores, [stored, columns.len()]);
        changed
    }
}

/// Returns lanes that contain the given ones, and begin where columns of tiles do.
pub(super) fn whole_columns(lanes: &Range<usize>) -> Range<usize> {
    lanes.start / Columns::TOGETHER * Columns::TOGETHER..lanes.end
}

/// Computes as [`Running::add`] does, of scores times a factor, and writes the exponentials as an operand in tiles.
struct Add<'a> {
    place: &'a Place,
    scores: &'a [f32],
    factor: f32,
    running: Vectors<'a, f32>,
    /// The lane of the first column of the weights.
    first: usize,
    weights: TwoParts<'a>,
}

impl Task for Add<'_> {
    type Acc = f32;
    type Output = bool;

    #[inline(always)]
    fn run<C: Context>(mut self, c: C) -> bool {
        let stride = self.place.stride;
        let factor = C::Of::<f32>::splat(c, self.factor);
        // Exponentials are powers of two, which take fewer instructions.
        let to_powers = factor.like(std::f64::consts::LOG2_E);
        let (factor_of_powers, zero) = (factor * to_powers, factor.like(0.0));
        let mut changed = false;
        let mut first = self.first;
        while let Some([upper, rest]) = self.weights.next() {
            let lane = first;
            first += LANES;
            if !self.place.lanes.contains(&lane) {
                upper.fill([0.0; LANES]);
                rest.fill([0.0; LANES]);
                continue;
            }
            let most = largest_of(c, self.scores, stride, lane) * factor;
            let base = zero - self.running.raise(c, lane, most) * to_powers;
            let mut sums = zero;
            let mut lines = upper.iter_mut().zip(rest);
            let mut pairs = self.scores.chunks_exact(2 * stride);
            for (scores, (upper, rest)) in (&mut pairs).zip(&mut lines) {
                let (first, second) = scores.split_at(stride);
                let [first, second] = [first, second].map(|line| vector_of(c, line, lane));
                let first = c.power_of_two(first.mul_add(factor_of_powers, base));
                let second = c.power_of_two(second.mul_add(factor_of_powers, base));
                sums = sums + (first + second);
                [*upper, *rest] = c.to_bf16_and_rest(first, second);
            }
            // An odd last key has no other. A line is taken only for it: those that are left must become zeros.
            let odd = pairs.remainder();
            if !odd.is_empty()
                && let Some((upper, rest)) = lines.next()
            {
                let last = vector_of(c, odd, lane).mul_add(factor_of_powers, base);
                let last = c.power_of_two(last);
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
