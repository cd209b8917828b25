//! Which policy is in force: the innermost scope of the thread, else the installed one, else the
//! environment's, else the default.
//!
//! Every distinct policy is stored once and named by a small number, so that a site can tell with
//! one comparison whether its cached decision still holds.

use super::{Policy, PolicyError};
use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The name of a stored policy: its index plus one. Zero means "none".
pub(crate) type PolicyId = u32;

/// In force while a call is verified: every site takes its reference and counts nothing.
pub(crate) const UNCOUNTED: PolicyId = (1 << 24) - 1;

static STORED: Mutex<Vec<Arc<Policy>>> = Mutex::new(Vec::new());
static INSTALLED: AtomicU32 = AtomicU32::new(0);

thread_local! {
    static SCOPED: Cell<PolicyId> = const { Cell::new(0) };
}

fn stored() -> std::sync::MutexGuard<'static, Vec<Arc<Policy>>> {
    // A panic while the lock is held leaves the list whole: it only ever grows by one push.
    STORED.lock().unwrap_or_else(PoisonError::into_inner)
}

fn id_of(policy: Policy) -> PolicyId {
    let mut stored = stored();
    let index = stored
        .iter()
        .position(|known| **known == policy)
        .unwrap_or_else(|| {
            stored.push(Arc::new(policy));
            stored.len() - 1
        });
    index as PolicyId + 1
}

pub(crate) fn by_id(id: PolicyId) -> Arc<Policy> {
    if id == UNCOUNTED {
        return Arc::new(Policy::reference());
    }
    stored()[id as usize - 1].clone()
}

/// The policy in force on this thread.
///
/// # Panics
/// On the first call, if `BURN_KERNELS` holds no policy. Call [`crate::init`] early to get that
/// as an error.
pub(crate) fn active_id() -> PolicyId {
    let scoped = SCOPED.get();
    if scoped != 0 {
        return scoped;
    }
    let installed = INSTALLED.load(Ordering::Acquire);
    if installed != 0 {
        return installed;
    }
    initial().unwrap_or_else(|error| panic!("{error}"))
}

/// Installs the environment's policy, or the default, unless another thread installed one first.
fn initial() -> Result<PolicyId, PolicyError> {
    let id = id_of(from_env()?.unwrap_or_default());
    match INSTALLED.compare_exchange(0, id, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => Ok(id),
        Err(other) => Ok(other),
    }
}

/// Reads `BURN_KERNELS`; unset and empty both mean that it says nothing.
///
/// # Errors
/// Its value is not a policy.
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

/// Makes `policy` the one of the whole process, for every thread without a [`scope`].
pub fn install(policy: Policy) {
    INSTALLED.store(id_of(policy), Ordering::Release);
}

/// Puts `policy` in force on this thread until the guard is dropped. Scopes nest.
///
/// Other threads are not affected, nor are threads that this one starts.
#[must_use = "the policy is in force only while the guard lives"]
pub fn scope(policy: Policy) -> ScopeGuard {
    ScopeGuard {
        outer: SCOPED.replace(id_of(policy)),
        _this_thread_only: PhantomData,
    }
}

/// Puts [`UNCOUNTED`] in force on this thread until the guard is dropped.
pub(crate) fn uncounted() -> ScopeGuard {
    ScopeGuard {
        outer: SCOPED.replace(UNCOUNTED),
        _this_thread_only: PhantomData,
    }
}

/// Restores the outer policy when dropped. Drop guards in the reverse order of their making.
#[derive(Debug)]
pub struct ScopeGuard {
    outer: PolicyId,
    _this_thread_only: PhantomData<*const ()>,
}

impl Drop for ScopeGuard {
    fn drop(&mut self) {
        SCOPED.set(self.outer);
    }
}

/// The policy in force on this thread.
///
/// # Errors
/// Nothing was installed and `BURN_KERNELS` holds no policy.
pub fn current() -> Result<Policy, PolicyError> {
    let id = match (SCOPED.get(), INSTALLED.load(Ordering::Acquire)) {
        (0, 0) => initial()?,
        (0, installed) => installed,
        (scoped, _) => scoped,
    };
    Ok((*by_id(id)).clone())
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
    fn a_policy_is_stored_once() {
        assert_eq!(
            id_of(Policy::reference().strict()),
            id_of(Policy::reference().strict())
        );
        assert_ne!(id_of(Policy::reference()), id_of(Policy::auto()));
    }
}
