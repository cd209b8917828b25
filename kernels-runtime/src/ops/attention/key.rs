use crate::semantics::{Dtypes, HeadLayout};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The settings that change the result of attention, `softmax(scale · q·kᵀ + mask) · v` (Vaswani et al.,
/// arXiv:1706.03762).
///
/// The scale, the prefix, the window, the cap and the offset of the queries are run-time values of the site, not part of the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct AttentionKey {
    /// The keys that a query sees by their order.
    pub mask: AttentionMask,
    /// The limit of the distance between a query and its keys.
    pub window: AttentionWindow,
    /// The tensor that is added to the scores, if there is one.
    pub bias: AttentionBias,
    /// The limit of the scores.
    pub cap: ScoreCap,
    /// The learned scores that take part in the sum of each softmax, if there are any.
    pub sink: Sinks,
    /// The sequences that are shorter than the tensors' axes, if there are any.
    pub lengths: SequenceLengths,
    /// The order of the axes.
    pub layout: HeadLayout,
}

impl AttentionKey {
    /// Llama's attention: causal, in `[batch, heads, seq, dim]`.
    pub const CAUSAL: Self = Self {
        mask: AttentionMask::Causal,
        window: AttentionWindow::None,
        bias: AttentionBias::None,
        cap: ScoreCap::None,
        sink: Sinks::None,
        lengths: SequenceLengths::None,
        layout: HeadLayout::Bnsd,
    };
}

/// The keys that a query sees by their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttentionMask {
    /// The key at its own position and those before it.
    Causal,
    /// As [`Causal`](Self::Causal), and the first keys of the sequence, whose number is a run-time value: a prefix that
    /// sees itself as a whole (T5's prefix LM, arXiv:1910.10683; PaliGemma).
    Prefix,
    /// All keys.
    None,
}

/// The limit of the distance between a query and its keys. Its size is a run-time value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttentionWindow {
    /// There is no limit.
    None,
    /// Positions that are fewer than `window` apart (Mistral, Gemma, gpt-oss).
    Sliding,
    /// Positions of the same chunk of `window` positions (Llama 4).
    Chunked,
}

/// The tensor that is added to the scores after scale and cap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttentionBias {
    /// Nothing is added.
    None,
    /// A tensor is added: a mask of zeros and negative numbers, ALiBi's `slope · key`, a learned bias of positions.
    Additive,
}

/// The limit of the scores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScoreCap {
    /// There is no limit.
    None,
    /// Scaled scores become `cap · tanh(score / cap)` (Gemma 2).
    Tanh,
}

/// The learned scores, one for each head, that take part in the sum of each softmax and have no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sinks {
    /// There are none.
    None,
    /// Each head has one (gpt-oss).
    Learned,
}

/// The sequences that are shorter than the tensors' axes. Their lengths are run-time values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SequenceLengths {
    /// All sequences have the length of the axis.
    None,
    /// Each sequence is followed by padding, whose keys are hidden.
    Padded,
    /// Each sequence follows padding, whose keys are hidden. A batch that a cache of keys grows for is padded so.
    LeftPadded,
    /// Each sequence is several documents, one after the other. A query sees keys of its own document.
    Packed,
}

impl Dtypes for AttentionKey {}

impl fmt::Display for AttentionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.mask {
            AttentionMask::Causal => "attention(mask=causal",
            AttentionMask::Prefix => "attention(mask=prefix",
            AttentionMask::None => "attention(mask=none",
        })?;
        match self.window {
            AttentionWindow::None => {}
            AttentionWindow::Sliding => f.write_str(", window=sliding")?,
            AttentionWindow::Chunked => f.write_str(", window=chunked")?,
        }
        if self.bias == AttentionBias::Additive {
            f.write_str(", bias=additive")?;
        }
        if self.cap == ScoreCap::Tanh {
            f.write_str(", cap=tanh")?;
        }
        if self.sink == Sinks::Learned {
            f.write_str(", sink=learned")?;
        }
        match self.lengths {
            SequenceLengths::None => {}
            SequenceLengths::Padded => f.write_str(", lengths=padded")?,
            SequenceLengths::LeftPadded => f.write_str(", lengths=left_padded")?,
            SequenceLengths::Packed => f.write_str(", lengths=packed")?,
        }
        if self.layout == HeadLayout::Bsnd {
            f.write_str(", layout=bsnd")?;
        }
        f.write_str(")")
    }
}
