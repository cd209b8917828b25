//! The operations: one folder each, with one file per device.
//!
//! `reference` is the definition, composed of plain tensor operations on every Burn backend.
//! `fused` runs a kernel and is an error where none can run. Annotated models use neither
//! directly: their sites decide (see [`crate::dispatch`]).

pub mod moe;
pub mod rms_norm;
pub mod rope;
pub mod swiglu;

mod call;

pub(crate) use call::{compute_dtype, query, refuse_unless_fused, same_dtype_as};
