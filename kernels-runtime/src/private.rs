//! What expansions of the attribute call. Not a public interface: it changes with the attribute.

pub use crate::__debug_as_display as debug_as_display;
pub use crate::__declare_site as declare_site;
pub use crate::__is_lazy as is_lazy;
pub use crate::__plain_linear as plain_linear;
pub use crate::dispatch::At;
pub use crate::error_text::write_with_causes;
pub use crate::once::once;
pub use crate::registry::{Form, Site, SiteSpec};
pub use crate::semantics::{
    Activation, Clamp, Correction, CustomKey, ExpertBias, ExpertLayout, Gating, GluKey, Grouping,
    Groups, HeadLayout, MoeBlockKey, MoeKey, Offset, Projections, Renormalise, RmsNormKey, RopeKey,
    RopeStyle, RotaryWidth, Rounding, RouterWeights, Scale, Scoring, Sections, SemanticsKey,
    SharedExpert, TableLayout, TopK,
};
pub use burn;
pub use linkme;

pub use crate::ops::rope::RopeTable;
pub use adam_w::{adam_w, declined};
pub use experts::{ListedExpert, StackedExperts, experts, experts_list, same_count};
pub use first_use::{NoModule, Operand};
pub use glu::{glu, glu_mlp, glu_packed, glu_packed_mlp};
pub use linear::{Layer, NotPlain};
pub use moe_block::{Block, Part, block};
pub use norm::{rms_norm, rms_norm_gated};
pub use operands::{
    CorrectionBias, Count, Epsilon, ExpertBiases, ExpertWeights, NormWeight, Number,
    SectionLengths, SectionTable,
};
pub use rope::{rope, rope_sections};

#[path = "private/adam_w.rs"]
mod adam_w;
#[path = "private/experts.rs"]
mod experts;
#[path = "private/first_use.rs"]
mod first_use;
#[path = "private/glu.rs"]
mod glu;
#[path = "private/linear.rs"]
mod linear;
#[path = "private/moe_block.rs"]
mod moe_block;
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
