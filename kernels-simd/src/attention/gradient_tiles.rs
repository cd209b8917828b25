//! The products of the backward pass in tiles, where the machine has them.
//!
//! Keys and values are copied to tiles once for all queries that share them. Gradients of scores become tiles twice: as rows
//! of keys, and as columns of queries.

use super::lanes::Lanes;
use super::rows::{gather, transposed};
use super::scores::{Place, clear_others, scale};
use super::tiles::{are_for, whole_columns};
use super::view::{Heads, View, parts};
use crate::Element;
use crate::product::{
    Block, Gemm, Stored, Tiled, leave_remainders, multiply_stored, multiply_tiled,
};

/// A head of keys and its values, in blocks.
struct StoredHead {
    keys: Stored,
    values: Stored,
    /// The keys of a block as terms of the gradients of queries.
    keys_as_terms: Stored,
}

impl StoredHead {
    /// Returns a head, or `None` if tiles can't hold it.
    fn new<T: Element>(view: &View<'_, T>, (batch, head): (usize, usize)) -> Option<Self> {
        let sizes = view.sizes;
        let mut stored = Self {
            keys: Stored::new::<T>()?,
            values: Stored::new::<T>()?,
            keys_as_terms: Stored::new::<T>()?,
        };
        stored.keys.reserve([sizes.keys, sizes.width]);
        stored.values.reserve([sizes.keys, sizes.value_width]);
        stored.keys_as_terms.reserve([sizes.width, sizes.keys]);
        for part in parts(0..sizes.keys, view.keys) {
            let count = part.len();
            let block = view.k.stored(batch, head, part.start);
            stored.keys.push(block, [count, sizes.width]);
            let as_terms = [sizes.width, count];
            stored.keys_as_terms.push(block.transposed(), as_terms);
            let block = view.v.stored(batch, head, part.start);
            stored.values.push(block, [count, sizes.value_width]);
        }
        let is_in_range = stored.keys.is_in_range() && stored.values.is_in_range();
        is_in_range.then_some(stored)
    }
}

/// The operands of a block of queries in tiles.
pub(super) struct GradientTiles<A> {
    head: StoredHead,
    widths: [usize; 2],
    /// The number of keys, and that of the keys of a block.
    keys: usize,
    keys_of_block: usize,
    /// The queries and the gradients of their results, as columns.
    queries: Tiled,
    dy: Tiled,
    /// The same as terms of the gradients of keys and values.
    queries_as_terms: Tiled,
    dy_as_terms: Tiled,
    /// Probabilities, or gradients of scores. In bf16, gradients are rounded, and probabilities are two numbers.
    weights: Tiled,
    /// The queries of a block as rows.
    rows: Vec<A>,
    /// The scale of each lane, if queries aren't scaled. They are exact in bf16 before they are.
    scales: Vec<A>,
    /// The gradients of the queries, a line for each element of a head.
    dq: Vec<A>,
}

impl<A: Gemm> GradientTiles<A> {
    /// Returns room for the blocks of queries that share a head of keys, or `None` if tiles can't compute them.
    pub(super) fn new<T: Element<Acc = A>>(view: &View<'_, T>, of: (usize, usize)) -> Option<Self> {
        if !are_for(view) {
            return None;
        }
        Some(Self {
            head: StoredHead::new(view, of)?,
            widths: [view.sizes.width, view.sizes.value_width],
            keys: view.sizes.keys,
            keys_of_block: view.keys,
            queries: Tiled::new::<T>()?,
            dy: Tiled::new::<T>()?,
            queries_as_terms: Tiled::new::<T>()?,
            dy_as_terms: Tiled::new::<T>()?,
            weights: Tiled::new::<T>()?,
            rows: Vec::new(),
            scales: Vec::new(),
            dq: Vec::new(),
        })
    }

    /// Takes a block of queries, with the gradients of their results as rows. Returns false if tiles can't hold it.
    pub(super) fn load<T: Element<Acc = A>>(
        &mut self,
        lanes: &Lanes,
        q: &Heads<'_, T>,
        of_scores: A,
        dy: &[A],
    ) -> bool {
        let ([width, value_width], count) = (self.widths, lanes.len());
        let are_scaled = self.queries.are_exact();
        let of_rows = if are_scaled { of_scores } else { A::ONE };
        gather(lanes, q, of_rows, &mut self.rows);
        self.scales.clear();
        if !are_scaled {
            self.scales.resize(count, of_scores);
        }
        let queries = Block::rows(&self.rows[..], width);
        let dy = Block::rows(dy, value_width);
        self.queries.right(queries.transposed(), [width, count]);
        self.dy.right(dy.transposed(), [value_width, count]);
        self.queries_as_terms.right(queries, [count, width]);
        self.dy_as_terms.right(dy, [count, value_width]);
        self.dq.clear();
        self.dq.resize(width * count, Gemm::ZERO);
        self.queries.is_in_range() && self.dy.is_in_range()
    }

    /// Returns the factor of the gradients of keys that [`add`](Self::add) leaves out.
    pub(super) fn scale_of_keys(&self, of_scores: A) -> A {
        match self.queries.are_exact() {
            true => A::ONE,
            false => of_scores,
        }
    }

    /// Computes the scores of a block of keys, and `dy · v`.
    pub(super) fn products(&self, place: &Place, scores: &mut [A], d_scores: &mut [A]) {
        let (stride, count) = (place.stride, place.keys.len());
        let columns = whole_columns(&place.lanes);
        let index = place.keys.start / self.keys_of_block;
        let [queries, dy] =
            [&self.queries, &self.dy].map(|operand| operand.columns(columns.clone()));
        let to = (&mut scores[columns.start..], stride);
        multiply_stored((&self.head.keys, index, count), queries, to, false);
        if !self.scales.is_empty() {
            let scores = &mut scores[..count * stride];
            scale(scores, stride, place.lanes.clone(), &self.scales);
        }
        let to = (&mut d_scores[columns.start..], stride);
        multiply_stored((&self.head.values, index, count), dy, to, false);
    }

    /// Adds the gradients of a block of keys, and keeps those of queries. `scores` are probabilities, and `dk` and `dv` begin
    /// with the block's.
    pub(super) fn add(
        &mut self,
        place: &Place,
        scores: &mut [A],
        d_scores: &mut [A],
        [dk, dv]: [&mut [A]; 2],
    ) {
        let (stride, count, [width, value_width]) = (place.stride, place.keys.len(), self.widths);
        clear_others(place, scores);
        clear_others(place, d_scores);
        let p = &mut scores[..count * stride];
        self.add_to(p, [count, stride], Of::Values, (&mut *dv, value_width));
        if !self.weights.are_exact() {
            leave_remainders(p);
            self.add_to(p, [count, stride], Of::Values, (dv, value_width));
        }
        self.add_to(d_scores, [count, stride], Of::Keys, (dk, width));
        self.add_to_queries(place, d_scores);
    }

    /// Adds gradients of keys or values, for weights of `keys × lanes`.
    fn add_to(&mut self, weights: &[A], sizes: [usize; 2], of: Of, out: (&mut [A], usize)) {
        self.weights.left(Block::rows(weights, sizes[1]), sizes);
        let terms = match of {
            Of::Keys => &self.queries_as_terms,
            Of::Values => &self.dy_as_terms,
        };
        multiply_tiled(&self.weights, terms.all(), out, true);
    }

    fn add_to_queries(&mut self, place: &Place, d_scores: &mut [A]) {
        let (stride, of_block) = (place.stride, self.keys_of_block);
        let columns = whole_columns(&place.lanes);
        let index = place.keys.start / of_block;
        // The stored block may have more keys, whose scores have no gradients.
        let stored = of_block.min(self.keys - index * of_block);
        d_scores[place.keys.len() * stride..stored * stride].fill(Gemm::ZERO);
        let ds = Block::rows(&d_scores[columns.start..], stride);
        self.weights.right(ds, [stored, columns.len()]);
        let keys = (&self.head.keys_as_terms, index, self.widths[0]);
        // Heads of no elements have no lines.
        let from = columns.start.min(self.dq.len());
        let to = (&mut self.dq[from..], stride);
        multiply_stored(keys, self.weights.all(), to, true);
    }

    /// Writes the gradients of the queries, a row for each, without the scale.
    pub(super) fn write_queries(&self, lanes: &Lanes, dq: &mut Vec<A>) {
        transposed(&self.dq, [self.widths[0], lanes.len()], dq);
    }
}

/// The tensor whose gradients are summed.
#[derive(Clone, Copy)]
enum Of {
    Keys,
    Values,
}
