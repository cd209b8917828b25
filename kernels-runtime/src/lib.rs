//! The run-time half of burn-kernels: registry, policy, dispatch,
//! and the operations themselves. Programs use the facade crate `burn-kernels`.
//!
//! * [`registry`]: what exists, kernels and annotated sites.
//! * [`semantics`]: what a site or kernel computes, as a comparable key.
//! * [`policy`]: what is wanted.
//! * [`dispatch`]: which path a call takes, and why.
//! * [`report`]: which paths ran.
//! * [`ops`]: the operations, each with its reference, gradients and kernels.
//! * [`verify`]: kernels beside their references.

#[cfg(feature = "cpu")]
mod cpu;
pub mod dispatch;
pub mod ops;
pub mod policy;
pub mod registry;
pub mod report;
pub mod semantics;
mod table;
pub mod verify;

#[doc(hidden)]
#[path = "private.rs"]
pub mod __private;

/// Reads `BURN_KERNELS` now, so that a bad value is an error here and not a panic in the first
/// annotated layer.
///
/// # Errors
/// The variable holds no policy.
pub fn init() -> Result<(), policy::PolicyError> {
    policy::current().map(|_| ())
}
