//! The forward pass.

use super::lanes::Lanes;
use super::rows::{gather, transposed, write};
use super::scores::{Place, Running, adjust, scale};
use super::view::{Readable, View, parts};
use super::{KEYS, few};
use crate::cpu::product::{Block, Gemm, each, multiply_blocks};
use crate::cpu::{Element, Output, Real, Unwritten};
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
        write(sums, view.sizes.value_width, &factors, &mut self.y);
    }
}

/// The memory of a block of queries.
struct Buffers<A> {
    /// The scaled queries, one line for each element of a head, one lane for each query.
    queries: Vec<A>,
    scores: Vec<A>,
    /// The weighted sums of values, one line for each element.
    sums: Vec<A>,
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
            scores: vec![Gemm::ZERO; KEYS * count],
            sums: vec![Gemm::ZERO; view.sizes.value_width * count],
            converted: Vec::new(),
        }
    }

    /// Adds a block of keys.
    fn add<T: Element<Acc = A>>(
        &mut self,
        view: &View<'_, T>,
        lanes: &Lanes,
        (batch, kv_head): (usize, usize),
        keys: Range<usize>,
        running: &mut Running<A>,
    ) {
        let seeing = lanes.that_see(&keys);
        if seeing.is_empty() {
            return;
        }
        let (stride, sizes) = (lanes.len(), view.sizes);
        let block = view
            .k
            .block(batch, kv_head, keys.clone(), &mut self.converted);
        let from = seeing.start;
        multiply_blocks(
            [keys.len(), sizes.width, seeing.len()],
            block,
            Block::rows(&self.queries[from.min(self.queries.len())..], stride),
            (&mut self.scores[from..], stride),
            false,
        );
        let place = Place {
            stride,
            lanes: seeing.clone(),
            keys: keys.clone(),
        };
        adjust(view, lanes, &place, &mut self.scores, None);
        if running.add(&place, &mut self.scores) {
            scale(&mut self.sums, stride, seeing.clone(), &running.factors);
        }
        let block = view
            .v
            .block(batch, kv_head, keys.clone(), &mut self.converted);
        let to = from.min(self.sums.len());
        multiply_blocks(
            [sizes.value_width, keys.len(), seeing.len()],
            block.transposed(),
            Block::rows(&self.scores[from..], stride),
            (&mut self.sums[to..], stride),
            true,
        );
    }
}
