//! The implementation of attention by name, in place of `set_attn_implementation` of transformers.
//!
//! The functions are shorthands for a [`Policy`] with a rule for attention. [`Policy::attention`] has the names. A rule
//! for some layers of a model has a pattern of their sites.
//!
//! ```no_run
//! # extern crate kernels_runtime as burn_kernels;
//! use burn_kernels::attention;
//!
//! attention::set_implementation("cpu-simd")?; // all attention of the process
//! attention::set_implementation("gpt_oss::*=reference")?; // except that of these sites
//! let _plain = attention::scope_implementation("reference")?; // this thread, until the guard is dropped
//! # Ok::<(), burn_kernels::policy::PolicyError>(())
//! ```

use crate::policy::{self, PolicyError, ScopeGuard};

#[cfg(doc)]
use crate::policy::Policy;

/// Chooses the implementation of attention for the whole process: a name, or `PATTERN=NAME` for the attention sites that
/// match. The rule is added to the policy in force on this thread, which becomes that of the process.
///
/// # Errors
/// Returns an error as [`Policy::attention`] does. Nothing is changed then.
pub fn set_implementation(rule: &str) -> Result<(), PolicyError> {
    policy::install(policy::current()?.attention(rule)?);
    Ok(())
}

/// Chooses the implementation of attention as [`set_implementation`] does, on this thread until the guard is dropped.
///
/// # Errors
/// Returns an error as [`Policy::attention`] does.
pub fn scope_implementation(rule: &str) -> Result<ScopeGuard, PolicyError> {
    Ok(policy::scope(policy::current()?.attention(rule)?))
}
