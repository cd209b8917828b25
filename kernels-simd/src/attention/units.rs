//! The division of the backward pass among threads.

use super::Sizes;
use super::backward::{Given, Task};
use super::lanes::Lanes;
use super::scores::Place;
use crate::Element;
use crate::product::Gemm;
use crate::share;

/// The heads of keys that one thread computes in turn: one, or all that add to the same part of the bias's gradient.
/// The sums therefore have a fixed order.
pub(super) struct Units {
    sizes: Sizes,
    /// The shape of the bias, if its gradient is wanted.
    bias: Option<[usize; 4]>,
}

/// The sums over all heads.
pub(super) struct Totals<A> {
    /// The gradients of the sinks of the heads that share a head of keys, for each head of keys of each sequence.
    pub(super) sinks: Vec<Vec<A>>,
    /// The gradient of the bias, if it is wanted.
    pub(super) bias: Vec<A>,
}

/// The results of one thread: the gradients of the sinks, each with the index of its head of keys, and the thread's part of
/// the bias's gradient.
type Done<A> = (Vec<(usize, Vec<A>)>, Vec<A>);

impl Units {
    /// Divides the work. `bias` has the sizes of the bias, if its gradient is wanted.
    pub(super) fn new(bias: Option<[usize; 4]>, sizes: Sizes) -> Self {
        Self { sizes, bias }
    }

    /// Runs the tasks, which are in the order of sequences and heads of keys.
    pub(super) fn run<T: Element>(
        &self,
        tasks: Vec<Task<'_, T>>,
        given: &Given<'_, T>,
    ) -> Totals<T::Acc>
    where
        T::Acc: Gemm,
    {
        let count = tasks.len();
        let mut units: Vec<Vec<(usize, Task<'_, T>)>> = Vec::new();
        for (index, task) in tasks.into_iter().enumerate() {
            let unit = self.unit(task.of);
            units.resize_with(units.len().max(unit + 1), Vec::new);
            units[unit].push((index, task));
        }
        let done = share::map(units, |tasks| self.run_unit(tasks, given));
        let mut totals = Totals {
            sinks: vec![Vec::new(); count],
            bias: Vec::new(),
        };
        for (sinks, bias) in done {
            for (index, sinks) in sinks {
                totals.sinks[index] = sinks;
            }
            totals.bias.extend(bias);
        }
        // Without sequences or heads there are no units, but a repeated bias may have elements.
        let elements = self.bias.map_or(0, |shape| shape.iter().product());
        totals.bias.resize(elements, Gemm::ZERO);
        totals
    }

    fn run_unit<T: Element>(
        &self,
        tasks: Vec<(usize, Task<'_, T>)>,
        given: &Given<'_, T>,
    ) -> Done<T::Acc>
    where
        T::Acc: Gemm,
    {
        let mut bias = vec![<T::Acc as Gemm>::ZERO; self.part()];
        let sinks = tasks.into_iter().map(|(index, task)| {
            let first = task.of.1 * self.sizes.group();
            let sums = self.bias.map(|[_, heads, queries, keys]| BiasSums {
                sums: &mut bias,
                first_head: (heads > 1).then_some(first),
                queries,
                keys,
            });
            (index, task.run(given, sums))
        });
        let sinks = sinks.collect();
        (sinks, bias)
    }

    /// Returns the unit of a head of keys. Units are in the order of their parts of the bias's gradient.
    fn unit(&self, (batch, kv_head): (usize, usize)) -> usize {
        let heads = self.sizes.kv_heads;
        match self.bias {
            None => batch * heads + kv_head,
            Some([batches, of_heads, ..]) => {
                let batch = if batches > 1 { batch } else { 0 };
                if of_heads > 1 {
                    batch * heads + kv_head
                } else {
                    batch
                }
            }
        }
    }

    /// Returns the number of elements of a unit's part of the bias's gradient.
    fn part(&self) -> usize {
        self.bias.map_or(0, |[_, heads, queries, keys]| {
            let heads = if heads > 1 { self.sizes.group() } else { 1 };
            heads * queries * keys
        })
    }
}

/// A part of the bias's gradient: that of the heads that share a head of keys, or one that all heads share.
pub(super) struct BiasSums<'a, A> {
    sums: &'a mut [A],
    /// The first head, if each has its own bias.
    first_head: Option<usize>,
    /// The number of queries of the bias, 1 if all have the same.
    queries: usize,
    keys: usize,
}

impl<A: Gemm> BiasSums<'_, A> {
    /// Adds a block of gradients.
    pub(super) fn add(&mut self, lanes: &Lanes, place: &Place, d_scores: &[A]) {
        for lane in place.lanes.start..place.lanes.end.min(lanes.count) {
            let (head, query) = lanes.queries[lane];
            let head = self.first_head.map_or(0, |first| head - first);
            let query = if self.queries > 1 { query } else { 0 };
            let start = (head * self.queries + query) * self.keys;
            let row = &mut self.sums[start..][place.keys.clone()];
            for (sum, line) in row.iter_mut().zip(d_scores.chunks_exact(place.stride)) {
                *sum += line[lane];
            }
        }
    }
}
