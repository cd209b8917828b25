//! Semantics keys: every parameter that changes the maths of an operation.
//!
//! A kernel may stand in for a layer only if both carry the same key. Keys are small, comparable
//! and printable; they are written into the built file beside each annotated site.

mod glu;
mod rms_norm;
mod rope;

pub use glu::{Activation, GluKey};
pub use rms_norm::{Offset, RmsNormKey, Rounding};
pub use rope::{RopeKey, RopeStyle};

use serde::{Deserialize, Serialize};
use std::fmt;

/// The identity of an operation: its name and every parameter that changes its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum SemanticsKey {
    /// Root mean square normalisation.
    RmsNorm(RmsNormKey),
    /// Gated linear unit.
    Glu(GluKey),
    /// Rotary position embedding.
    Rope(RopeKey),
}

impl SemanticsKey {
    /// The operation's name, as kernels state it in [`KernelSpec::op`](crate::registry::KernelSpec).
    pub const fn op(&self) -> &'static str {
        match self {
            Self::RmsNorm(_) => "rms_norm",
            Self::Glu(_) => "glu",
            Self::Rope(_) => "rope",
        }
    }
}

impl fmt::Display for SemanticsKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RmsNorm(key) => key.fmt(f),
            Self::Glu(key) => key.fmt(f),
            Self::Rope(key) => key.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_survive_json() {
        let keys = [
            SemanticsKey::RmsNorm(RmsNormKey {
                offset: Offset::One,
                rounding: Rounding::Gemma,
            }),
            SemanticsKey::Glu(GluKey {
                activation: Activation::Silu,
            }),
            SemanticsKey::Rope(RopeKey {
                style: RopeStyle::Half,
            }),
        ];
        for key in keys {
            let json = serde_json::to_string(&key).unwrap();
            assert_eq!(serde_json::from_str::<SemanticsKey>(&json).unwrap(), key);
            assert!(json.contains(&format!("\"op\":\"{}\"", key.op())), "{json}");
        }
    }

    #[test]
    fn keys_print_their_parameters() {
        let key = SemanticsKey::RmsNorm(RmsNormKey {
            offset: Offset::One,
            rounding: Rounding::Gemma,
        });
        assert_eq!(key.to_string(), "rms_norm(offset=1, rounding=gemma)");
    }
}
