//! Which mapping is in force.

use super::Mapping;
use crate::active;
use crate::guard::guard;

/// Adds `mapping` to the one that is registered for the whole process. Where both have a rule for
/// one layer, device, interval and mode, the new one wins.
pub fn register(mapping: Mapping) {
    active::register(|registered| registered.extended(&mapping));
}

/// Registers `mapping` in place of everything that was. The empty mapping gives every site the
/// kernel of its attribute back.
pub fn replace(mapping: Mapping) {
    active::register(|_| mapping);
}

/// The mapping that is registered for the whole process.
pub fn registered() -> Mapping {
    active::registered()
}

/// The mapping in force on this thread, without what the policy adds.
pub fn current() -> Mapping {
    active::current_mapping()
}

/// Adds `mapping` to the one in force on this thread until the guard is dropped. Scopes nest. As
/// for [`policy::scope`](crate::policy::scope), other threads are not affected.
#[must_use = "the mapping is in force only while the guard lives"]
pub fn scope(mapping: Mapping) -> MappingGuard {
    scope_only(current().extended(&mapping))
}

/// Puts `mapping`, and nothing of what was in force, in force on this thread until the guard is
/// dropped.
#[must_use = "the mapping is in force only while the guard lives"]
pub fn scope_only(mapping: Mapping) -> MappingGuard {
    MappingGuard::over(active::enter_mapping(mapping))
}

guard! {
    /// Restores the outer mapping when dropped. Drop guards in the reverse order of their making.
    pub MappingGuard(active::Entered), active::leave_mapping
}
