use crate::semantics::{
    Dtypes, Gating, HeadLayout, Offset, RmsNormKey, RopeKey, RopeStyle, RotaryWidth, Rounding,
    Scale, Sections, TableLayout,
};
use burn::tensor::DType;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use std::fmt;

/// The settings that change the result of the norm and rotation of queries and keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct QkNormRopeKey {
    /// The elements that are normalised together.
    pub norm: QkNorm,
    /// The constant that is added to the norm's weight. Zero without a norm.
    pub offset: Offset,
    /// The rounding of the norm in half types. Llama's without a norm.
    pub rounding: Rounding,
    /// The elements of a head that are rotated together.
    pub style: RopeStyle,
    /// The part of a head that is rotated.
    pub width: RotaryWidth,
    /// The order of the axes of the results. Queries and keys are always `[batch, seq, heads, dim]`.
    pub layout: HeadLayout,
    /// The layout of the tables of cosines and sines.
    pub table: TableLayout,
    /// The positions of each token, one or three.
    pub sections: Sections,
}

/// The elements of queries and keys that one RMSNorm takes together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QkNorm {
    /// There is no norm.
    None,
    /// Each head of a token (Qwen3, Gemma 3). All heads share a weight, as wide as one head.
    Head,
    /// All heads of a token (OLMo 2). The weight is as wide as all heads together.
    Row,
}

impl QkNormRopeKey {
    /// Qwen3's: Llama's norm of each head, and Llama's rotation.
    pub const QWEN3: Self = Self {
        norm: QkNorm::Head,
        offset: Offset::Zero,
        rounding: Rounding::Llama,
        style: RopeStyle::Half,
        width: RotaryWidth::Full,
        layout: HeadLayout::Bnsd,
        table: TableLayout::Halves,
        sections: Sections::None,
    };

    /// Gemma 3's: Gemma's norm of each head.
    pub const GEMMA3: Self = Self {
        offset: Offset::One,
        rounding: Rounding::Gemma,
        ..Self::QWEN3
    };

    /// OLMo 2's: a norm of all heads of a token, rounded once.
    pub const OLMO2: Self = Self {
        norm: QkNorm::Row,
        rounding: Rounding::Gemma,
        ..Self::QWEN3
    };

    /// Llama's: a rotation without a norm.
    pub const LLAMA: Self = Self {
        norm: QkNorm::None,
        ..Self::QWEN3
    };

    /// Returns the variant of the norm, which the key must have.
    pub(crate) fn rms_norm(self) -> RmsNormKey {
        RmsNormKey {
            offset: self.offset,
            rounding: self.rounding,
            scale: Scale::Weight,
            gating: Gating::None,
            ..RmsNormKey::LLAMA
        }
    }

    /// Returns the variant of the rotation of tensors in the layout of the results.
    pub(crate) fn rope(self) -> RopeKey {
        RopeKey {
            style: self.style,
            width: self.width,
            layout: self.layout,
            table: self.table,
            sections: self.sections,
        }
    }
}

impl Dtypes for QkNormRopeKey {
    /// Returns whether the dtypes differ. The tables, which come last, follow the rules of a rotation.
    fn mixes(&self, dtypes: impl ExactSizeIterator<Item = DType>) -> bool {
        let dtypes: SmallVec<[DType; 6]> = dtypes.collect();
        let Some(([first, others @ ..], [cos, sin])) = dtypes.split_last_chunk::<2>() else {
            return true;
        };
        others.iter().any(|dtype| dtype != first)
            || self.rope().mixes([*first, *first, *cos, *sin].into_iter())
    }
}

impl fmt::Display for QkNormRopeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (norm, rounding) = (self.norm, self.rounding);
        f.write_str(match norm {
            QkNorm::None => "qk_norm_rope(norm=none",
            QkNorm::Head => "qk_norm_rope(norm=head",
            QkNorm::Row => "qk_norm_rope(norm=row",
        })?;
        if norm != QkNorm::None {
            let rounding = match rounding {
                Rounding::Llama => "llama",
                Rounding::Gemma => "gemma",
            };
            write!(f, ", offset={}, rounding={rounding}", self.offset.value())?;
        }
        let rope = self.rope().to_string();
        let settings = rope.strip_prefix("rope(").unwrap_or(&rope);
        write!(f, ", {settings}")
    }
}
