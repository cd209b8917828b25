//! The gradients of a chunk of one head.
//!
//! With `dS` the gradient of the state behind the chunk, and the names of [`gated_delta`](super):
//!
//! * `dR = Pᵀ dY + (e^(G_C − G) k) dS`, `dP = lower(dY Rᵀ)`, `X = Tᵀ dR`, `Z = Tᵀ dW`, `dW = −dR Sᵀ`;
//! * `dA = −strict_lower(X Uᵀ + Z Wᵀ)`;
//! * the state before the chunk gets `e^(G_C) dS + (e^G q)ᵀ dY − Wᵀ dR`;
//! * `dv = β X`;
//! * `dq = (dP∘D) k + e^G (dY Sᵀ)`;
//! * with `l = (dA∘D) k + e^G Z` and `r = (dP∘D)ᵀ q + (β dA∘D)ᵀ k + e^(G_C − G) (R dSᵀ)`, the gradient of a key as a left and
//!   a right operand: `dk = β l + r`, `dβ = X·v + k·l`, and `dG = q·dq + k·(β l − r)`. The last `dG` also gets the sums of
//!   `k · e^(G_C − G) (R dSᵀ)` over the tokens, and `e^(G_C) ⟨dS, S⟩`. `dg` is the sum of `dG` from a token on.
//!
//! Kernels hold `−W`, so `Z` is that of `−W` here.

use super::chunk::{Chunk, Keys, loops, of_channel, transpose};
use super::triangle::{above, below};
use super::{CHUNK, Sizes, channels};
use crate::product::{Block, Gemm, multiply_blocks};
use crate::sum_of;

/// Results of the pass over the chunks for one chunk, in the order of tokens.
pub(super) struct Before<'a, A> {
    /// The state before the chunk.
    pub(super) state: &'a [A],
    /// `U`, `−W` and `R`.
    pub(super) u: &'a [A],
    pub(super) w_minus: &'a [A],
    pub(super) r: &'a [A],
}

/// The gradients of a chunk, and the memory that they are computed in. Rows of matrices of tokens and tokens are `CHUNK`
/// apart.
pub(super) struct Gradient<A> {
    /// The gradient of the result.
    pub(super) dy: Vec<A>,
    /// `X`, `[tokens, value width]`. Times the rates, it is the gradient of the values.
    pub(super) x: Vec<A>,
    /// The gradients of the rates and of the logarithms of decays.
    pub(super) beta: Vec<A>,
    pub(super) g: Vec<A>,
    dr: Vec<A>,
    dp: Vec<A>,
    da: Vec<A>,
    /// `dY Sᵀ`, `R dSᵀ`, `−dW` and `Z`, `[tokens, key width]`.
    q_grown: Vec<A>,
    k_rest: Vec<A>,
    w_minus: Vec<A>,
    z: Vec<A>,
    /// The gradients of queries and of keys as left and right operands of dot products.
    q: Vec<A>,
    left: Vec<A>,
    right: Vec<A>,
    /// `β k`.
    weighted: Vec<A>,
    /// A matrix that is transposed.
    turned: Vec<A>,
    /// `e^(G_C) ⟨dS, S⟩`.
    of_state: Vec<A>,
}

impl<A: Gemm> Gradient<A> {
    pub(super) fn new(sizes: Sizes) -> Self {
        let zeros = |count| vec![A::zeroed(); count];
        let (of_keys, of_values) = (CHUNK * sizes.key_width, CHUNK * sizes.value_width);
        let square = CHUNK * CHUNK;
        Self {
            dy: zeros(of_values),
            x: zeros(of_values),
            beta: zeros(CHUNK),
            g: zeros(CHUNK * sizes.decays),
            dr: zeros(of_values),
            dp: zeros(square),
            da: zeros(square),
            q_grown: zeros(of_keys),
            k_rest: zeros(of_keys),
            w_minus: zeros(of_keys),
            z: zeros(of_keys),
            q: zeros(of_keys),
            left: zeros(of_keys),
            right: zeros(of_keys),
            weighted: zeros(of_keys),
            turned: zeros(
                (sizes.key_width * sizes.value_width)
                    .max(of_keys)
                    .max(of_values),
            ),
            of_state: zeros(sizes.decays),
        }
    }

    /// Computes the gradients of a chunk from `dy`, adds those of the shared queries and keys, and changes the gradient of the
    /// state behind the chunk to that of the one before.
    pub(super) fn add(
        &mut self,
        keys: &Keys<A>,
        chunk: &mut Chunk<A>,
        before: &Before<'_, A>,
        dstate: &mut [A],
        dq_dk: [&mut [A]; 2],
    ) {
        self.of_products(keys, chunk, before, dstate);
        self.of_state(keys, chunk, before, dstate);
        self.of_operands(keys, chunk);
        let [dq, dk] = dq_dk;
        finish(
            (keys.len, chunk.sizes),
            [&keys.q, &keys.k, &chunk.v, &chunk.beta],
            [&chunk.grown, &chunk.rest, &self.of_state],
            [&self.x, &self.q, &self.right, &self.q_grown],
            [&mut self.left, &mut self.k_rest, &mut self.z],
            dq,
            dk,
            &mut self.beta,
            &mut self.g,
        );
    }

    /// Computes the gradients of the chunk's products.
    fn of_products(
        &mut self,
        keys: &Keys<A>,
        chunk: &Chunk<A>,
        before: &Before<'_, A>,
        dstate: &[A],
    ) {
        let len = keys.len;
        let Sizes {
            key_width,
            value_width,
            ..
        } = chunk.sizes;
        let of_values = [len, key_width, value_width];
        multiply_blocks(
            of_values,
            Block::rows(&chunk.k_rest, key_width),
            Block::rows(dstate, value_width),
            (&mut self.dr, value_width),
            false,
        );
        above(len, &chunk.p, (&self.dy, value_width), &mut self.dr, true);

        transpose(before.r, [len, value_width], &mut self.turned, CHUNK);
        let sizes = [len, value_width, len];
        let right = Block::rows(&self.turned, CHUNK);
        multiply_blocks(
            sizes,
            Block::rows(&self.dy, value_width),
            right,
            (&mut self.dp, CHUNK),
            false,
        );

        let of_keys = [len, value_width, key_width];
        let state = [key_width, value_width];
        transpose(before.state, state, &mut self.turned, key_width);
        let right = Block::rows(&self.turned, key_width);
        let dy = Block::rows(&self.dy, value_width);
        multiply_blocks(of_keys, dy, right, (&mut self.q_grown, key_width), false);
        let dr = Block::rows(&self.dr, value_width);
        multiply_blocks(of_keys, dr, right, (&mut self.w_minus, key_width), false);
        transpose(dstate, state, &mut self.turned, key_width);
        let right = Block::rows(&self.turned, key_width);
        let r = Block::rows(before.r, value_width);
        multiply_blocks(of_keys, r, right, (&mut self.k_rest, key_width), false);

        above(
            len,
            &chunk.inverse,
            (&self.dr, value_width),
            &mut self.x,
            false,
        );
        above(
            len,
            &chunk.inverse,
            (&self.w_minus, key_width),
            &mut self.z,
            false,
        );
        let terms = [
            (&self.x, before.u, value_width),
            (&self.z, before.w_minus, key_width),
        ];
        for (add, (left, right, width)) in [false, true].into_iter().zip(terms) {
            transpose(right, [len, width], &mut self.turned, CHUNK);
            let right = Block::rows(&self.turned, CHUNK);
            multiply_blocks(
                [len, width, len],
                Block::rows(left, width),
                right,
                (&mut self.da, CHUNK),
                add,
            );
        }
    }

    /// Changes the gradient of the state.
    fn of_state(
        &mut self,
        keys: &Keys<A>,
        chunk: &Chunk<A>,
        before: &Before<'_, A>,
        dstate: &mut [A],
    ) {
        let (width, value_width) = (chunk.sizes.key_width, chunk.sizes.value_width);
        let total = &chunk.total[..];
        decay_gradient(
            value_width,
            before.state,
            total,
            &mut *dstate,
            &mut self.of_state,
        );
        let terms = [(&chunk.q_grown[..], &self.dy), (before.w_minus, &self.dr)];
        for (left, right) in terms {
            multiply_blocks(
                [width, keys.len, value_width],
                Block::rows(left, width).transposed(),
                Block::rows(right, value_width),
                (&mut *dstate, value_width),
                true,
            );
        }
    }

    /// Computes the gradients of the operands of `P` and `A`.
    fn of_operands(&mut self, keys: &Keys<A>, chunk: &mut Chunk<A>) {
        let (len, width) = (keys.len, chunk.sizes.key_width);
        if chunk.sizes.decays > 1 {
            lower_gradients(len, &[], &mut self.dp, &mut self.da);
            let found = [&mut self.q[..], &mut self.left, &mut self.right];
            return channels::gradients(keys, chunk, [&self.dp, &self.da], found);
        }
        lower_gradients(len, &chunk.decay, &mut self.dp, &mut self.da);
        weigh(
            width,
            &keys.k[..len * width],
            &chunk.beta,
            &mut self.weighted,
        );
        below(len, &self.dp, (&keys.k, width), &mut self.q, false);
        below(len, &self.da, (&keys.k, width), &mut self.left, false);
        above(len, &self.dp, (&keys.q, width), &mut self.right, false);
        above(
            len,
            &self.da,
            (&self.weighted, width),
            &mut self.right,
            true,
        );
    }
}

loops! {
    /// Sets the upper halves to zero and changes the sign of `dA`, whose diagonal is zero too. Multiplies both by `D`, if a head
    /// has one.
    fn lower_gradients<A>(len: usize, decay: &'a [A], dp: &'a mut [A], da: &'a mut [A]) {
        let rows = dp.chunks_exact_mut(CHUNK).zip(da.chunks_exact_mut(CHUNK));
        for (token, (dp, da)) in rows.take(len).enumerate() {
            dp[token + 1..].fill(A::zeroed());
            da[token..].fill(A::zeroed());
            let (dp, da) = (&mut dp[..=token], &mut da[..token]);
            da.iter_mut().for_each(|da| *da = A::zeroed() - *da);
            if let Some(decay) = decay.chunks_exact(CHUNK).nth(token) {
                dp.iter_mut().zip(decay).for_each(|(dp, decay)| *dp = *dp * *decay);
                da.iter_mut().zip(decay).for_each(|(da, decay)| *da = *da * *decay);
            }
        }
    }
}

loops! {
    /// Multiplies rows by rates.
    fn weigh<A>(width: usize, rows: &'a [A], beta: &'a [A], to: &'a mut [A]) {
        let rows = rows.chunks_exact(width).zip(to.chunks_exact_mut(width));
        for ((row, to), beta) in rows.zip(beta) {
            to.iter_mut().zip(row).for_each(|(to, x)| *to = *x * *beta);
        }
    }
}

loops! {
    /// Multiplies the rows of the gradient of a state by their decays, and sums their products with the state.
    fn decay_gradient<A>(
        value_width: usize,
        state: &'a [A],
        total: &'a [A],
        dstate: &'a mut [A],
        sums: &'a mut [A],
    ) {
        sums.fill(A::zeroed());
        let rows = dstate.chunks_exact_mut(value_width).zip(state.chunks_exact(value_width));
        for (channel, (dstate, state)) in rows.enumerate() {
            let factor = of_channel(total, channel);
            dstate.iter_mut().for_each(|x| *x = *x * factor);
            let sum = sum_of(dstate, state, state, |d, s, _| d * s);
            let place = if sums.len() == 1 { 0 } else { channel };
            sums[place] += sum;
        }
    }
}

loops! {
    /// Computes the gradients of queries, keys, rates and logarithms from those of the products, which it uses as memory.
    fn finish<A>(
        extent: (usize, Sizes),
        operands: [&'a [A]; 4],
        decayed: [&'a [A]; 3],
        found: [&'a [A]; 4],
        memory: [&'a mut [A]; 3],
        dq: &'a mut [A],
        dk: &'a mut [A],
        dbeta: &'a mut [A],
        dg: &'a mut [A],
    ) {
        let (len, sizes) = extent;
        let [q, k, v, beta] = operands;
        let [grown, rest, of_state] = decayed;
        let [x, of_q, right, q_grown] = found;
        let [left, k_rest, z] = memory;
        let Sizes { key_width: width, value_width, decays, .. } = sizes;
        let at = |token: usize, width: usize| token * width..(token + 1) * width;
        // The gradients of the sums, from the last token on, and what the last one gets of all tokens.
        let mut sums = vec![0.0; decays];
        for (sum, of_state) in sums.iter_mut().zip(of_state) {
            *sum = of_state.into_f64();
        }
        let add = |sums: &mut [f64], terms: &[A]| match sums {
            [sum] => *sum += crate::sum(terms, |x| x).into_f64(),
            many => many.iter_mut().zip(terms).for_each(|(sum, x)| *sum += x.into_f64()),
        };
        for token in 0..len {
            let (k, rest) = (&k[at(token, width)], &rest[at(token, decays)]);
            let (k_rest, z) = (&mut k_rest[at(token, width)], &mut z[at(token, width)]);
            let (left, grown) = (&mut left[at(token, width)], &grown[at(token, decays)]);
            for channel in 0..width {
                k_rest[channel] = k_rest[channel] * of_channel(rest, channel);
                // The sign is that of `−W`.
                left[channel] = left[channel] - z[channel] * of_channel(grown, channel);
                z[channel] = k[channel] * k_rest[channel];
            }
            add(&mut sums, z);
        }
        for token in (0..len).rev() {
            let beta = beta[token];
            let (q, k) = (&q[at(token, width)], &k[at(token, width)]);
            let (of_q, q_grown) = (&of_q[at(token, width)], &q_grown[at(token, width)]);
            let (right, k_rest) = (&right[at(token, width)], &k_rest[at(token, width)]);
            let (left, grown) = (&left[at(token, width)], &grown[at(token, decays)]);
            let (dq, dk) = (&mut dq[at(token, width)], &mut dk[at(token, width)]);
            let terms = &mut z[at(token, width)];
            for channel in 0..width {
                let of_q = of_q[channel] + of_channel(grown, channel) * q_grown[channel];
                let (left, right) = (beta * left[channel], right[channel] + k_rest[channel]);
                dq[channel] += of_q;
                dk[channel] += left + right;
                terms[channel] = q[channel] * of_q + k[channel] * (left - right);
            }
            add(&mut sums, terms);
            for (dg, sum) in dg[at(token, decays)].iter_mut().zip(&sums) {
                *dg = A::of(*sum);
            }
            let values = at(token, value_width);
            let (x, v) = (&x[values.clone()], &v[values]);
            dbeta[token] = sum_of(x, v, x, |x, v, _| x * v) + sum_of(k, left, k, |k, left, _| k * left);
        }
    }
}
