//! The run-time half of burn-kernels: registry, policy, dispatch,
//! and the operations themselves. Programs use the facade crate `burn-kernels`.
//!
//! * [`registry`]: what exists, kernels and annotated sites.
//! * [`semantics`]: what a site or kernel computes, as a comparable key.
//! * [`policy`]: what is wanted.
//! * [`mapping`]: which kernel a named layer runs; [`apply`]: kernels by name.
//! * [`dispatch`]: which path a call takes, and why.
//! * [`report`]: which paths ran.
//! * [`ops`]: the operations, each with its reference, gradients and kernels.
//! * [`verify`]: kernels beside their references.
//! * [`live`]: the same where the program runs, with the user's own body.
//! * [`kernel`]: kernels of other crates.
//! * `npu` (a feature): Ascend NPUs.
//! * `remote` (a feature): devices of other processes and machines, with their kernels.

mod active;
pub mod apply;
mod bisection;
#[cfg(feature = "cpu")]
mod cpu;
mod device;
pub mod dispatch;
mod error_text;
mod guard;
pub mod kernel;
pub mod live;
pub mod mapping;
mod mode;
mod near;
#[cfg(feature = "npu")]
pub mod npu;
mod once;
pub mod ops;
pub mod policy;
mod reason;
pub mod registry;
#[cfg(feature = "remote")]
pub mod remote;
pub mod report;
pub mod semantics;
mod table;
pub mod verify;

#[doc(hidden)]
#[path = "private.rs"]
pub mod __private;

/// Why the kernels cannot start.
#[derive(thiserror::Error)]
pub enum InitError {
    /// `BURN_KERNELS` holds no policy.
    #[error(transparent)]
    Policy(#[from] policy::PolicyError),
    /// `BURN_KERNELS_VERIFY` does not say which calls to verify.
    #[error(transparent)]
    Verify(#[from] live::SamplingError),
    /// The kernels that are linked in don't go together.
    #[error(transparent)]
    Registry(#[from] registry::RegistryError),
}

/// Checks now what every annotated layer needs: that `BURN_KERNELS` holds a policy and
/// `BURN_KERNELS_VERIFY` a sampling, and that the kernels of all crates go together. Each is then an
/// error here and not a panic in the first annotated layer.
///
/// # Errors
/// A variable holds something else, or two crates register one kernel.
pub fn init() -> Result<(), InitError> {
    registry::check()?;
    policy::current()?;
    live::current()?;
    Ok(())
}
