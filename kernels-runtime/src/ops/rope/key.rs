use crate::semantics::{Dtypes, compute_dtype, differ};
use burn::tensor::DType;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The settings that change the result of a rotary position embedding (Su et al., arXiv:2104.09864).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RopeKey {
    /// The elements of a head that are rotated together.
    pub style: RopeStyle,
    /// The part of a head that is rotated.
    pub width: RotaryWidth,
    /// The order of the axes of queries and keys.
    pub layout: HeadLayout,
    /// The layout of the tables of cosines and sines.
    pub table: TableLayout,
    /// The positions of each token, one or three.
    pub sections: Sections,
}

impl RopeKey {
    /// Llama's embedding: rotate-half of whole heads in `[batch, heads, seq, dim]`.
    pub const LLAMA: Self = Self {
        style: RopeStyle::Half,
        width: RotaryWidth::Full,
        layout: HeadLayout::Bnsd,
        table: TableLayout::Halves,
        sections: Sections::None,
    };
}

/// The part of a head that is rotated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RotaryWidth {
    /// The whole head: the table is as wide as the head.
    Full,
    /// The first elements of the head, as many as the table is wide, at most the whole head. The rest
    /// stays unchanged (Phi 3, GLM-4, Qwen3-Next).
    Partial,
}

pub use kernels_simd::keys::{HeadLayout, RopeStyle, TableLayout};

/// The sections of a multimodal rotary embedding: the pairs of a token take their angle from one
/// position or from three (time, height, width). The lengths of the sections, in pairs, are run-time values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sections {
    /// One position, with tables of `[1 or batch, seq, w]`.
    None,
    /// Three positions, with tables of `[3, batch, seq, w]`. The first pairs take time, the next height,
    /// the last width (Qwen2.5-VL).
    Chunked,
    /// Three positions. The pairs take them in turn, `t h w t h w …`, as long as a section lasts, and then
    /// time (Qwen3-VL).
    Interleaved,
}

impl Dtypes for RopeKey {
    /// Returns whether the dtypes differ. The tables, which follow queries and keys, may also be in the compute dtype.
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
