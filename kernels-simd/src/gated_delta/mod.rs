//! Gated delta rules: Gated DeltaNet (Yang, Kautz & Hatamizadeh, arXiv:2412.06464) and Kimi Delta Attention
//! (arXiv:2510.26692).
//!
//! A head has a state `S`, `[key width, value width]`. Each token changes it and reads it:
//!
//! `S ← e^g S`, `u = β (v − Sᵀk)`, `S ← S + k uᵀ`, `y = scale · Sᵀq`.
//!
//! The logarithm of the decay, `g`, is a number for each head, or, as in Kimi Delta Attention, for each channel of the key,
//! which is a row of `S`. Queries and keys may be normalised first: `x / √(Σ x² + 1e-6)`. Several heads of values may share a
//! head of queries and keys. Packed sequences each begin with a state of their own.
//!
//! A sequence is computed in chunks of [`CHUNK`] tokens (arXiv:2406.06484, arXiv:2412.06464). With `G` the cumulative sum of
//! `g` in a chunk, `D_ij = e^(G_i − G_j)` for `i ≥ j`, scaled queries and the state `S` before the chunk:
//!
//! * `A = strict_lower(β_i (k_i·k_j) D_ij)`, `T = (I + A)⁻¹`, `P = lower((q_i·k_j) D_ij)`;
//! * `U = T (β v)`, `W = T (β e^G k)`, `R = U − W S`;
//! * `Y = (e^G q) S + P R`, and `S ← e^(G_C) S + (e^(G_C − G) k)ᵀ R`.
//!
//! With a decay for each channel, `D` is a factor of each term of the dot products (`channels`). No exponential of `−G`
//! alone is formed, because it would overflow. Everything is computed in f32, or in f64 for f64, whatever the types of the
//! operands; sums and differences of `g` are in f64. Results are rounded once.
//!
//! A decay may be zero, with a logarithm of `-∞`. A number that is NaN makes the results of its head and chunk and of all
//! later ones NaN, also those of earlier tokens of the chunk, because products of whole chunks are computed.
//!
//! The forward pass keeps `T` alone. The backward pass reads the operands again, and from them and `T` computes first the
//! states before all chunks, and then, from the last chunk to the first, the gradients (`backward`). Both take time and
//! memory in proportion to the tokens. A thread computes a sequence of a head, in the order of its tokens, so results don't
//! depend on the number of threads.

mod backward;
mod channels;
mod chunk;
mod forward;
mod given;
mod gradient;
mod recurrent;
#[cfg(test)]
mod tests;
mod triangle;

use crate::{SliceMut, Values, View, with_type};

/// The number of tokens of a chunk.
pub const CHUNK: usize = 64;

/// The number that is added to the sum of squares of a query or key that is normalised.
pub const EPSILON: f64 = 1e-6;

/// The operands of a call. The elements of a head are contiguous, and strides are not negative.
#[derive(Clone, Debug)]
pub struct Operands<'a> {
    /// The queries, `[batch, tokens, key heads, key width]`.
    pub q: View<'a>,
    /// The keys, with the sizes and type of the queries.
    pub k: View<'a>,
    /// The values, `[batch, tokens, heads, value width]`. Head `h` reads head `h / (heads / key heads)` of the keys.
    pub v: View<'a>,
    /// The logarithms of the decays, `[batch, tokens, heads]`, or for each channel of the key, `[batch, tokens, heads, key
    /// width]`. They are in f32, or in f64 for f64.
    pub g: View<'a>,
    /// The rates of the updates, `[batch, tokens, heads]`, in the type of the queries.
    pub beta: View<'a>,
    /// The states before the first tokens, `[sequences, heads, key width, value width]`, contiguous, in the type of `g`. They
    /// are zero if there are none.
    pub state: Option<View<'a>>,
    /// The lengths of packed sequences: those of the first row of the batch, then of the second, and so on. A sequence lies
    /// in one row. Without lengths, each row is a sequence.
    pub lengths: Option<&'a [usize]>,
    /// The factor of the queries.
    pub scale: f64,
    /// True if queries and keys are normalised.
    pub normalise: bool,
}

/// The sizes of the axes of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// The number of rows of the batch.
    pub batch: usize,
    /// The number of tokens of a row.
    pub tokens: usize,
    /// The number of heads of queries and keys, a divisor of `heads`.
    pub key_heads: usize,
    /// The number of heads of values.
    pub heads: usize,
    /// The width of a head of queries and keys, at least 1.
    pub key_width: usize,
    /// The width of a head of values, at least 1.
    pub value_width: usize,
    /// The number of decays of a head and token: 1 or the key width.
    pub decays: usize,
    /// The number of sequences.
    pub sequences: usize,
}

impl Sizes {
    /// Returns the number of heads of values that share a head of keys.
    pub fn group(self) -> usize {
        self.heads.checked_div(self.key_heads).unwrap_or(0)
    }

    /// Returns the sizes of the states.
    pub fn states(self) -> [usize; 4] {
        [self.sequences, self.heads, self.key_width, self.value_width]
    }

    /// Returns the sizes of the matrices `T` that the forward pass keeps: a row of [`CHUNK`] elements for each token.
    pub fn inverses(self) -> [usize; 4] {
        [self.batch, self.heads, self.tokens, CHUNK]
    }
}

/// The results of the forward pass.
#[derive(Clone, Debug)]
pub struct Found {
    /// The result, `[batch, tokens, heads, value width]`, in the type of the queries.
    pub y: Values,
    /// The states behind the last tokens, `[sequences, heads, key width, value width]`, in the type of `g`.
    pub state: Values,
    /// The matrices `T` of the chunks, `[batch, heads, tokens, CHUNK]`, in the type of `g`, if the backward pass needs them.
    pub inverses: Option<Values>,
}

/// The gradients, with the sizes and types of the operands.
#[derive(Clone, Debug)]
pub struct Gradients {
    /// The gradient of the queries.
    pub q: Values,
    /// The gradient of the keys.
    pub k: Values,
    /// The gradient of the values.
    pub v: Values,
    /// The gradient of the logarithms of the decays.
    pub g: Values,
    /// The gradient of the rates.
    pub beta: Values,
    /// The gradient of the states before the first tokens, also if they were not given.
    pub state: Values,
}

/// The tensors that a backward pass begins with.
#[derive(Clone, Debug)]
pub struct Ends<'a> {
    /// The gradient of the result, `[batch, tokens, heads, value width]`, as heads of the operands lie.
    pub dy: View<'a>,
    /// The gradient of the last states, contiguous. It is zero if there is none.
    pub dstate: Option<View<'a>>,
    /// The matrices that the forward pass kept, contiguous.
    pub inverses: View<'a>,
}

/// Returns the sizes of a call.
///
/// # Panics
/// Panics if they don't go together.
pub fn sizes(operands: &Operands<'_>) -> Sizes {
    given::sizes(operands)
}

/// Returns the result and the last states. If gradients are `wanted`, it also keeps what the backward pass needs.
///
/// # Panics
/// Panics if sizes or types don't go together, or if a tensor can't be read in place.
pub fn forward(operands: &Operands<'_>, wanted: bool) -> Found {
    with_type!(operands.q.dtype(), T => forward::forward::<T>(operands, wanted))
}

/// Returns the result, token by token, and changes the states in place, as decoding does. `state` has the elements of
/// `[sequences, heads, key width, value width]`, and [`Operands::state`] is not read.
///
/// # Panics
/// Panics under the conditions of [`forward`](forward()), and if the state has other sizes.
pub fn step(operands: &Operands<'_>, state: SliceMut<'_>) -> Values {
    with_type!(operands.q.dtype(), T => recurrent::step::<T>(operands, state))
}

/// Returns the gradients.
///
/// # Panics
/// Panics under the conditions of [`forward`](forward()).
pub fn backward(operands: &Operands<'_>, ends: &Ends<'_>) -> Gradients {
    with_type!(operands.q.dtype(), T => backward::backward::<T>(operands, ends))
}
