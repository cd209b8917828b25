//! The matrices of a chunk, as the documentation of [`gated_delta`](super) names them.

use super::channels::{self, Between};
use super::given::{Given, read};
use super::triangle::below;
use super::{CHUNK, EPSILON, Sizes};
use crate::product::{Block, Gemm, Transpose, multiply_blocks};
use crate::{Element, sum_of_squares};
use std::ops::Range;

/// Defines a function whose loops the compiler vectorises.
macro_rules! loops {
    ($(#[$doc:meta])* fn $name:ident<$A:ident>($($arg:ident: $Type:ty),* $(,)?) $body:block) => {
        $(#[$doc])*
        #[allow(clippy::too_many_arguments)] // They are the rows that a loop reads and writes.
        pub(super) fn $name<'a, $A: $crate::product::Gemm>($($arg: $Type),*) {
            struct Work<'a, $A> {
                $($arg: $Type,)*
            }

            impl<$A: $crate::product::Gemm> pulp::WithSimd for Work<'_, $A> {
                type Output = ();

                #[inline(always)]
                fn with_simd<S: pulp::Simd>(self, _: S) {
                    let Self { $($arg),* } = self;
                    $body
                }
            }
            $crate::lanes::vectorize(Work { $($arg),* });
        }
    };
}
pub(super) use loops;

/// The least logarithm of a decay that is computed with. Its exponential is zero, as those of all below it, but sums of it
/// are finite.
const LOWEST: f64 = -1e5;

/// The queries and keys of a chunk, which a group of heads shares.
pub(super) struct Keys<A> {
    /// The number of tokens.
    pub(super) len: usize,
    /// The scaled queries, `[tokens, key width]`.
    pub(super) q: Vec<A>,
    /// The keys, `[tokens, key width]`.
    pub(super) k: Vec<A>,
    /// The keys transposed.
    turned: Vec<A>,
    /// The dot products of queries and keys, and of keys and keys. Rows are `CHUNK` apart.
    products: [Vec<A>; 2],
}

impl<A: Gemm> Keys<A> {
    pub(super) fn new(sizes: Sizes) -> Self {
        let rows = || vec![A::zeroed(); CHUNK * sizes.key_width];
        let square = || vec![A::zeroed(); CHUNK * CHUNK];
        Self {
            len: 0,
            q: rows(),
            k: rows(),
            turned: rows(),
            products: [square(), square()],
        }
    }

    /// Reads a chunk.
    pub(super) fn read<T: Element<Acc = A>>(
        &mut self,
        given: &Given<'_, T>,
        (row, head): (usize, usize),
        tokens: Range<usize>,
    ) {
        let width = given.sizes.key_width;
        self.len = tokens.len();
        let elements = self.len * width;
        read(&given.q, (row, head), tokens.clone(), &mut self.q);
        read(&given.k, (row, head), tokens, &mut self.k);
        let normalise = given.normalise;
        scale_rows(&mut self.q[..elements], width, normalise, given.scale);
        scale_rows(&mut self.k[..elements], width, normalise, A::ONE);
    }

    /// Computes the dot products of queries and keys, and, if they are `wanted`, of keys and keys. Where a head has several
    /// decays, these are factors of the terms, and the products are those of each head.
    pub(super) fn multiply(&mut self, sizes: Sizes, wanted: bool) {
        let width = sizes.key_width;
        if sizes.decays > 1 {
            return;
        }
        transpose(&self.k, [self.len, width], &mut self.turned, CHUNK);
        let right = Block::rows(&self.turned, CHUNK);
        let sizes = [self.len, width, self.len];
        let [qk, kk] = &mut self.products;
        let q = Block::rows(&self.q, width);
        multiply_blocks(sizes, q, right, (qk, CHUNK), false);
        if wanted {
            let k = Block::rows(&self.k, width);
            multiply_blocks(sizes, k, right, (kk, CHUNK), false);
        }
    }
}

/// Returns the factor that normalises a row.
#[inline(always)]
pub(super) fn norm_factor<A: Gemm>(row: &[A]) -> A {
    A::ONE / (sum_of_squares(row, |x| x) + A::of(EPSILON)).sqrt()
}

loops! {
    /// Normalises rows, or not, and multiplies them.
    fn scale_rows<A>(rows: &'a mut [A], width: usize, normalise: bool, scale: A) {
        for row in rows.chunks_exact_mut(width) {
            let factor = match normalise {
                true => norm_factor(row) * scale,
                false => scale,
            };
            row.iter_mut().for_each(|x| *x = *x * factor);
        }
    }
}

/// Transposes `rows × columns` elements. Rows of the result are `stride` apart.
pub(super) fn transpose<A: Gemm>(
    from: &[A],
    [rows, columns]: [usize; 2],
    to: &mut [A],
    stride: usize,
) {
    let transpose = Transpose {
        from,
        rows,
        columns,
        stride: columns,
        to,
        to_stride: stride,
        add: false,
    };
    transpose.run();
}

/// A chunk of one head.
pub(super) struct Chunk<A> {
    pub(super) sizes: Sizes,
    /// The rates of the tokens.
    pub(super) beta: Vec<A>,
    /// The cumulative sums of the logarithms of decays, `G`, `[tokens, decays]`.
    pub(super) sums: Vec<f64>,
    /// `e^G` and `e^(G_C − G)`, `[tokens, decays]`.
    pub(super) grown: Vec<A>,
    pub(super) rest: Vec<A>,
    /// `e^(G_C)`, `[decays]`.
    pub(super) total: Vec<A>,
    /// `D`, if a head has one decay. The upper half is zero. Rows of this and the next three are `CHUNK` apart.
    pub(super) decay: Vec<A>,
    pub(super) p: Vec<A>,
    /// `A`, which only the forward pass computes.
    pub(super) a: Vec<A>,
    /// `T`.
    pub(super) inverse: Vec<A>,
    /// The values, `[tokens, value width]`, and `β v`.
    pub(super) v: Vec<A>,
    weighted: Vec<A>,
    /// `e^G q`, `e^(G_C − G) k` and `−β e^G k`, `[tokens, key width]`.
    pub(super) q_grown: Vec<A>,
    pub(super) k_rest: Vec<A>,
    pub(super) k_minus: Vec<A>,
    /// `U` or `R`, `[tokens, value width]`.
    pub(super) u: Vec<A>,
    /// `−W`, `[tokens, key width]`.
    pub(super) w_minus: Vec<A>,
    /// Where a head has several decays, those between tokens.
    pub(super) between: Between<A>,
}

impl<A: Gemm> Chunk<A> {
    pub(super) fn new(sizes: Sizes) -> Self {
        let rows = |width| vec![A::zeroed(); CHUNK * width];
        let (key_width, value_width, decays) = (sizes.key_width, sizes.value_width, sizes.decays);
        Self {
            sizes,
            beta: rows(1),
            sums: vec![0.0; CHUNK * decays],
            grown: rows(decays),
            rest: rows(decays),
            total: vec![A::zeroed(); decays],
            decay: rows(if decays == 1 { CHUNK } else { 0 }),
            p: rows(CHUNK),
            a: rows(CHUNK),
            inverse: rows(CHUNK),
            v: rows(value_width),
            weighted: rows(value_width),
            q_grown: rows(key_width),
            k_rest: rows(key_width),
            k_minus: rows(key_width),
            u: rows(value_width),
            w_minus: rows(key_width),
            between: Between::new(sizes),
        }
    }

    /// Reads a chunk of a head, and computes the rows with decays.
    pub(super) fn read<T: Element<Acc = A>>(
        &mut self,
        given: &Given<'_, T>,
        keys: &Keys<A>,
        (row, head): (usize, usize),
        tokens: Range<usize>,
    ) where
        A: Element<Acc = A>,
    {
        let len = keys.len;
        let Sizes { decays, .. } = self.sizes;
        read(&given.beta, (row, head), tokens.clone(), &mut self.beta);
        read(&given.v, (row, head), tokens.clone(), &mut self.v);
        // The logarithms, until they are replaced by exponentials of their sums.
        read(&given.g, (row, head), tokens, &mut self.grown);
        exponentials(
            len,
            decays,
            &mut self.sums,
            &mut self.grown,
            &mut self.rest,
            &mut self.total,
        );
        weigh(
            (len, self.sizes),
            [&keys.q, &keys.k, &self.v],
            [&self.beta, &self.grown, &self.rest],
            &mut self.q_grown,
            &mut self.k_rest,
            &mut self.k_minus,
            &mut self.weighted,
        );
    }

    /// Computes `P`, and, if it is `wanted`, `A`, from the products of keys.
    pub(super) fn score(&mut self, keys: &Keys<A>, wanted: bool) {
        if self.sizes.decays > 1 {
            return channels::scores(keys, self, wanted);
        }
        let [qk, kk] = &keys.products;
        differences(keys.len, &self.sums, &mut self.decay);
        lower_times(keys.len, [qk, &self.decay], None, &mut self.p);
        if wanted {
            let rates = Some(&self.beta[..]);
            lower_times(keys.len, [kk, &self.decay], rates, &mut self.a);
        }
    }

    /// Computes `T`.
    pub(super) fn invert(&mut self, keys: &Keys<A>) {
        substitute(keys.len, &self.a, &mut self.inverse);
    }

    /// Computes `U` and `−W`.
    pub(super) fn multiply(&mut self, keys: &Keys<A>) {
        let Sizes {
            key_width,
            value_width,
            ..
        } = self.sizes;
        let inverse = &self.inverse[..];
        below(
            keys.len,
            inverse,
            (&self.weighted, value_width),
            &mut self.u,
            false,
        );
        below(
            keys.len,
            inverse,
            (&self.k_minus, key_width),
            &mut self.w_minus,
            false,
        );
    }

    /// Makes `R` of `U`.
    pub(super) fn subtract(&mut self, keys: &Keys<A>, state: &[A]) {
        let (width, value_width) = (self.sizes.key_width, self.sizes.value_width);
        multiply_blocks(
            [keys.len, width, value_width],
            Block::rows(&self.w_minus, width),
            Block::rows(state, value_width),
            (&mut self.u, value_width),
            true,
        );
    }

    /// Computes the result from `R` and the state before the chunk.
    pub(super) fn result(&self, keys: &Keys<A>, state: &[A], y: &mut [A]) {
        let (width, value_width) = (self.sizes.key_width, self.sizes.value_width);
        multiply_blocks(
            [keys.len, width, value_width],
            Block::rows(&self.q_grown, width),
            Block::rows(state, value_width),
            (&mut *y, value_width),
            false,
        );
        below(keys.len, &self.p, (&self.u, value_width), y, true);
    }

    /// Changes the state before the chunk to the one behind it.
    pub(super) fn advance(&self, keys: &Keys<A>, state: &mut [A]) {
        let (width, value_width) = (self.sizes.key_width, self.sizes.value_width);
        decay_state(state, value_width, &self.total);
        multiply_blocks(
            [width, keys.len, value_width],
            Block::rows(&self.k_rest, width).transposed(),
            Block::rows(&self.u, value_width),
            (state, value_width),
            true,
        );
    }
}

loops! {
    /// Sums the logarithms in `grown` and computes the exponentials.
    fn exponentials<A>(
        len: usize,
        decays: usize,
        sums: &'a mut [f64],
        grown: &'a mut [A],
        rest: &'a mut [A],
        total: &'a mut [A],
    ) {
        for token in 0..len {
            let (before, now) = sums.split_at_mut(token * decays);
            let before = before.rchunks_exact(decays).next();
            for channel in 0..decays {
                let before = before.map_or(0.0, |sums| sums[channel]);
                let g = grown[token * decays + channel].into_f64();
                now[channel] = before + if g < LOWEST { LOWEST } else { g };
            }
        }
        let sums = &sums[..len * decays];
        let last = &sums[(len - 1) * decays..];
        let rows = grown.chunks_exact_mut(decays).zip(rest.chunks_exact_mut(decays));
        for ((grown, rest), sums) in rows.zip(sums.chunks_exact(decays)) {
            for channel in 0..decays {
                grown[channel] = A::of(sums[channel]).exp();
                rest[channel] = A::of(last[channel] - sums[channel]).exp();
            }
        }
        for (total, last) in total.iter_mut().zip(last) {
            *total = A::of(*last).exp();
        }
    }
}

/// Returns the factor of an element of a row with one decay or one for each element.
#[inline(always)]
pub(super) fn of_channel<A: Copy>(decays: &[A], channel: usize) -> A {
    match decays {
        [one] => *one,
        many => many[channel],
    }
}

loops! {
    /// Multiplies queries, keys and values by decays and rates.
    fn weigh<A>(
        extent: (usize, Sizes),
        rows: [&'a [A]; 3],
        factors: [&'a [A]; 3],
        q_grown: &'a mut [A],
        k_rest: &'a mut [A],
        k_minus: &'a mut [A],
        weighted: &'a mut [A],
    ) {
        let (len, sizes) = extent;
        let [q, k, v] = rows;
        let [beta, grown, rest] = factors;
        let Sizes { key_width, value_width, decays, .. } = sizes;
        for token in 0..len {
            let beta = beta[token];
            let of_keys = token * key_width..(token + 1) * key_width;
            let (q, k) = (&q[of_keys.clone()], &k[of_keys.clone()]);
            let q_grown = &mut q_grown[of_keys.clone()];
            let k_rest = &mut k_rest[of_keys.clone()];
            let k_minus = &mut k_minus[of_keys];
            let grown = &grown[token * decays..(token + 1) * decays];
            let rest = &rest[token * decays..(token + 1) * decays];
            if let ([grown], [rest]) = (grown, rest) {
                let minus = A::zeroed() - beta * *grown;
                for channel in 0..key_width {
                    q_grown[channel] = q[channel] * *grown;
                    k_rest[channel] = k[channel] * *rest;
                    k_minus[channel] = k[channel] * minus;
                }
            } else {
                for channel in 0..key_width {
                    q_grown[channel] = q[channel] * grown[channel];
                    k_rest[channel] = k[channel] * rest[channel];
                    k_minus[channel] = A::zeroed() - beta * grown[channel] * k[channel];
                }
            }
            let of_values = token * value_width..(token + 1) * value_width;
            let values = weighted[of_values.clone()].iter_mut().zip(&v[of_values]);
            values.for_each(|(to, v)| *to = *v * beta);
        }
    }
}

loops! {
    /// Computes `D`, with zeros in the upper half.
    fn differences<A>(len: usize, sums: &'a [f64], decay: &'a mut [A]) {
        for (token, row) in decay.chunks_exact_mut(CHUNK).take(len).enumerate() {
            let (lower, upper) = row.split_at_mut(token + 1);
            for (to, before) in lower.iter_mut().zip(sums) {
                *to = A::of(sums[token] - *before).exp();
            }
            upper.fill(A::zeroed());
        }
    }
}

loops! {
    /// Multiplies the lower halves of two matrices. With rates, rows are multiplied by them and the diagonal is left out. The
    /// upper half is zero.
    fn lower_times<A>(
        len: usize,
        factors: [&'a [A]; 2],
        rates: Option<&'a [A]>,
        to: &'a mut [A],
    ) {
        let [left, right] = factors;
        let rows = left.chunks_exact(CHUNK).zip(right.chunks_exact(CHUNK));
        for (token, (to, (left, right))) in to.chunks_exact_mut(CHUNK).zip(rows).take(len).enumerate() {
            let (count, rate) = match rates {
                Some(rates) => (token, rates[token]),
                None => (token + 1, A::ONE),
            };
            let (lower, upper) = to.split_at_mut(count);
            let terms = lower.iter_mut().zip(left).zip(right);
            for ((to, left), right) in terms {
                *to = *left * *right * rate;
            }
            upper.fill(A::zeroed());
        }
    }
}

loops! {
    /// Computes `(I + A)⁻¹` by forward substitution, row by row.
    fn substitute<A>(len: usize, a: &'a [A], inverse: &'a mut [A]) {
        for token in 0..len {
            let (before, now) = inverse.split_at_mut(token * CHUNK);
            let mut sums = [A::zeroed(); CHUNK];
            for (row, a) in before.as_chunks::<CHUNK>().0.iter().zip(&a[token * CHUNK..]) {
                for column in 0..CHUNK {
                    sums[column] = sums[column] - *a * row[column];
                }
            }
            sums[token] = A::ONE;
            now[..CHUNK].copy_from_slice(&sums);
        }
    }
}

loops! {
    /// Multiplies the rows of a state by their decays.
    fn decay_state<A>(state: &'a mut [A], value_width: usize, total: &'a [A]) {
        for (channel, row) in state.chunks_exact_mut(value_width).enumerate() {
            let factor = of_channel(total, channel);
            row.iter_mut().for_each(|x| *x = *x * factor);
        }
    }
}
