use crate::semantics::{Dtypes, compute_dtype, differ};
use burn::tensor::DType;
use serde::{Deserialize, Serialize};
use std::fmt;

/// What changes the result of a rotary position embedding (Su et al., arXiv:2104.09864).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RopeKey {
    /// Which elements of a head are rotated together.
    pub style: RopeStyle,
    /// How much of a head is rotated.
    pub width: RotaryWidth,
    /// The order of the axes of queries and keys.
    pub layout: HeadLayout,
    /// How the tables of cosines and sines are laid out.
    pub table: TableLayout,
    /// Whether each token has one position or three.
    pub sections: Sections,
}

impl RopeKey {
    /// Llama's: rotate-half of whole heads in `[batch, heads, seq, dim]`.
    pub const LLAMA: Self = Self {
        style: RopeStyle::Half,
        width: RotaryWidth::Full,
        layout: HeadLayout::Bnsd,
        table: TableLayout::Halves,
        sections: Sections::None,
    };
}

/// How a rotary position embedding pairs the elements of a rotated stretch of width `w`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RopeStyle {
    /// Element `i` with `i + w/2` ("rotate half"): Llama, Qwen, Mistral, Gemma.
    Half,
    /// Element `2i` with `2i + 1`: GLM-4, Cohere, Llama 4, DeepSeek V2.
    Interleaved,
    /// Element `2i` with `2i + 1`, and the results are written to `i` and `i + w/2`: DeepSeek V3.
    InterleavedToHalf,
}

/// How much of a head is rotated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RotaryWidth {
    /// All of it: the table is as wide as the head.
    Full,
    /// As much from its start as the table is wide, at most the head; the rest passes through
    /// (Phi 3, GLM-4, Qwen3-Next).
    Partial,
}

/// The order of the axes of queries and keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HeadLayout {
    /// `[batch, heads, seq, dim]`.
    Bnsd,
    /// `[batch, seq, heads, dim]`.
    Bsnd,
}

/// Which element of the tables belongs to pair `i` of a rotated stretch of width `w`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TableLayout {
    /// Width `w`, every angle twice, as `cat(freqs, freqs)`. Styles that write halves read both
    /// `i` and `i + w/2`; [`RopeStyle::Interleaved`] reads `i` alone, as GLM-4 does.
    Halves,
    /// Width `w`, every angle twice in a row, as `repeat_interleave(freqs, 2)` (Cohere): `2i` and
    /// `2i + 1`. For [`RopeStyle::Interleaved`].
    Neighbours,
    /// Width `w/2`, every angle once (gpt-oss; the parts of Llama 4's complex table).
    Pairs,
}

/// Multimodal rotary embedding: whether the pairs of a token take their angle from one position or
/// from three (time, height, width). The lengths of the sections, in pairs, are run-time values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sections {
    /// One position; tables of `[1 or batch, seq, w]`.
    None,
    /// Three positions, tables of `[3, batch, seq, w]`; the first pairs take time, then height,
    /// then width (Qwen2.5-VL).
    Chunked,
    /// Three positions; the pairs take them in turn, `t h w t h w …`, while a section lasts, and
    /// time for the rest (Qwen3-VL).
    Interleaved,
}

impl Dtypes for RopeKey {
    /// The tables, which follow queries and keys, may be in the dtype that those are computed in.
    fn mixes(&self, mut dtypes: impl ExactSizeIterator<Item = DType>) -> bool {
        if dtypes.len() != 4 {
            return differ(dtypes);
        }
        let [q, k, cos, sin] = std::array::from_fn(|_| dtypes.next());
        q != k || cos != sin || (cos != q && cos != q.map(compute_dtype))
    }
}

impl fmt::Display for RopeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.style {
            RopeStyle::Half => "rope(style=half",
            RopeStyle::Interleaved => "rope(style=interleaved",
            RopeStyle::InterleavedToHalf => "rope(style=interleaved_to_half",
        })?;
        if self.width == RotaryWidth::Partial {
            f.write_str(", width=partial")?;
        }
        if self.layout == HeadLayout::Bsnd {
            f.write_str(", layout=bsnd")?;
        }
        match self.table {
            TableLayout::Halves => {}
            TableLayout::Neighbours => f.write_str(", table=neighbours")?,
            TableLayout::Pairs => f.write_str(", table=pairs")?,
        }
        match self.sections {
            Sections::None => {}
            Sections::Chunked => f.write_str(", sections=chunked")?,
            Sections::Interleaved => f.write_str(", sections=interleaved")?,
        }
        f.write_str(")")
    }
}
