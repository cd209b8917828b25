//! The backward pass. Blocks of scores are computed again, and with them all gradients of the block.
//!
//! A thread computes a head of keys with all heads of queries that share it: their blocks of queries one after the
//! other, and for each the blocks of keys that it sees. The gradients of keys and values are summed in that order. Heads
//! that share a bias whose gradient is wanted are computed by one thread, too.

use super::QUERIES;
use super::heads_out::{Extent, HeadRows, HeadsOut};
use super::lanes::Lanes;
use super::query_block::{Buffers, Sums};
use super::units::{BiasSums, Units};
use super::view::{Heads, View};
use super::{Gradients, Operands, Sizes};
use crate::product::Gemm;
use crate::{Element, Output, Real, Values, View as Strided, is_half, write_scaled};

/// Returns the gradients.
pub(super) fn backward<T: Element>(
    operands: &Operands<'_>,
    [dy, y, lse]: [&Strided<'_>; 3],
    bias_gradient: bool,
) -> Gradients
where
    T::Acc: Gemm,
{
    let view = View::<T>::new(operands);
    let (sizes, layout) = (view.sizes, operands.layout);
    let of_results = sizes.heads_of_queries(sizes.value_width);
    let given = Given {
        view: &view,
        dy: Heads::new(dy, of_results),
        y: Heads::new(y, of_results),
        lse: lse.contiguous(),
    };
    assert!(
        given.lse.len() == sizes.batch * sizes.heads * sizes.queries,
        "{} logarithms of sums are not those of {sizes:?}",
        given.lse.len()
    );
    let mut dq = Output::<T>::new(sizes.of_queries(layout, sizes.width));
    let mut dk = Output::<T>::new(sizes.of_keys(layout, sizes.width));
    let mut dv = Output::<T>::new(sizes.of_keys(layout, sizes.value_width));
    let bias = operands.bias.as_ref().filter(|_| bias_gradient);
    let bias = bias.map(|bias| <[usize; 4]>::try_from(bias.sizes()).expect("four axes"));
    let units = Units::new(bias, view.sizes);
    let totals = {
        let of = |heads, rows, width| Extent {
            batch: sizes.batch,
            heads,
            rows,
            width,
        };
        let of_queries = of(sizes.heads, sizes.queries, sizes.width);
        let of_keys = |width| of(sizes.kv_heads, sizes.keys, width);
        let mut dq = HeadsOut::new(dq.rest(), of_queries, layout);
        let mut dk = HeadsOut::new(dk.rest(), of_keys(sizes.width), layout);
        let mut dv = HeadsOut::new(dv.rest(), of_keys(sizes.value_width), layout);
        let tasks = view.kv_heads().map(|of| Task {
            of,
            dq: dq.take((of.0, of.1 * sizes.group()), 0..view.rows()),
            dk: dk.take(of, 0..sizes.keys),
            dv: dv.take(of, 0..sizes.keys),
        });
        units.run(tasks.collect(), &given)
    };
    Gradients {
        q: T::values(dq.into_values()),
        k: T::values(dk.into_values()),
        v: T::values(dv.into_values()),
        bias: bias.map(|_| rounded::<T>(&totals.bias)),
        sinks: operands
            .sinks
            .as_ref()
            .map(|_| total::<T>(view.sizes, &totals.sinks)),
    }
}

/// Returns the gradient of the sinks: the sums of the sequences, in order.
fn total<T: Element>(sizes: Sizes, of_heads: &[Vec<T::Acc>]) -> Values {
    let Sizes {
        heads, kv_heads, ..
    } = sizes;
    let mut sums = vec![T::Acc::ZERO; heads];
    for sequence in of_heads.chunks(kv_heads.max(1)) {
        for (sum, part) in sums.iter_mut().zip(sequence.iter().flatten()) {
            *sum += *part;
        }
    }
    rounded::<T>(&sums)
}

/// Returns rounded values.
fn rounded<T: Element>(values: &[T::Acc]) -> Values {
    let mut output = Output::<T>::new([values.len()]);
    write_scaled(values, values.len(), &[T::Acc::ONE], &mut output.rest());
    T::values(output.into_values())
}

/// The inputs of the backward pass.
pub(super) struct Given<'a, T: Element> {
    pub(super) view: &'a View<'a, T>,
    pub(super) dy: Heads<'a, T>,
    pub(super) y: Heads<'a, T>,
    /// One value for each query, `[batch, heads, queries]`.
    pub(super) lse: &'a [T::Acc],
}

/// A head of keys, with its parts of the outputs.
pub(super) struct Task<'a, T: Element> {
    /// The sequence and the head of keys.
    pub(super) of: (usize, usize),
    dq: HeadRows<'a, T>,
    dk: HeadRows<'a, T>,
    dv: HeadRows<'a, T>,
}

impl<T: Element> Task<'_, T>
where
    T::Acc: Gemm,
{
    /// Computes the gradients. Adds that of the bias, if it is wanted. Returns those of the sinks of the heads that share
    /// the keys.
    pub(super) fn run(
        mut self,
        given: &Given<'_, T>,
        mut d_bias: Option<BiasSums<'_, T::Acc>>,
    ) -> Vec<T::Acc> {
        let view = given.view;
        let sizes = view.sizes;
        let mut sums = Sums {
            dk: vec![Gemm::ZERO; sizes.keys * sizes.width],
            dv: vec![Gemm::ZERO; sizes.keys * sizes.value_width],
        };
        let mut sinks = match view.sinks.is_empty() {
            true => Vec::new(),
            false => vec![<T::Acc as Gemm>::ZERO; sizes.group()],
        };
        let mut buffers = Buffers::new(view, self.of);
        for rows in view.blocks() {
            let lanes = Lanes::new(view, self.of, rows);
            buffers.load(given, &lanes);
            buffers.near(view, &lanes, self.of);
            match is_half::<T>() {
                true => buffers.sum_along_scores(view, &lanes, self.of),
                false => buffers.sum_along(given, &lanes),
            }
            for part in buffers.blocks_of_keys(&lanes).enumerate() {
                buffers.add(view, &lanes, self.of, part, &mut sums, d_bias.as_mut());
            }
            let scales = &[view.scale; QUERIES][..lanes.count];
            let dq = buffers.queries(&lanes);
            write_scaled(dq, sizes.width, scales, &mut self.dq);
            if !sinks.is_empty() {
                buffers.add_sinks(view, &lanes, self.of.1 * sizes.group(), &mut sinks);
            }
        }
        let factors = vec![buffers.scale_of_keys(view); sizes.keys];
        write_scaled(&sums.dk, sizes.width, &factors, &mut self.dk);
        let factors = vec![T::Acc::ONE; sizes.keys];
        write_scaled(&sums.dv, sizes.value_width, &factors, &mut self.dv);
        sinks
    }
}
