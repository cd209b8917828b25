use crate::semantics::{Dtypes, SequenceLengths, Shift};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The settings that change the result of a short causal convolution of channels,
/// `y[t] = act(bias + Σ_j w[j] · x[t − K + 1 + j])`.
///
/// On half types the sum is computed in f32, and the result is rounded once, behind the activation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CausalConv1dKey {
    /// The function of the sums.
    pub activation: ConvActivation,
    /// The learned bias of each channel, if there is one.
    pub shift: Shift,
    /// The inputs before the first token.
    pub state: InitialState,
    /// The sequences that the rows are packed of, if they are.
    pub lengths: SequenceLengths,
}

impl CausalConv1dKey {
    /// The convolution of Gated DeltaNet, as Qwen3-Next has it, over whole sequences.
    pub const GATED_DELTA_NET: Self = Self {
        activation: ConvActivation::Silu,
        shift: Shift::None,
        state: InitialState::None,
        lengths: SequenceLengths::None,
    };
}

/// The function of the sums of a short convolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConvActivation {
    /// `a · σ(a)`: Gated DeltaNet, Kimi Delta Attention, Mamba.
    Silu,
    /// The sum itself.
    None,
}

/// The state before the first token of an operation that carries one from token to token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InitialState {
    /// It is zero.
    None,
    /// It is an operand, such as that of a cache.
    Given,
}

impl Dtypes for CausalConv1dKey {}

impl fmt::Display for CausalConv1dKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.activation {
            ConvActivation::Silu => "causal_conv1d(activation=silu",
            ConvActivation::None => "causal_conv1d(activation=none",
        })?;
        if self.shift == Shift::Bias {
            f.write_str(", shift=bias")?;
        }
        write_state(f, self.state, self.lengths)
    }
}

/// Writes the rest of a key, if it is not usual.
pub(in crate::ops) fn write_state(
    f: &mut fmt::Formatter<'_>,
    state: InitialState,
    lengths: SequenceLengths,
) -> fmt::Result {
    if state == InitialState::Given {
        f.write_str(", state=given")?;
    }
    f.write_str(match lengths {
        SequenceLengths::None => ")",
        SequenceLengths::Padded => ", lengths=padded)",
        SequenceLengths::LeftPadded => ", lengths=left_padded)",
        SequenceLengths::Packed => ", lengths=packed)",
    })
}
