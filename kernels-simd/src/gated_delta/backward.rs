//! The backward pass: a pass over the chunks of a sequence finds the state before each, and one from the last chunk to the
//! first the gradients.

use super::chunk::{Chunk, Keys, loops, norm_factor};
use super::forward::{extent, heads_out};
use super::given::{Given, chunks, read};
use super::gradient::{Before, Gradient};
use super::{CHUNK, Ends, Gradients, Operands, Sizes};
use crate::attention::{Extent, HeadRows, Heads, HeadsOut};
use crate::keys::HeadLayout;
use crate::packed::Sequence;
use crate::product::Gemm;
use crate::share::each;
use crate::{Element, Output, Real, Unwritten, sum_of, write_scaled};
use std::ops::Range;

/// Returns the gradients.
pub(super) fn backward<T: Element>(operands: &Operands<'_>, ends: &Ends<'_>) -> Gradients
where
    T::Acc: Gemm,
{
    let given = Given::<T>::new(operands);
    let sizes = given.sizes;
    let Sizes {
        batch,
        tokens,
        heads,
        key_heads,
        key_width,
        value_width,
        decays,
        ..
    } = sizes;
    let ends = Known::new(ends, sizes);
    let of_keys = [batch, tokens, key_heads, key_width];
    let [mut q, mut k] = [(); 2].map(|()| Output::<T>::new(of_keys));
    let mut v = Output::<T>::new([batch, tokens, heads, value_width]);
    let mut beta = Output::<T>::new([batch, tokens, heads]);
    let mut g = Output::<T::Acc>::new([batch, tokens, heads, decays]);
    let mut states = Output::<T::Acc>::new(sizes.states());
    {
        let extent = Extent {
            heads: key_heads,
            ..extent(sizes, key_width)
        };
        let of_keys = |out| HeadsOut::new(out, extent, HeadLayout::Bsnd);
        let (mut q, mut k) = (of_keys(q.rest()), of_keys(k.rest()));
        let mut v = heads_out(v.rest(), sizes, value_width);
        let mut beta = heads_out(beta.rest(), sizes, 1);
        let mut g = heads_out(g.rest(), sizes, decays);
        let mut states = states.rest();
        let mut tasks = Vec::new();
        for (index, sequence) in given.sequences.iter().enumerate() {
            for key_head in 0..key_heads {
                let first = key_head * sizes.group();
                let heads = first..first + sizes.group();
                let of = |head| (sequence.row, head);
                let chunks = chunks(sequence).map(|tokens| ChunkOut {
                    q: q.take(of(key_head), tokens.clone()),
                    k: k.take(of(key_head), tokens.clone()),
                    heads: heads
                        .clone()
                        .map(|head| HeadOut {
                            v: v.take(of(head), tokens.clone()),
                            beta: beta.take(of(head), tokens.clone()),
                            g: g.take(of(head), tokens.clone()),
                        })
                        .collect(),
                });
                tasks.push(Task {
                    index,
                    sequence,
                    key_head,
                    chunks: chunks.collect(),
                    states: states.part(heads.len() * given.state_len()),
                });
            }
        }
        each(tasks, |task| task.run(&given, &ends));
    }
    Gradients {
        q: T::values(q.into_values()),
        k: T::values(k.into_values()),
        v: T::values(v.into_values()),
        g: T::Acc::values(g.into_values()),
        beta: T::values(beta.into_values()),
        state: T::Acc::values(states.into_values()),
    }
}

/// The tensors that the pass begins with.
struct Known<'a, T: Element> {
    dy: Heads<'a, T>,
    /// The gradients of the last states, empty if they are zero.
    dstate: &'a [T::Acc],
    /// `[batch, heads, tokens, CHUNK]`.
    inverses: &'a [T::Acc],
}

impl<'a, T: Element> Known<'a, T>
where
    T::Acc: Gemm,
{
    /// # Panics
    /// Panics if sizes or types don't go together, or if a tensor can't be read in place.
    fn new(ends: &Ends<'a>, sizes: Sizes) -> Self {
        let is_like = |tensor: &crate::View<'_>, sizes: [usize; 4], what: &str| {
            let found = tensor.sizes();
            assert!(
                found == sizes,
                "{what} of sizes {found:?} are not {sizes:?}"
            );
        };
        is_like(&ends.inverses, sizes.inverses(), "the kept matrices");
        if let Some(dstate) = &ends.dstate {
            is_like(dstate, sizes.states(), "gradients of states");
        }
        let of_values = [sizes.batch, sizes.tokens, sizes.heads, sizes.value_width];
        Self {
            dy: Heads::new(&ends.dy, of_values),
            dstate: ends
                .dstate
                .as_ref()
                .map_or(&[], |dstate| dstate.contiguous()),
            inverses: ends.inverses.contiguous(),
        }
    }
}

/// The parts of results of a chunk of a head of keys.
struct ChunkOut<'a, T: Element> {
    q: HeadRows<'a, T>,
    k: HeadRows<'a, T>,
    heads: Vec<HeadOut<'a, T>>,
}

struct HeadOut<'a, T: Element> {
    v: HeadRows<'a, T>,
    beta: HeadRows<'a, T>,
    g: HeadRows<'a, T::Acc>,
}

/// A head of keys of a sequence, with its parts of the results.
struct Task<'a, T: Element> {
    /// The number of the sequence.
    index: usize,
    sequence: &'a Sequence,
    key_head: usize,
    chunks: Vec<ChunkOut<'a, T>>,
    states: Unwritten<'a, T::Acc>,
}

/// Results of the first pass over a head: for each chunk the state before it, and rows for each token.
struct Passed<A> {
    states: Vec<A>,
    u: Vec<A>,
    w_minus: Vec<A>,
    r: Vec<A>,
}

impl<T: Element> Task<'_, T>
where
    T::Acc: Gemm,
{
    fn run(mut self, given: &Given<'_, T>, known: &Known<'_, T>) {
        let sizes = given.sizes;
        let (group, len) = (sizes.group(), given.state_len());
        let first = self.key_head * group;
        let mut memory = Memory {
            keys: Keys::new(sizes),
            chunk: Chunk::new(sizes),
        };
        let passed: Vec<_> = (first..first + group)
            .map(|head| self.pass(given, known, head, &mut memory))
            .collect();
        let start = (self.index * sizes.heads + first) * len;
        let mut dstates = match known.dstate {
            [] => vec![<T::Acc as Gemm>::ZERO; group * len],
            all => all[start..][..group * len].to_vec(),
        };
        let mut gradient = Gradient::new(sizes);
        let [mut dq, mut dk] =
            [(); 2].map(|()| vec![<T::Acc as Gemm>::ZERO; CHUNK * sizes.key_width]);
        let outs = std::mem::take(&mut self.chunks);
        let chunks = chunks(self.sequence).zip(outs).enumerate();
        for (number, (tokens, out)) in chunks.rev() {
            let Memory { keys, chunk } = &mut memory;
            keys.read(given, (self.sequence.row, self.key_head), tokens.clone());
            keys.multiply(sizes, false);
            dq.fill(Gemm::ZERO);
            dk.fill(Gemm::ZERO);
            let heads = (first..)
                .zip(&passed)
                .zip(dstates.chunks_exact_mut(len))
                .zip(out.heads);
            for (((head, passed), dstate), out) in heads {
                let of = (self.sequence.row, head);
                chunk.read(given, keys, of, tokens.clone());
                restore(known, sizes, of, tokens.clone(), &mut chunk.inverse);
                chunk.score(keys, false);
                read(&known.dy, of, tokens.clone(), &mut gradient.dy);
                let before = passed.before(number, sizes);
                gradient.add(keys, chunk, &before, dstate, [&mut dq, &mut dk]);
                out.write(&gradient, &chunk.beta, tokens.len(), sizes);
            }
            let of = (self.sequence.row, self.key_head);
            let scales = [given.scale, T::Acc::ONE];
            let parts = [(&given.q, &mut dq, out.q), (&given.k, &mut dk, out.k)];
            for ((from, d, mut out), scale) in parts.into_iter().zip(scales) {
                read(from, of, tokens.clone(), &mut keys.q);
                let elements = tokens.len() * sizes.key_width;
                let d = &mut d[..elements];
                unscale(
                    sizes.key_width,
                    given.normalise,
                    scale,
                    &keys.q[..elements],
                    d,
                );
                write_rows(d, sizes.key_width, tokens.len(), &mut out);
            }
        }
        self.states.row(dstates.len()).copy(&dstates);
    }

    /// Passes over the chunks of a head.
    fn pass(
        &self,
        given: &Given<'_, T>,
        known: &Known<'_, T>,
        head: usize,
        Memory { keys, chunk }: &mut Memory<T::Acc>,
    ) -> Passed<T::Acc> {
        let (sizes, row) = (given.sizes, self.sequence.row);
        let mut passed = Passed {
            states: Vec::with_capacity(self.chunks.len() * given.state_len()),
            u: Vec::with_capacity(self.sequence.tokens.len() * sizes.value_width),
            w_minus: Vec::with_capacity(self.sequence.tokens.len() * sizes.key_width),
            r: Vec::with_capacity(self.sequence.tokens.len() * sizes.value_width),
        };
        let mut state = given.state(self.index, head);
        for tokens in chunks(self.sequence) {
            let of_values = tokens.len() * sizes.value_width;
            keys.read(given, (row, self.key_head), tokens.clone());
            chunk.read(given, keys, (row, head), tokens.clone());
            restore(
                known,
                sizes,
                (row, head),
                tokens.clone(),
                &mut chunk.inverse,
            );
            chunk.multiply(keys);
            passed.u.extend_from_slice(&chunk.u[..of_values]);
            let of_keys = tokens.len() * sizes.key_width;
            passed.w_minus.extend_from_slice(&chunk.w_minus[..of_keys]);
            chunk.subtract(keys, &state);
            passed.r.extend_from_slice(&chunk.u[..of_values]);
            passed.states.extend_from_slice(&state);
            chunk.advance(keys, &mut state);
        }
        passed
    }
}

/// The memory of a task.
struct Memory<A> {
    keys: Keys<A>,
    chunk: Chunk<A>,
}

impl<A> Passed<A> {
    /// Returns what was found of a chunk.
    fn before(&self, number: usize, sizes: Sizes) -> Before<'_, A> {
        let len = sizes.key_width * sizes.value_width;
        let first = number * CHUNK;
        Before {
            state: &self.states[number * len..][..len],
            u: &self.u[first * sizes.value_width..],
            w_minus: &self.w_minus[first * sizes.key_width..],
            r: &self.r[first * sizes.value_width..],
        }
    }
}

impl<T: Element> HeadOut<'_, T>
where
    T::Acc: Gemm,
{
    /// Writes the gradients of a head.
    fn write(mut self, gradient: &Gradient<T::Acc>, beta: &[T::Acc], len: usize, sizes: Sizes) {
        let width = sizes.value_width;
        write_scaled(&gradient.x[..len * width], width, &beta[..len], &mut self.v);
        write_rows(&gradient.beta, 1, len, &mut self.beta);
        write_rows(&gradient.g, sizes.decays, len, &mut self.g);
    }
}

/// Writes rows and rounds them.
fn write_rows<T: Element>(rows: &[T::Acc], width: usize, len: usize, to: &mut HeadRows<'_, T>) {
    let ones = [T::Acc::ONE; CHUNK];
    write_scaled(&rows[..len * width], width, &ones[..len], to);
}

/// Reads the matrix `T` of a chunk.
fn restore<T: Element>(
    known: &Known<'_, T>,
    sizes: Sizes,
    (row, head): (usize, usize),
    tokens: Range<usize>,
    to: &mut [T::Acc],
) {
    let first = (row * sizes.heads + head) * sizes.tokens + tokens.start;
    let elements = tokens.len() * CHUNK;
    to[..elements].copy_from_slice(&known.inverses[first * CHUNK..][..elements]);
}

loops! {
    /// Makes gradients of rows of those of the rows times a factor and, if they are normalised, over their norms.
    fn unscale<A>(width: usize, normalise: bool, scale: A, x: &'a [A], d: &'a mut [A]) {
        for (x, d) in x.chunks_exact(width).zip(d.chunks_exact_mut(width)) {
            d.iter_mut().for_each(|d| *d = *d * scale);
            if normalise {
                let r = norm_factor(x);
                let along = sum_of(x, d, x, |x, d, _| x * d) * r * r;
                d.iter_mut().zip(x).for_each(|(d, x)| *d = r * (*d - *x * along));
            }
        }
    }
}
