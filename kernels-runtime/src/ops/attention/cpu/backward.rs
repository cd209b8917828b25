//! The backward pass. Blocks of scores are computed again, and with them all gradients of the block.
//!
//! A thread computes a head of keys with all heads of queries that share it: their blocks of queries one after the
//! other, and for each the blocks of keys that it sees. The gradients of keys and values are summed in that order. Heads
//! that share a bias whose gradient is wanted are computed by one thread, too.

use super::QUERIES;
use super::lanes::Lanes;
use super::query_block::{Buffers, Sums};
use super::units::{BiasSums, Units};
use super::view::{Heads, Readable, View, parts, readable};
use crate::cpu::product::Gemm;
use crate::cpu::{Element, Output, Real, Unwritten, contiguous, write_scaled};
use crate::ops::attention::{Backward, Gradients, Sizes};
use crate::semantics::HeadLayout;
use burn::backend::Shape;
use burn::backend::flex::FlexTensor;
use std::any::TypeId;

/// Returns the gradients, in the layout `bnsd`.
pub(super) fn backward<T: Element>(backward: &Backward<FlexTensor>) -> Gradients<FlexTensor>
where
    T::Acc: Gemm,
{
    let operands = backward.operands();
    let tensors = Readable::new(operands);
    let view = View::<T>::new(operands, &tensors);
    let [dy, y] = [backward.dy(), backward.y()].map(|tensor| readable(tensor, operands));
    let lse = backward.lse().to_contiguous();
    let given = Given {
        view: &view,
        dy: Heads::new(&dy),
        y: Heads::new(&y),
        lse: contiguous(&lse),
    };
    let Sizes {
        batch,
        kv_heads,
        keys,
        width,
        value_width,
        ..
    } = view.sizes;
    let mut dq = Output::<T>::new(view.sizes.of_queries(HeadLayout::Bnsd, width));
    let mut dk = Output::<T>::new(Shape::new([batch, kv_heads, keys, width]));
    let mut dv = Output::<T>::new(Shape::new([batch, kv_heads, keys, value_width]));
    let bias = operands.bias().filter(|_| backward.bias_gradient());
    let units = Units::new(bias, view.sizes);
    let totals = {
        let (mut dq, mut dk, mut dv) = (dq.rest(), dk.rest(), dv.rest());
        let tasks = view.kv_heads().map(|of| Task {
            of,
            dq: dq.part(view.rows() * width),
            dk: dk.part(keys * width),
            dv: dv.part(keys * value_width),
        });
        units.run(tasks.collect(), &given)
    };
    Gradients {
        q: dq.finish(),
        k: dk.finish(),
        v: dv.finish(),
        bias: bias.map(|bias| rounded::<T>(bias.layout().shape().clone(), &totals.bias)),
        sinks: operands
            .sinks()
            .map(|_| total::<T>(view.sizes, &totals.sinks)),
    }
}

/// Returns the gradient of the sinks: the sums of the sequences, in order.
fn total<T: Element>(sizes: Sizes, of_heads: &[Vec<T::Acc>]) -> FlexTensor {
    let Sizes {
        heads, kv_heads, ..
    } = sizes;
    let mut sums = vec![T::Acc::ZERO; heads];
    for sequence in of_heads.chunks(kv_heads.max(1)) {
        for (sum, part) in sums.iter_mut().zip(sequence.iter().flatten()) {
            *sum += *part;
        }
    }
    rounded::<T>(Shape::new([heads]), &sums)
}

/// Returns a tensor of rounded values.
fn rounded<T: Element>(shape: Shape, values: &[T::Acc]) -> FlexTensor {
    let mut output = Output::<T>::new(shape);
    write_all(&mut output.rest(), values, T::Acc::ONE);
    output.finish()
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
    dq: Unwritten<'a, T>,
    dk: Unwritten<'a, T>,
    dv: Unwritten<'a, T>,
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
        let mut buffers = Buffers::new::<T>(sizes);
        for rows in view.blocks() {
            let lanes = Lanes::new(view, self.of, rows);
            buffers.load(given, &lanes);
            match is_half::<T>() {
                true => buffers.sum_along_scores(view, &lanes, self.of),
                false => buffers.sum_along(given, &lanes),
            }
            for part in parts(lanes.all_keys()).enumerate() {
                buffers.add(view, &lanes, self.of, part, &mut sums, d_bias.as_mut());
            }
            let scales = &[view.scale; QUERIES][..lanes.count];
            write_scaled(&buffers.dq, sizes.width, scales, &mut self.dq);
            if !sinks.is_empty() {
                buffers.add_sinks(view, &lanes, self.of.1 * sizes.group(), &mut sinks);
            }
        }
        write_all(&mut self.dk, &sums.dk, buffers.scale_of_keys(view));
        write_all(&mut self.dv, &sums.dv, T::Acc::ONE);
        sinks
    }
}

/// Returns true if `T` is not the type that is computed in.
pub(super) fn is_half<T: Element>() -> bool {
    TypeId::of::<T>() != TypeId::of::<T::Acc>()
}

/// Writes sums times a factor, and rounds them.
fn write_all<T: Element>(to: &mut Unwritten<'_, T>, sums: &[T::Acc], factor: T::Acc) {
    write_scaled(sums, sums.len(), &[factor], to);
}
