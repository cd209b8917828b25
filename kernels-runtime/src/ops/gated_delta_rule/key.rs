use crate::ops::causal_conv1d::key::write_state;
use crate::semantics::{Dtypes, InitialState, SequenceLengths, compute_dtype, differ};
use burn::tensor::DType;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use std::fmt;

/// The settings that change the result of a gated delta rule. Each token changes the state `S` of a head and reads it:
/// `S ← e^g S`, `S ← S + β k (v − Sᵀk)ᵀ`, `y = scale · Sᵀq`.
///
/// It is computed in f32, also on half types, whose results are rounded once. The factor of the queries is a run-time
/// value of the site, not part of the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct GatedDeltaRuleKey {
    /// The unit that has a decay of its own: a head or a channel.
    pub decay: Decay,
    /// The norm of queries and keys.
    pub norm: KeyNorm,
    /// The state before the first token.
    pub state: InitialState,
    /// The sequences that the rows are packed of, if they are.
    pub lengths: SequenceLengths,
}

impl GatedDeltaRuleKey {
    /// Gated DeltaNet, as Qwen3-Next has it, over whole sequences (arXiv:2412.06464).
    pub const GATED_DELTA_NET: Self = Self {
        decay: Decay::Head,
        norm: KeyNorm::L2,
        state: InitialState::None,
        lengths: SequenceLengths::None,
    };

    /// Kimi Delta Attention over whole sequences (arXiv:2510.26692).
    pub const KIMI: Self = Self {
        decay: Decay::Channel,
        ..Self::GATED_DELTA_NET
    };
}

/// What a decay of a gated delta rule belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decay {
    /// The whole state of a head: `g` is `[batch, tokens, heads]` (Gated DeltaNet).
    Head,
    /// A channel of the key, which is a row of the state: `g` is `[batch, tokens, heads, key width]` (Kimi Delta
    /// Attention).
    Channel,
}

/// The norm of the queries and keys of a gated delta rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyNorm {
    /// `x / √(Σ x² + 1e-6)` of each head, in f32 and not rounded.
    L2,
    /// They are used as they are.
    None,
}

impl Dtypes for GatedDeltaRuleKey {
    /// Returns whether the dtypes of queries, keys, values and rates differ, or decays and states are not in the
    /// compute dtype.
    fn mixes(&self, dtypes: impl ExactSizeIterator<Item = DType>) -> bool {
        let dtypes: SmallVec<[DType; 6]> = dtypes.collect();
        match dtypes[..] {
            [q, k, v, g, beta, ref state @ ..] => {
                let wide = compute_dtype(q);
                differ([q, k, v, beta].into_iter())
                    || g != wide
                    || state.iter().any(|state| *state != wide)
            }
            _ => differ(dtypes.into_iter()),
        }
    }
}

impl fmt::Display for GatedDeltaRuleKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.decay {
            Decay::Head => "gated_delta_rule(decay=head",
            Decay::Channel => "gated_delta_rule(decay=channel",
        })?;
        if self.norm == KeyNorm::None {
            f.write_str(", norm=none")?;
        }
        write_state(f, self.state, self.lengths)
    }
}
