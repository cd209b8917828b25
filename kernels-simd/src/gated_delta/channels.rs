//! Decays for each channel of the key: they are factors of the terms of dot products, `Σ_d q_id k_jd e^(G_id − G_jd)`.
//!
//! A block of tokens and those before it have a token between them, the block's first, `f`: `e^(G_i − G_f)` and `e^(G_f −
//! G_j)` are factors of the operands of a product, and both are at most 1 where decays are. Within a block, exponentials of
//! each pair are computed, as flash-linear-attention does.

use super::chunk::{Chunk, Keys, loops, transpose};
use super::{CHUNK, Sizes};
use crate::product::{Block, Gemm, multiply_blocks};
use crate::sum_of;

/// The number of tokens of a block.
const BLOCK: usize = 16;

/// A block and the tokens before it. All rows are `key width` wide.
pub(super) struct Between<A> {
    /// `e^(G_i − G_f)` of the block's tokens, and their queries and keys times these.
    to: Vec<A>,
    q: Vec<A>,
    k: Vec<A>,
    /// `e^(G_f − G_j)` of the tokens before, and their keys times these.
    from: Vec<A>,
    before: Vec<A>,
    /// The keys before, transposed, or a gradient.
    other: Vec<A>,
    /// The factors of a pair of tokens.
    pair: Vec<A>,
}

impl<A: Gemm> Between<A> {
    pub(super) fn new(sizes: Sizes) -> Self {
        let width = if sizes.decays > 1 { sizes.key_width } else { 0 };
        let rows = |count| vec![A::zeroed(); count * width];
        Self {
            to: rows(BLOCK),
            q: rows(BLOCK),
            k: rows(BLOCK),
            from: rows(CHUNK),
            before: rows(CHUNK),
            other: rows(CHUNK),
            pair: rows(1),
        }
    }

    /// Computes the factors and the rows of a block.
    fn prepare(&mut self, [first, end]: [usize; 2], width: usize, keys: &Keys<A>, sums: &[f64]) {
        let at_first = &sums[first * width..][..width];
        let of_block = first * width..end * width;
        let sums_of_block = [&sums[of_block.clone()], at_first];
        factors(width, sums_of_block, A::ONE, &mut self.to);
        let [q, k] = [&keys.q[of_block.clone()], &keys.k[of_block]];
        times(q, &self.to, &mut self.q);
        times(k, &self.to, &mut self.k);
        let before = &sums[..first * width];
        factors(width, [before, at_first], -A::ONE, &mut self.from);
        times(&keys.k[..first * width], &self.from, &mut self.before);
    }
}

/// Returns the first tokens of blocks, with the tokens behind them.
fn blocks(len: usize) -> impl Iterator<Item = [usize; 2]> {
    let starts = (0..len).step_by(BLOCK);
    starts.map(move |first| [first, len.min(first + BLOCK)])
}

loops! {
    /// Computes `e^(± (G − G_f))` of rows of sums `G`.
    fn factors<A>(width: usize, ends: [&'a [f64]; 2], sign: A, to: &'a mut [A]) {
        let [sums, at_first] = ends;
        let rows = to.chunks_exact_mut(width).zip(sums.chunks_exact(width));
        for (to, sums) in rows {
            for channel in 0..width {
                to[channel] = (A::of(sums[channel] - at_first[channel]) * sign).exp();
            }
        }
    }
}

loops! {
    /// Multiplies rows by factors.
    fn times<A>(rows: &'a [A], factors: &'a [A], to: &'a mut [A]) {
        for ((to, row), factor) in to.iter_mut().zip(rows).zip(factors) {
            *to = *row * *factor;
        }
    }
}

/// Computes `P`, and, if it is `wanted`, `A`.
pub(super) fn scores<A: Gemm>(keys: &Keys<A>, chunk: &mut Chunk<A>, wanted: bool) {
    let (len, width) = (keys.len, chunk.sizes.key_width);
    let between = &mut chunk.between;
    for block @ [first, end] in blocks(len) {
        between.prepare(block, width, keys, &chunk.sums);
        transpose(&between.before, [first, width], &mut between.other, CHUNK);
        let right = Block::rows(&between.other, CHUNK);
        let sizes = [end - first, width, first];
        let rows = first * CHUNK..end * CHUNK;
        let p = &mut chunk.p[rows.clone()];
        let left = Block::rows(&between.q, width);
        multiply_blocks(sizes, left, right, (&mut *p, CHUNK), false);
        let sums = &chunk.sums[..];
        diagonal(
            block,
            width,
            [&keys.q, &keys.k, &[]],
            sums,
            &mut between.pair,
            p,
        );
        if wanted {
            let a = &mut chunk.a[rows];
            let left = Block::rows(&between.k, width);
            multiply_blocks(sizes, left, right, (&mut *a, CHUNK), false);
            let given = [&keys.k[..], &keys.k, &chunk.beta];
            diagonal(block, width, given, sums, &mut between.pair, a);
        }
    }
}

loops! {
    /// Computes the elements of a block with its own tokens. Given rates, it multiplies rows by them, and the diagonal is zero.
    fn diagonal<A>(
        block: [usize; 2],
        width: usize,
        rows: [&'a [A]; 3],
        sums: &'a [f64],
        pair: &'a mut [A],
        to: &'a mut [A],
    ) {
        let [first, end] = block;
        let [left, k, beta] = rows;
        for (token, row) in (first..end).zip(to.chunks_exact_mut(CHUNK)) {
            let of = |token: usize| token * width..(token + 1) * width;
            let count = if beta.is_empty() { token + 1 } else { token };
            for before in first..count {
                let (now, then) = (&sums[of(token)], &sums[of(before)]);
                for channel in 0..width {
                    pair[channel] = A::of(now[channel] - then[channel]).exp();
                }
                row[before] = sum_of(&left[of(token)], &k[of(before)], pair, |q, k, factor| q * k * factor);
            }
            row[count..].fill(A::zeroed());
            if let Some(rate) = beta.get(token) {
                row[..count].iter_mut().for_each(|a| *a = *a * *rate);
            }
        }
    }
}

/// Gradients of the rows of dot products, from those of `P` and of `A` without its rates, which are zero in the upper half:
/// of the queries, of the keys as the left operand of `A`, without rates, and of the keys as right operands.
pub(super) fn gradients<A: Gemm>(
    keys: &Keys<A>,
    chunk: &mut Chunk<A>,
    [dp, da]: [&[A]; 2],
    [dq, dk_left, dk_right]: [&mut [A]; 3],
) {
    let (len, width) = (keys.len, chunk.sizes.key_width);
    let between = &mut chunk.between;
    dk_right[..len * width].fill(Gemm::ZERO);
    for block @ [first, end] in blocks(len) {
        between.prepare(block, width, keys, &chunk.sums);
        let rows = first * width..end * width;
        let beta = &chunk.beta[first..end];
        for (d, to) in [(dp, &mut *dq), (da, &mut *dk_left)] {
            let left = Block::rows(&d[first * CHUNK..], CHUNK);
            let right = Block::rows(&between.before, width);
            let to = &mut to[rows.clone()];
            multiply_blocks(
                [end - first, first, width],
                left,
                right,
                (&mut *to, width),
                false,
            );
            times_in_place(to, &between.to);
        }
        weigh_rows(&mut between.k, width, beta);
        for (d, right, add) in [(dp, &between.q, false), (da, &between.k, true)] {
            let left = Block::rows(&d[first * CHUNK..], CHUNK).transposed();
            let right = Block::rows(right, width);
            let to = (&mut between.other[..], width);
            multiply_blocks([first, end - first, width], left, right, to, add);
        }
        add_times(&between.other[..first * width], &between.from, dk_right);
        diagonal_gradients(
            (block, width),
            [&keys.q, &keys.k, &chunk.beta],
            &chunk.sums,
            [dp, da],
            &mut between.pair,
            dq,
            dk_left,
            dk_right,
        );
    }
}

loops! {
    /// Multiplies rows by factors.
    fn times_in_place<A>(rows: &'a mut [A], factors: &'a [A]) {
        rows.iter_mut().zip(factors).for_each(|(x, factor)| *x = *x * *factor);
    }
}

loops! {
    /// Multiplies each row by a number.
    fn weigh_rows<A>(rows: &'a mut [A], width: usize, weights: &'a [A]) {
        for (row, weight) in rows.chunks_exact_mut(width).zip(weights) {
            row.iter_mut().for_each(|x| *x = *x * *weight);
        }
    }
}

loops! {
    /// Adds rows times factors.
    fn add_times<A>(rows: &'a [A], factors: &'a [A], to: &'a mut [A]) {
        for ((to, row), factor) in to.iter_mut().zip(rows).zip(factors) {
            *to += *row * *factor;
        }
    }
}

loops! {
    /// Adds the gradients of the elements of a block with its own tokens.
    fn diagonal_gradients<A>(
        block: ([usize; 2], usize),
        rows: [&'a [A]; 3],
        sums: &'a [f64],
        gradients: [&'a [A]; 2],
        pair: &'a mut [A],
        dq: &'a mut [A],
        dk_left: &'a mut [A],
        dk_right: &'a mut [A],
    ) {
        let ([first, end], width) = block;
        let [q, k, beta] = rows;
        let [dp, da] = gradients;
        let of = |token: usize| token * width..(token + 1) * width;
        for token in first..end {
            for before in first..=token {
                let (now, then) = (&sums[of(token)], &sums[of(before)]);
                for channel in 0..width {
                    pair[channel] = A::of(now[channel] - then[channel]).exp();
                }
                let place = token * CHUNK + before;
                let (dp, da, beta) = (dp[place], da[place], beta[token]);
                let (q, left, right) = (&q[of(token)], &k[of(token)], &k[of(before)]);
                let (dq, dk_left) = (&mut dq[of(token)], &mut dk_left[of(token)]);
                let dk_right = &mut dk_right[of(before)];
                for channel in 0..width {
                    let factor = pair[channel];
                    dq[channel] += dp * right[channel] * factor;
                    dk_left[channel] += da * right[channel] * factor;
                    dk_right[channel] += (dp * q[channel] + da * beta * left[channel]) * factor;
                }
            }
        }
    }
}
