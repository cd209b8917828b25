//! The functions that expansions of the attribute call. This is not a public interface: it changes with the attribute.

pub use crate::__debug_as_display as debug_as_display;
pub use crate::__declare_site as declare_site;
pub use crate::__detached as detached;
pub use crate::__is_lazy as is_lazy;
pub use crate::__plain_linear as plain_linear;
pub use crate::call_once::once;
pub use crate::dispatch::{At, Site};
pub use crate::error_text::write_with_causes;
pub use crate::registry::{Form, PathInside, SiteSpec};
pub use crate::semantics::*;
pub use burn;
pub use linkme;

pub use crate::ops::rope::RopeTable;
pub use detached::{DetachModule, DetachNothing, DetachTensor, Detached, Lent, Undetached, begin};
pub use first_use::{NoModule, Operand};
pub use layer_tensor::{LayerTensor, NoTensor, layer_input, layer_output};
pub use linear::{Layer, NotPlain};
pub use operands::{
    CorrectionBias, Count, Epsilon, ExpertBiases, ExpertWeights, Integer, LengthList, NormWeight,
    Number, SectionLengths, SectionTable, SinkScores,
};

#[path = "private/detached.rs"]
mod detached;
#[path = "private/first_use.rs"]
pub(crate) mod first_use;
#[path = "private/layer_tensor.rs"]
mod layer_tensor;
#[path = "private/linear.rs"]
mod linear;
#[path = "private/operands.rs"]
mod operands;
#[cfg(debug_assertions)]
#[path = "private/shared.rs"]
mod shared;

use crate::kernel::Operands;
use crate::ops::operations;

/// Remembers that a step registered a gradient of a tensor that is not a leaf, as this crate's steps do, so that a later one of
/// them adds its own. This is for benchmarks whose steps stand for this crate's.
pub fn remember_gradient(node: burn::backend::autodiff::NodeId) {
    crate::ops::recording::remember(node);
}

macro_rules! sites {
    (
        sites { $( #[doc = $doc:literal] $Op:ident { name: $name:ident, at: $($at:ident)::+, $($rest:tt)+ } )+ }
        parts { $($parts:tt)+ }
    ) => {
        $(pub use crate::ops::$($at)::+::site::*;)+
    };
}
operations!(sites);

/// Logs a warning of another crate of this workspace.
pub fn warn(message: std::fmt::Arguments<'_>) {
    crate::warning::warning!("{message}");
}

/// Runs a call of a site of another crate's kernel. `reference` is the user's own body.
#[track_caller]
pub fn custom<O: Operands>(
    at: At,
    operands: O,
    reference: impl FnOnce(O) -> O::Output,
) -> O::Output {
    crate::kernel::custom(at, operands, reference)
}

/// Returns a name that Cargo sets, or `"unknown"` if Cargo does not run the build.
pub const fn or_unknown(name: Option<&'static str>) -> &'static str {
    match name {
        Some(name) => name,
        None => "unknown",
    }
}
