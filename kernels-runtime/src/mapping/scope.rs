//! The mapping in force.

use super::Mapping;
use crate::context;
use crate::scope_guard::guard;

/// Adds `mapping` to the one that is registered for the whole process. If both have a rule for the same layer, device,
/// interval and mode, the new one applies.
pub fn register(mapping: Mapping) {
    context::register(|registered| registered.extended(&mapping));
}

/// Replaces everything that was registered with `mapping`. With the empty mapping, every site runs the kernel of its
/// attribute again.
pub fn replace(mapping: Mapping) {
    context::register(|_| mapping);
}

/// Returns the mapping that is registered for the whole process.
pub fn registered() -> Mapping {
    context::registered()
}

/// Returns the mapping in force on this thread, without the policy's additions.
pub fn current() -> Mapping {
    context::current_mapping()
}

/// Adds `mapping` to the one in force on this thread until the guard is dropped. Scopes nest. Other threads are not
/// affected, as with [`policy::scope`](crate::policy::scope).
#[must_use = "the mapping is in force only while the guard lives"]
pub fn scope(mapping: Mapping) -> MappingGuard {
    scope_only(current().extended(&mapping))
}

/// Replaces the mapping in force on this thread with `mapping` until the guard is dropped.
#[must_use = "the mapping is in force only while the guard lives"]
pub fn scope_only(mapping: Mapping) -> MappingGuard {
    MappingGuard::over(context::enter_mapping(mapping))
}

guard! {
    /// A guard that restores the outer mapping when dropped. Drop guards in the reverse order of their creation.
    pub MappingGuard(context::Entered), context::leave_mapping
}
