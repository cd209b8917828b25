//! The forward pass.

use super::few;
use super::heads_out::{Extent, HeadRows, HeadsOut};
use super::lanes::Lanes;
use super::rows::{gather, transposed};
use super::scores::{Place, Running, adjust, scale};
use super::tiles::{StoredHead, Tiles};
use super::view::View;
use super::{Found, Operands};
use crate::product::{Block, Gemm, InCacheLines, multiply_blocks};
use crate::share::each;
use crate::{Element, Output, Real, Unwritten, write_scaled};
use std::num::NonZeroUsize;
use std::ops::Range;

/// Returns the result and `lse`.
pub(super) fn forward<T: Element>(operands: &Operands<'_>) -> Found
where
    T::Acc: Gemm,
{
    let view = View::<T>::new(operands);
    let (sizes, layout) = (view.sizes, operands.layout);
    let mut y = Output::<T>::new(sizes.of_queries(layout, sizes.value_width));
    let mut lse = Output::<T::Acc>::new([sizes.batch, sizes.heads, sizes.queries]);
    {
        let extent = Extent {
            batch: sizes.batch,
            heads: sizes.heads,
            rows: sizes.queries,
            width: sizes.value_width,
        };
        let mut y = HeadsOut::new(y.rest(), extent, layout);
        let mut lse = lse.rest();
        let all: Vec<_> = view.kv_heads().collect();
        let together = StoredHead::together(&view);
        for some in all.chunks(together.map_or(all.len().max(1), NonZeroUsize::get)) {
            let heads = match together {
                Some(_) => StoredHead::all(&view, some),
                None => Vec::new(),
            };
            let mut tasks = Vec::new();
            for (index, of) in some.iter().copied().enumerate() {
                for rows in view.blocks() {
                    tasks.push(Task {
                        of,
                        head: heads.get(index).and_then(Option::as_ref),
                        y: y.take((of.0, of.1 * sizes.group()), rows.clone()),
                        lse: lse.part(rows.len()),
                        rows,
                    });
                }
            }
            // The last blocks see the most keys, so threads begin with them.
            tasks.reverse();
            each(tasks, |task| task.run(&view));
        }
    }
    Found {
        y: T::values(y.into_values()),
        lse: T::Acc::values(lse.into_values()),
    }
}

/// A block of queries, with its parts of the outputs.
struct Task<'a, T: Element> {
    /// The sequence and the head of keys.
    of: (usize, usize),
    /// The same in tiles, where the machine has them.
    head: Option<&'a StoredHead>,
    rows: Range<usize>,
    y: HeadRows<'a, T>,
    lse: Unwritten<'a, T::Acc>,
}

impl<T: Element> Task<'_, T>
where
    T::Acc: Gemm,
{
    fn run(self, view: &View<'_, T>) {
        let lanes = Lanes::new(view, self.of, self.rows.clone());
        let mut running = Running::new(lanes.len());
        if few::are_few(view, lanes.count) {
            let sums = few::sums(view, &lanes, self.of, &mut running);
            return self.write(view, &lanes, &sums, running);
        }
        // One line for each element of a value.
        let sizes = [view.sizes.value_width, lanes.len()];
        let mut sums = InCacheLines::zeros(sizes[0] * sizes[1]);
        let sums = sums.values();
        let tiles = self.head.and_then(|head| Tiles::new(view, &lanes, head));
        if let Some(mut tiles) = tiles {
            tiles.add_all(view, &lanes, &mut running, sums);
        } else {
            let mut buffers = Buffers::new(view, &lanes);
            for keys in lanes.blocks_of_keys(false) {
                buffers.add(view, &lanes, self.of, keys, &mut running, sums);
            }
        }
        let mut rows = Vec::new();
        transposed(sums, sizes, &mut rows);
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
    /// The scaled queries, one line for each element of a head, one lane for each query.
    queries: Vec<A>,
    scores: InCacheLines<A>,
    /// Keys or values of half types.
    converted: Vec<A>,
}

impl<A: Gemm> Buffers<A> {
    fn new<T: Element<Acc = A>>(view: &View<'_, T>, lanes: &Lanes) -> Self {
        let (count, width) = (lanes.len(), view.sizes.width);
        let (mut rows, mut queries) = (Vec::new(), Vec::new());
        gather(lanes, &view.q, view.scale, &mut rows);
        transposed(&rows, [count, width], &mut queries);
        Self {
            queries,
            scores: InCacheLines::zeros(view.keys * count),
            converted: Vec::new(),
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
        sums: &mut [A],
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
        let scores = self.scores.values();
        adjust(view, lanes, &place, scores, None);
        if running.add(&place, scores) {
            let seeing = place.lanes.clone();
            scale(sums, place.stride, seeing, &running.factors);
        }
        self.sum(view, of, &place, sums);
    }

    /// Computes the scores of a block of keys.
    fn score<T: Element<Acc = A>>(
        &mut self,
        view: &View<'_, T>,
        (batch, kv_head): (usize, usize),
        place: &Place,
    ) {
        let (stride, width, keys) = (place.stride, view.sizes.width, place.keys.clone());
        let from = place.lanes.start;
        let size = [keys.len(), width, place.lanes.len()];
        multiply_blocks(
            size,
            view.k.block(batch, kv_head, keys, &mut self.converted),
            Block::rows(&self.queries[from.min(self.queries.len())..], stride),
            (&mut self.scores.values()[from..], stride),
            false,
        );
    }

    /// Adds the values of a block of keys, weighted by the exponentials of their scores.
    fn sum<T: Element<Acc = A>>(
        &mut self,
        view: &View<'_, T>,
        (batch, kv_head): (usize, usize),
        place: &Place,
        sums: &mut [A],
    ) {
        let (stride, width, keys) = (place.stride, view.sizes.value_width, place.keys.clone());
        let from = place.lanes.start;
        let size = [width, keys.len(), place.lanes.len()];
        let block = view.v.block(batch, kv_head, keys, &mut self.converted);
        let to = from.min(sums.len());
        multiply_blocks(
            size,
            block.transposed(),
            Block::rows(&self.scores.values()[from..], stride),
            (&mut sums[to..], stride),
            true,
        );
    }
}
