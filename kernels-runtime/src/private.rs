//! What expansions of the attribute call. Not a public interface: it changes with the attribute.

pub use crate::__declare_site as declare_site;
pub use crate::dispatch::At;
pub use crate::once::once;
pub use crate::registry::{Form, Site, SiteSpec};
pub use crate::semantics::{
    Activation, Clamp, CustomKey, Gating, GluKey, Groups, HeadLayout, Offset, Projections,
    RmsNormKey, RopeKey, RopeStyle, RotaryWidth, Rounding, Scale, Sections, SemanticsKey,
    TableLayout, TopK,
};
pub use burn;
pub use linkme;

pub use crate::ops::rope::RopeTable;
pub use glu::{glu, glu_mlp, glu_packed, glu_packed_mlp};
pub use norm::{rms_norm, rms_norm_gated};
pub use operands::{Count, Epsilon, NormWeight, Number, SectionLengths, SectionTable};
pub use rope::{rope, rope_sections};

#[path = "private/glu.rs"]
mod glu;
#[path = "private/norm.rs"]
mod norm;
#[path = "private/operands.rs"]
mod operands;
#[path = "private/reference.rs"]
pub mod reference;
#[path = "private/rope.rs"]
mod rope;
#[cfg(debug_assertions)]
#[path = "private/shared.rs"]
mod shared;

use crate::kernel::Operands;

/// A call of a site of another crate's kernel. `reference` is the user's own body.
#[track_caller]
pub fn custom<O: Operands>(
    at: At,
    operands: O,
    reference: impl FnOnce(O) -> O::Output,
) -> O::Output {
    crate::kernel::custom(at, operands, reference)
}

/// A name that Cargo gives, if it is Cargo that builds.
pub const fn or_unknown(name: Option<&'static str>) -> &'static str {
    match name {
        Some(name) => name,
        None => "unknown",
    }
}
