//! Short causal convolutions of channels: `y[t] = act(bias + Σ_j w[j] · x[t − K + 1 + j])`, each channel with `K` weights of
//! its own, and `silu` or nothing as `act` (Gated DeltaNet, Mamba).
//!
//! A sequence begins with a state, the `K − 1` inputs before its first token, or with zeros. Channels are the lanes; a thread
//! computes some channels of a sequence, whose last `K` rows stay in the first-level cache. So inputs are read once and
//! results written once. Half types are computed in f32 and rounded once.
//!
//! With `p` the sum before `act` and `d = dy · act'(p)`, the gradients are `dx[t] = Σ_j w[j] · d[t + K − 1 − j]`,
//! `dw[j] = Σ_t d[t] · x[t − K + 1 + j]` and `dbias = Σ_t d[t]`. Inputs before the first token are the state's, and the
//! gradient of the last state is added to that of the last inputs. One pass over the tokens computes `p` again and all of
//! these. Sums over tokens are in f64 beyond some hundreds.

mod backward;
mod forward;
mod given;
#[cfg(test)]
mod tests;

use crate::{Values, View, with_type};

/// The least and the largest number of weights of a channel, `K`.
pub const WIDTHS: std::ops::RangeInclusive<usize> = 2..=8;

/// The operands of a call, all of one type.
#[derive(Clone, Debug)]
pub struct Operands<'a> {
    /// The inputs, `[batch, tokens, channels]`. The channels of a token are contiguous.
    pub x: View<'a>,
    /// The weights, `[channels, K]`, contiguous. The last belongs to the token itself.
    pub weight: View<'a>,
    /// The bias, `[channels]`, contiguous.
    pub bias: Option<View<'a>>,
    /// The inputs before the first tokens, `[sequences, K − 1, channels]`, contiguous. They are zero if there are none.
    pub state: Option<View<'a>>,
    /// The lengths of packed sequences: those of the first row of the batch, then of the second, and so on. A sequence lies
    /// in one row. Without lengths, each row is a sequence.
    pub lengths: Option<&'a [usize]>,
    /// True if the results are `silu` of the sums.
    pub silu: bool,
}

/// The results of the forward pass.
#[derive(Clone, Debug)]
pub struct Found {
    /// The result, `[batch, tokens, channels]`.
    pub y: Values,
    /// The last `K − 1` inputs, `[sequences, K − 1, channels]`.
    pub state: Values,
}

/// The gradients, with the sizes and the type of the operands.
#[derive(Clone, Debug)]
pub struct Gradients {
    /// The gradient of the inputs.
    pub x: Values,
    /// The gradient of the weights.
    pub weight: Values,
    /// The gradient of a bias, also if there is none.
    pub bias: Values,
    /// The gradient of the inputs before the first tokens, also if they were not given.
    pub state: Values,
}

/// Returns the result and the last states.
///
/// # Panics
/// Panics if sizes or types don't go together, if the number of weights is not within [`WIDTHS`], or if a tensor can't be
/// read in place.
pub fn forward(operands: &Operands<'_>) -> Found {
    with_type!(operands.x.dtype(), T => forward::forward::<T>(operands))
}

/// Returns the gradients, from that of the result, with the sizes of `x` and contiguous channels, and that of the last states,
/// contiguous, which is zero if there is none.
///
/// # Panics
/// Panics under the conditions of [`forward`](forward()).
pub fn backward(operands: &Operands<'_>, dy: &View<'_>, dstate: Option<&View<'_>>) -> Gradients {
    with_type!(operands.x.dtype(), T => backward::backward::<T>(operands, dy, dstate))
}
