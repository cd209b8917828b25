//! The backward pass. Blocks of scores are computed again, and with them all gradients of the block.
//!
//! A thread computes a head of keys with all heads of queries that share it: their blocks of queries one after the
//! other, and for each the blocks of keys that it sees. The gradients of keys and values are summed in that order. Heads
//! that share a bias whose gradient is wanted are computed by one thread, too.

use super::lanes::{Lanes, transposed};
use super::scores::{Along, Gradient, Multiply, Place, adjust};
use super::units::{BiasSums, Units};
use super::view::{Heads, Readable, View, parts, readable};
use super::{KEYS, QUERIES};
use crate::cpu::lanes::dispatch;
use crate::cpu::product::{Block, Gemm, multiply_blocks};
use crate::cpu::{Element, Output, Real, Unwritten, contiguous};
use crate::ops::attention::{Backward, Gradients, Sizes};
use crate::semantics::HeadLayout;
use burn::backend::Shape;
use burn::backend::flex::FlexTensor;
use std::any::TypeId;
use std::ops::Range;

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
    write(&mut output.rest(), values);
    output.finish()
}

/// The inputs of the backward pass.
pub(super) struct Given<'a, T: Element> {
    view: &'a View<'a, T>,
    dy: Heads<'a, T>,
    y: Heads<'a, T>,
    /// One value for each query, `[batch, heads, queries]`.
    lse: &'a [T::Acc],
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
        let mut buffers = Buffers::new(sizes);
        for rows in view.blocks() {
            let lanes = Lanes::new(view, self.of, rows);
            buffers.load(given, &lanes);
            if TypeId::of::<T>() != TypeId::of::<T::Acc>() {
                buffers.sum_along(view, &lanes, self.of);
            }
            for keys in parts(lanes.all_keys()) {
                buffers.add(view, &lanes, self.of, keys, &mut sums, d_bias.as_mut());
            }
            for row in rows_of(&buffers.dq, sizes.width).take(lanes.count) {
                let scaled = row.iter().map(|value| T::round(*value * view.scale));
                self.dq.row(sizes.width).write(scaled);
            }
            if !sinks.is_empty() {
                buffers.add_sinks(view, &lanes, self.of.1 * sizes.group(), &mut sinks);
            }
        }
        write(&mut self.dk, &sums.dk);
        write(&mut self.dv, &sums.dv);
        sinks
    }
}

/// Returns as many rows as a block has at most. Rows of no elements are empty.
fn rows_of<A>(values: &[A], width: usize) -> impl Iterator<Item = &[A]> {
    (0..QUERIES).map(move |row| &values[row * width..][..width])
}

/// Rounds and writes sums.
fn write<T: Element>(to: &mut Unwritten<'_, T>, sums: &[T::Acc]) {
    let rounded = sums.iter().map(|value| T::round(*value));
    to.row(sums.len()).write(rounded);
}

/// The gradients of a head of keys and of its values.
struct Sums<A> {
    dk: Vec<A>,
    dv: Vec<A>,
}

/// The memory of a block of queries.
struct Buffers<A> {
    /// The scaled queries and the gradients of their results, as rows and transposed.
    queries: Vec<A>,
    queries_transposed: Vec<A>,
    dy: Vec<A>,
    dy_transposed: Vec<A>,
    lse: Vec<A>,
    /// `Σ dy · y` of each query, with the result before it was rounded.
    along: Vec<A>,
    scores: Vec<A>,
    d_scores: Vec<A>,
    /// The slopes of the cap, if there is one.
    slopes: Vec<A>,
    dq: Vec<A>,
    /// Keys and values of half types.
    keys: Vec<A>,
    values: Vec<A>,
}

impl<A: Gemm> Buffers<A> {
    fn new(sizes: Sizes) -> Self {
        Self {
            queries: Vec::new(),
            queries_transposed: Vec::new(),
            dy: Vec::new(),
            dy_transposed: Vec::new(),
            lse: Vec::new(),
            along: Vec::new(),
            scores: vec![Gemm::ZERO; KEYS * QUERIES],
            d_scores: vec![Gemm::ZERO; KEYS * QUERIES],
            slopes: Vec::new(),
            dq: vec![Gemm::ZERO; QUERIES * sizes.width],
            keys: Vec::new(),
            values: Vec::new(),
        }
    }

    /// Loads a block of queries.
    fn load<T: Element<Acc = A>>(&mut self, given: &Given<'_, T>, lanes: &Lanes) {
        let view = given.view;
        let Sizes {
            heads,
            queries,
            width,
            value_width,
            ..
        } = view.sizes;
        let count = lanes.len();
        lanes.gather(&view.q, width, view.scale, &mut self.queries);
        transposed(&self.queries, [count, width], &mut self.queries_transposed);
        lanes.gather(&given.dy, value_width, A::ONE, &mut self.dy);
        transposed(&self.dy, [count, value_width], &mut self.dy_transposed);
        self.lse.clear();
        self.along.clear();
        for (head, query) in &lanes.queries[..lanes.count] {
            let lse = given.lse[(lanes.batch * heads + head) * queries + query];
            let hidden = lse == A::of(f64::NEG_INFINITY);
            self.lse.push(if hidden { Gemm::ZERO } else { lse });
            let y = given.y.row(lanes.batch, *head, *query).iter();
            let dy = given.dy.row(lanes.batch, *head, *query).iter();
            let products = y.zip(dy).map(|(y, dy)| y.load() * dy.load());
            self.along
                .push(products.fold(Gemm::ZERO, |sum, product| sum + product));
        }
        self.lse.resize(count, Gemm::ZERO);
        self.along.resize(count, Gemm::ZERO);
        self.dq.fill(Gemm::ZERO);
    }

    /// Sums `Σ dy · y` anew as `Σ p · (dy · v)`, over all keys. `y` of a half type is rounded, and where the terms of a
    /// gradient cancel, that would be most of its error.
    fn sum_along<T: Element<Acc = A>>(
        &mut self,
        view: &View<'_, T>,
        lanes: &Lanes,
        of: (usize, usize),
    ) {
        self.along.fill(Gemm::ZERO);
        for keys in parts(lanes.all_keys()) {
            let Some(place) = self.score(view, lanes, of, keys, false) else {
                continue;
            };
            dispatch(Along {
                place: &place,
                scores: &self.scores,
                d_scores: &self.d_scores,
                lse: &self.lse,
                along: &mut self.along,
            });
        }
    }

    /// Computes the scores of a block of keys, and `dy · v` in place of their gradients. Returns the place of the queries
    /// that see a key, or `None` if none does. With `slopes`, keeps those of the cap, if there is one.
    fn score<T: Element<Acc = A>>(
        &mut self,
        view: &View<'_, T>,
        lanes: &Lanes,
        (batch, kv_head): (usize, usize),
        keys: Range<usize>,
        slopes: bool,
    ) -> Option<Place> {
        let seeing = lanes.that_see(&keys);
        if seeing.is_empty() {
            return None;
        }
        let (stride, from, count) = (lanes.len(), seeing.start, seeing.len());
        let Sizes {
            width, value_width, ..
        } = view.sizes;
        let k = view.k.block(batch, kv_head, keys.clone(), &mut self.keys);
        let v = view.v.block(batch, kv_head, keys.clone(), &mut self.values);
        // Heads of no elements have no lines.
        let [q_lines, dy_lines] = [&self.queries_transposed, &self.dy_transposed]
            .map(|lines| &lines[from.min(lines.len())..]);
        multiply_blocks(
            [keys.len(), width, count],
            k,
            Block::rows(q_lines, stride),
            (&mut self.scores[from..], stride),
            false,
        );
        multiply_blocks(
            [keys.len(), value_width, count],
            v,
            Block::rows(dy_lines, stride),
            (&mut self.d_scores[from..], stride),
            false,
        );
        let place = Place {
            stride,
            lanes: seeing,
            keys,
        };
        let slopes = slopes && view.cap.is_some();
        if slopes {
            self.slopes.resize(KEYS * QUERIES, Gemm::ZERO);
        }
        let slopes = slopes.then_some(&mut self.slopes[..]);
        adjust(view, lanes, &place, &mut self.scores, slopes);
        Some(place)
    }

    /// Adds the gradients of a block of keys.
    fn add<T: Element<Acc = A>>(
        &mut self,
        view: &View<'_, T>,
        lanes: &Lanes,
        of: (usize, usize),
        keys: Range<usize>,
        sums: &mut Sums<A>,
        d_bias: Option<&mut BiasSums<'_, A>>,
    ) {
        let Some(place) = self.score(view, lanes, of, keys.clone(), true) else {
            return;
        };
        let (stride, from, count) = (place.stride, place.lanes.start, place.lanes.len());
        let Sizes {
            width, value_width, ..
        } = view.sizes;
        let capped = view.cap.is_some();
        dispatch(Gradient {
            place: &place,
            scores: &mut self.scores,
            d_scores: &mut self.d_scores,
            lse: &self.lse,
            along: &self.along,
        });
        if let Some(d_bias) = d_bias {
            d_bias.add(lanes, &place, &self.d_scores);
        }
        if capped {
            pulp::Arch::new().dispatch(Multiply {
                place: &place,
                d_scores: &mut self.d_scores,
                slopes: &self.slopes,
            });
        }
        let k = view.k.block(of.0, of.1, keys.clone(), &mut self.keys);
        let (p, ds) = (&self.scores[from..], &self.d_scores[from..]);
        let [q, dy] = [(&self.queries, width), (&self.dy, value_width)]
            .map(|(rows, width)| Block::rows(&rows[from * width..], width));
        multiply_blocks(
            [keys.len(), count, value_width],
            Block::rows(p, stride),
            dy,
            (&mut sums.dv[keys.start * value_width..], value_width),
            true,
        );
        multiply_blocks(
            [keys.len(), count, width],
            Block::rows(ds, stride),
            q,
            (&mut sums.dk[keys.start * width..], width),
            true,
        );
        multiply_blocks(
            [count, keys.len(), width],
            Block::rows(ds, stride).transposed(),
            k,
            (&mut self.dq[from * width..], width),
            true,
        );
    }

    /// Adds the gradients of the sinks: `−e^(sink − lse) · Σ dy · y`.
    fn add_sinks<T: Element<Acc = A>>(
        &self,
        view: &View<'_, T>,
        lanes: &Lanes,
        first_head: usize,
        sinks: &mut [A],
    ) {
        for (lane, (head, _)) in lanes.queries[..lanes.count].iter().enumerate() {
            let p = (view.sinks[*head] - self.lse[lane]).exp();
            sinks[head - first_head] += -(p * self.along[lane]);
        }
    }
}
