//! Semantics keys: every parameter that changes the maths of an operation.
//!
//! A kernel may stand in for a layer only if both carry the same key. Keys are small, comparable
//! and printable; they are written into the built file beside each annotated site.

mod custom;
mod experts;
mod glu;
mod moe_block;
mod rms_norm;
mod rope;
mod router;

pub use custom::CustomKey;
pub use experts::{ExpertBias, ExpertLayout, MoeKey};
pub use glu::{Activation, Clamp, GluKey, Projections, TopK};
pub use moe_block::{MoeBlockKey, SharedExpert};
pub use rms_norm::{Gating, Groups, Offset, RmsNormKey, Rounding, Scale};
pub use rope::{HeadLayout, RopeKey, RopeStyle, RotaryWidth, Sections, TableLayout};
pub use router::{Correction, Grouping, Renormalise, RouterKey, RouterWeights, Scoring};

use serde::Serialize;
use std::fmt;

/// The identity of an operation: its name and every parameter that changes its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum SemanticsKey {
    /// Root mean square normalisation.
    RmsNorm(RmsNormKey),
    /// Gated linear unit.
    Glu(GluKey),
    /// Rotary position embedding.
    Rope(RopeKey),
    /// The experts of a mixture.
    Moe(MoeKey),
    /// A sparse block: the router of a mixture, with its experts.
    #[serde(rename = "moe")]
    MoeBlock(MoeBlockKey),
    /// A step of AdamW. It has no variants.
    #[serde(rename = "adam_w")]
    AdamW,
    /// An operation of another crate.
    #[serde(untagged)]
    Custom(CustomKey),
}

impl SemanticsKey {
    /// The operation's name, as kernels state it in [`KernelSpec::op`](crate::registry::KernelSpec).
    pub const fn op(&self) -> &'static str {
        match self {
            Self::RmsNorm(_) => "rms_norm",
            Self::Glu(_) => "glu",
            Self::Rope(_) => "rope",
            Self::Moe(_) | Self::MoeBlock(_) => "moe",
            Self::AdamW => "adam_w",
            Self::Custom(key) => key.op(),
        }
    }

    /// Whether gradients flow through the operation. An optimiser's step has none: it works on what
    /// autodiff has left behind.
    pub const fn is_differentiable(&self) -> bool {
        !matches!(self, Self::AdamW)
    }
}

impl fmt::Display for SemanticsKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RmsNorm(key) => key.fmt(f),
            Self::Glu(key) => key.fmt(f),
            Self::Rope(key) => key.fmt(f),
            Self::Moe(key) => key.fmt(f),
            Self::MoeBlock(key) => key.fmt(f),
            Self::AdamW => f.write_str(self.op()),
            Self::Custom(key) => key.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_say_their_operation_in_json() {
        let keys = [
            SemanticsKey::RmsNorm(RmsNormKey::GEMMA),
            SemanticsKey::Glu(GluKey::SWIGLU),
            SemanticsKey::Rope(RopeKey::LLAMA),
            SemanticsKey::Moe(MoeKey::QWEN3),
            SemanticsKey::MoeBlock(MoeBlockKey::QWEN2_MOE),
            SemanticsKey::Custom(CustomKey::new("soft_cap", &[("base", "tanh")])),
        ];
        for key in keys {
            let json = serde_json::to_value(key).unwrap();
            assert_eq!(json["op"], key.op());
            assert!(json.as_object().unwrap().len() > 1, "{json}");
        }
        let part = |key: usize| serde_json::to_value(keys[key]).unwrap()["part"].clone();
        assert_eq!((part(3), part(4)), ("experts".into(), "block".into()));
        let json = serde_json::to_string(&keys[5]).unwrap();
        assert_eq!(json, r#"{"op":"soft_cap","base":"tanh"}"#);
        let json = serde_json::to_string(&SemanticsKey::AdamW).unwrap();
        assert_eq!(json, r#"{"op":"adam_w"}"#);
    }

    #[test]
    fn keys_print_the_parameters_that_are_not_usual() {
        let text = |key: SemanticsKey| key.to_string();
        assert_eq!(
            text(SemanticsKey::RmsNorm(RmsNormKey::GEMMA)),
            "rms_norm(offset=1, rounding=gemma)"
        );
        let rope = RopeKey {
            style: RopeStyle::Interleaved,
            width: RotaryWidth::Partial,
            layout: HeadLayout::Bsnd,
            table: TableLayout::Pairs,
            ..RopeKey::LLAMA
        };
        assert_eq!(
            text(SemanticsKey::Rope(rope)),
            "rope(style=interleaved, width=partial, layout=bsnd, table=pairs)"
        );
        let glu = GluKey {
            activation: Activation::QuickGelu,
            projections: Projections::Interleaved,
            clamp: Clamp::Limit,
            up_offset: Offset::One,
            topk: TopK::None,
        };
        assert_eq!(
            text(SemanticsKey::Glu(glu)),
            "glu(activation=quick_gelu, projections=interleaved, clamp=limit, up_offset=1)"
        );
        assert_eq!(
            text(SemanticsKey::Moe(MoeKey::QWEN3)),
            "moe(activation=silu, projections=chunked, layout=linear)"
        );
        assert_eq!(
            text(SemanticsKey::Moe(MoeKey::GPT_OSS)),
            "moe(activation=quick_gelu, projections=interleaved, layout=matmul, clamp=limit, \
             up_offset=1, bias=all)"
        );
    }
}
