//! The policy in force, and the layer of a stack that a thread computes.

use super::{Policy, PolicyError, Position};
use crate::context;
use crate::scope_guard::guard;

/// Reads `BURN_KERNELS`. Returns `None` if it is unset or empty.
///
/// # Errors
/// Returns an error if the value is not a policy.
pub fn from_env() -> Result<Option<Policy>, PolicyError> {
    let Some(value) = std::env::var_os("BURN_KERNELS") else {
        return Ok(None);
    };
    let value = value.into_string().map_err(|_| PolicyError::NotUnicode)?;
    if value.trim().is_empty() {
        return Ok(None);
    }
    match value.parse() {
        Ok(policy) => Ok(Some(policy)),
        Err(source) => Err(PolicyError::Environment {
            value,
            source: Box::new(source),
        }),
    }
}

/// Sets the policy of the whole process, for every thread without a [`scope`].
pub fn install(policy: Policy) {
    context::install_policy(policy);
}

/// Puts `policy` in force on this thread until the guard is dropped. Scopes nest.
///
/// Other threads are not affected, including threads that this one starts. The [module](crate::policy) shows how to
/// pass a scope on.
#[must_use = "the policy is in force only while the guard lives"]
pub fn scope(policy: Policy) -> ScopeGuard {
    ScopeGuard::over(context::enter_policy(policy))
}

guard! {
    /// A guard that restores the outer policy when dropped. Drop guards in the reverse order of their creation.
    pub ScopeGuard(context::Entered), context::leave_policy
}

/// Returns the policy in force on this thread.
///
/// # Errors
/// Returns an error if nothing was installed and `BURN_KERNELS` holds no policy.
pub fn current() -> Result<Policy, PolicyError> {
    Ok(context::current()?.policy.clone())
}

/// Marks this thread as computing layer `index` of a stack of `count` layers, until the guard is dropped. The policy's
/// rules for that layer apply meanwhile. Guards nest, and the innermost one applies.
///
/// Models call it around each layer of a stack. It costs a few nanoseconds unless a policy has rules for layers.
///
/// # Panics
/// Panics if `index` is not less than `count`.
#[must_use = "the layer is left when the guard is dropped"]
pub fn layer(index: usize, count: usize) -> LayerGuard {
    assert!(
        index < count,
        "layer {index} does not exist in a stack of {count}"
    );
    LayerGuard::over(context::enter_layer(Some((index, count))))
}

guard! {
    /// A guard that leaves the layer when dropped. Drop guards in the reverse order of their creation.
    pub LayerGuard(Option<Position>), |outer| {
        context::enter_layer(outer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_nest_restore_and_stay_on_their_thread() {
        let outer = scope(Policy::reference());
        assert_eq!(current().unwrap(), Policy::reference());
        {
            let _inner = scope(Policy::auto().strict());
            assert!(current().unwrap().is_strict());
            let elsewhere = std::thread::spawn(|| current().unwrap()).join().unwrap();
            assert!(!elsewhere.is_strict());
        }
        assert_eq!(current().unwrap(), Policy::reference());
        drop(outer);
    }

    #[test]
    fn a_scope_is_handed_over_by_its_policy() {
        let _scope = scope(Policy::reference());
        let wanted = current().unwrap();
        let there = std::thread::spawn(move || {
            let before = current().unwrap();
            let _scope = scope(wanted);
            (before, current().unwrap())
        });
        let (before, inside) = there.join().unwrap();
        assert_ne!(before, Policy::reference());
        assert_eq!(inside, Policy::reference());
    }

    #[cfg(feature = "cpu")]
    #[test]
    fn rayon_workers_see_what_is_installed() {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(1)
            .build()
            .unwrap();
        let _scope = scope(Policy::reference().strict());
        assert!(!pool.install(|| current().unwrap()).is_strict());
        let wanted = current().unwrap();
        assert!(pool.install(|| {
            let _scope = scope(wanted);
            current().unwrap().is_strict()
        }));
        // The worker's own scope ended with its task.
        assert!(!pool.install(|| current().unwrap()).is_strict());
    }
}
