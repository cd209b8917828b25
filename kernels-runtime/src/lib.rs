//! The run-time half of burn-kernels: registry, policy, dispatch and the operations themselves. Programs use the facade
//! crate `burn-kernels`.
//!
//! * [`registry`]: the kernels and annotated sites that are linked in.
//! * [`semantics`]: the computation of a site or kernel, as a comparable key.
//! * [`policy`]: the kernels that the user enables.
//! * [`mapping`]: the kernel of a named layer.
//! * [`apply`]: selects kernels by name for the whole process.
//! * [`attention`]: selects the implementation of attention by name.
//! * [`dispatch`]: the path that a call takes, and the reason.
//! * [`report`]: the paths that ran.
//! * [`measure`]: a benchmark of the program with and without its kernels.
//! * [`tune`]: the choice between kernel and reference by measurement.
//! * [`ops`]: the operations, each with its reference, gradients and kernels.
//! * [`verify`]: compares kernels with their references.
//! * [`live`]: compares kernels and the user's own bodies with references while the program runs.
//! * [`low_rank`]: low-rank adapters of experts.
//! * [`kernel`]: kernels of other crates.
//! * `packages` (feature `packages`): functions of packages of Hugging Face's `kernels` as implementations.
//! * `npu` (feature `npu`): the operations on Ascend NPUs.
//! * `remote` (feature `remote`): clients of devices of other processes and machines, with their kernels.

pub mod apply;
pub mod attention;
mod bisection;
mod call_once;
mod context;
#[cfg(feature = "cpu")]
mod cpu;
mod device;
pub mod dispatch;
mod error_text;
#[cfg(feature = "gpu")]
mod gpu;
pub mod kernel;
pub mod live;
pub mod low_rank;
pub mod mapping;
pub mod measurement;
pub mod memory;
mod mode;
mod near;
#[cfg(feature = "npu")]
pub mod npu;
pub mod ops;
#[cfg(feature = "packages")]
pub mod packages;
pub mod policy;
pub mod quantized_experts;
mod reason;
pub mod registry;
#[cfg(feature = "remote")]
pub mod remote;
pub mod report;
mod scope_guard;
pub mod semantics;
pub mod threads;
pub mod tune;
pub mod verify;
mod warning;

pub use measurement::measure;

#[doc(hidden)]
#[path = "private.rs"]
pub mod __private;
#[cfg(feature = "remote")]
#[doc(hidden)]
#[path = "serving.rs"]
pub mod __serving;

/// The reason why the kernels cannot start.
#[derive(thiserror::Error)]
pub enum InitError {
    /// The value of `BURN_KERNELS` is not a policy.
    #[error(transparent)]
    Policy(#[from] policy::PolicyError),
    /// The value of `BURN_KERNELS_VERIFY` does not state which calls to verify.
    #[error(transparent)]
    Verify(#[from] live::SamplingError),
    /// The registry of kernels is inconsistent.
    #[error(transparent)]
    Registry(#[from] registry::RegistryError),
}

/// Checks everything that annotated layers need: that `BURN_KERNELS` holds a policy, that `BURN_KERNELS_VERIFY` holds a
/// [sampling](live::Sampling), and that the registry of kernels is consistent. A problem is then an error here, not a
/// panic in the first annotated layer.
///
/// # Errors
/// Returns an error if a variable has an invalid value, or if the registry of kernels is inconsistent, for example
/// because two crates register the same kernel.
pub fn init() -> Result<(), InitError> {
    registry::check()?;
    policy::current()?;
    live::current()?;
    Ok(())
}
