//! The forward pass.

use super::lanes::Lanes;
use super::rows::{gather, transposed};
use super::scores::{Place, Running, adjust, clear_others, scale};
use super::view::{Readable, View, parts};
use super::{KEYS, few};
use crate::cpu::product::{Block, Gemm, Tiled, leave_remainders, multiply_blocks, multiply_tiled};
use crate::cpu::share::each;
use crate::cpu::{Element, Output, Real, Unwritten, write_scaled};
use crate::ops::attention::Operands;
use crate::semantics::HeadLayout;
use burn::backend::flex::FlexTensor;
use std::ops::Range;

/// Returns the result in the layout `bnsd`, and `lse`.
pub(super) fn forward<T: Element>(operands: &Operands<FlexTensor>) -> (FlexTensor, FlexTensor)
where
    T::Acc: Gemm,
{
    let tensors = Readable::new(operands);
    let view = View::<T>::new(operands, &tensors);
    let width = view.sizes.value_width;
    let mut y = Output::<T>::new(view.sizes.of_queries(HeadLayout::Bnsd, width));
    let mut lse = Output::<T::Acc>::new(operands.lse().0);
    {
        let (mut y, mut lse) = (y.rest(), lse.rest());
        let mut tasks = Vec::new();
        for of in view.kv_heads() {
            for rows in view.blocks() {
                tasks.push(Task {
                    of,
                    y: y.part(rows.len() * width),
                    lse: lse.part(rows.len()),
                    rows,
                });
            }
        }
        // The last blocks see the most keys, so threads begin with them.
        tasks.reverse();
        each(tasks, |task| task.run(&view));
    }
    (y.finish(), lse.finish())
}

/// A block of queries, with its parts of the outputs.
struct Task<'a, T: Element> {
    /// The sequence and the head of keys.
    of: (usize, usize),
    rows: Range<usize>,
    y: Unwritten<'a, T>,
    lse: Unwritten<'a, T::Acc>,
}

impl<T: Element> Task<'_, T>
where
    T::Acc: Gemm,
{
    fn run(self, view: &View<'_, T>) {
        let lanes = Lanes::new(view, self.of, self.rows.clone());
        let mut running = Running::new(lanes.len());
        if few::are_few(view, &lanes) {
            let sums = few::sums(view, &lanes, self.of, &mut running);
            return self.write(view, &lanes, &sums, running);
        }
        let mut buffers = Buffers::new(view, &lanes);
        for keys in parts(lanes.all_keys()) {
            buffers.add(view, &lanes, self.of, keys, &mut running);
        }
        let mut rows = Vec::new();
        let sizes = [view.sizes.value_width, lanes.len()];
        transposed(&buffers.sums, sizes, &mut rows);
        self.write(view, &lanes, &rows, running);
    }

    /// Writes the weighted sums, a row for each query, divided by the sums of the weights.
    fn write(
        mut self,
        view: &View<'_, T>,
        lanes: &Lanes,
        sums: &[T::Acc],
        mut running: Running<T::Acc>,
    ) {
        let mut factors = Vec::with_capacity(lanes.count);
        for (lane, (head, _)) in lanes.queries().iter().enumerate() {
            let factor = match view.sinks.get(*head) {
                Some(sink) => running.add_one(lane, *sink),
                None => T::Acc::ONE,
            };
            let sum = running.sums[lane];
            self.lse.push(running.lse(lane));
            // A query that sees no key has the result zero.
            factors.push(match sum == <T::Acc as Gemm>::ZERO {
                true => sum,
                false => factor / sum,
            });
        }
        write_scaled(sums, view.sizes.value_width, &factors, &mut self.y);
    }
}

/// The memory of a block of queries.
struct Buffers<A> {
    /// The scaled queries, one line for each element of a head, one lane for each query. Empty if there are tiles.
    queries: Vec<A>,
    scores: Vec<A>,
    /// The weighted sums of values, one line for each element.
    sums: Vec<A>,
    /// Keys or values of half types.
    converted: Vec<A>,
    tiles: Option<Tiles<A>>,
}

/// Operands in bf16 in tiles, where the machine has them.
struct Tiles<A> {
    /// The queries. They are exact in bf16 before they are scaled, so the scores are scaled in place of them.
    queries: Tiled,
    scales: Vec<A>,
    /// Keys or values.
    stored: Tiled,
    /// The exponentials, first rounded and then what rounding left out.
    weights: Tiled,
}

impl<A: Gemm> Tiles<A> {
    fn new<T: Element<Acc = A>>(view: &View<'_, T>, lanes: &Lanes) -> Option<Self> {
        let mut rows = Vec::new();
        let mut queries = Tiled::new::<T>()?;
        gather(lanes, &view.q, A::ONE, &mut rows);
        let (count, width) = (lanes.len(), view.sizes.width);
        queries.right(Block::rows(&rows, width).transposed(), [width, count]);
        Some(Self {
            queries,
            scales: vec![view.scale; count],
            stored: Tiled::new::<T>()?,
            weights: Tiled::new::<T>()?,
        })
    }

    /// Adds the values that are stored, times weights of `keys × lanes`.
    fn add_weighted(&mut self, weights: &[A], [keys, lanes]: [usize; 2], sums: &mut [A]) {
        self.weights
            .right(Block::rows(weights, lanes), [keys, lanes]);
        multiply_tiled(&self.stored, &self.weights, (sums, lanes), true);
    }
}

impl<A: Gemm> Buffers<A> {
    fn new<T: Element<Acc = A>>(view: &View<'_, T>, lanes: &Lanes) -> Self {
        let (count, width) = (lanes.len(), view.sizes.width);
        let tiles = Tiles::new(view, lanes);
        let (mut rows, mut queries) = (Vec::new(), Vec::new());
        if tiles.is_none() {
            gather(lanes, &view.q, view.scale, &mut rows);
            transposed(&rows, [count, width], &mut queries);
        }
        Self {
            queries,
            scores: vec![Gemm::ZERO; KEYS * count],
            sums: vec![Gemm::ZERO; view.sizes.value_width * count],
            converted: Vec::new(),
            tiles,
        }
    }

    /// Adds a block of keys.
    fn add<T: Element<Acc = A>>(
        &mut self,
        view: &View<'_, T>,
        lanes: &Lanes,
        of: (usize, usize),
        keys: Range<usize>,
        running: &mut Running<A>,
    ) {
        let seeing = lanes.that_see(&keys);
        if seeing.is_empty() {
            return;
        }
        let place = Place {
            stride: lanes.len(),
            lanes: seeing,
            keys,
        };
        self.score(view, of, &place);
        adjust(view, lanes, &place, &mut self.scores, None);
        if running.add(&place, &mut self.scores) {
            let seeing = place.lanes.clone();
            scale(&mut self.sums, place.stride, seeing, &running.factors);
        }
        self.sum(view, of, &place);
    }

    /// Computes the scores of a block of keys.
    fn score<T: Element<Acc = A>>(
        &mut self,
        view: &View<'_, T>,
        (batch, kv_head): (usize, usize),
        place: &Place,
    ) {
        let (stride, width, keys) = (place.stride, view.sizes.width, place.keys.clone());
        if let Some(tiles) = &mut self.tiles {
            let stored = view.k.stored(batch, kv_head, keys.start);
            tiles.stored.left_of(stored, [keys.len(), width]);
            let out = (&mut self.scores[..], stride);
            multiply_tiled(&tiles.stored, &tiles.queries, out, false);
            let scores = &mut self.scores[..keys.len() * stride];
            return scale(scores, stride, place.lanes.clone(), &tiles.scales);
        }
        let from = place.lanes.start;
        let size = [keys.len(), width, place.lanes.len()];
        multiply_blocks(
            size,
            view.k.block(batch, kv_head, keys, &mut self.converted),
            Block::rows(&self.queries[from.min(self.queries.len())..], stride),
            (&mut self.scores[from..], stride),
            false,
        );
    }

    /// Adds the values of a block of keys, weighted by the exponentials of their scores.
    fn sum<T: Element<Acc = A>>(
        &mut self,
        view: &View<'_, T>,
        (batch, kv_head): (usize, usize),
        place: &Place,
    ) {
        let (stride, width, keys) = (place.stride, view.sizes.value_width, place.keys.clone());
        if let Some(tiles) = &mut self.tiles {
            clear_others(place, &mut self.scores);
            let stored = view.v.stored(batch, kv_head, keys.start).transposed();
            tiles.stored.left_of(stored, [width, keys.len()]);
            let scores = &mut self.scores[..keys.len() * stride];
            tiles.add_weighted(scores, [keys.len(), stride], &mut self.sums);
            leave_remainders(scores);
            return tiles.add_weighted(scores, [keys.len(), stride], &mut self.sums);
        }
        let from = place.lanes.start;
        let size = [width, keys.len(), place.lanes.len()];
        let block = view.v.block(batch, kv_head, keys, &mut self.converted);
        let to = from.min(self.sums.len());
        multiply_blocks(
            size,
            block.transposed(),
            Block::rows(&self.scores[from..], stride),
            (&mut self.sums[to..], stride),
            true,
        );
    }
}
