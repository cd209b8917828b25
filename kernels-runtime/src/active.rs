//! What is in force on a thread: a policy, a mapping and the mode that models were kernelized for.
//!
//! Every distinct combination is stored once and named by a small number, so that a site can tell
//! with one comparison whether a cached decision still holds. A thread remembers its number
//! together with the epoch, which every process-wide change raises.

use crate::guard::guard;
use crate::mapping::{Mapping, ModeFlags};
use crate::policy::{Policy, PolicyError, Position, from_env, no_site};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The name of a stored combination: its index plus one.
pub(crate) type ActiveId = u32;

/// As many bits as a decision's cache has for it.
pub(crate) const ACTIVE_BITS: u32 = 24;

/// In force while a call is verified live: every site takes its reference and counts nothing.
pub(crate) const UNCOUNTED: ActiveId = (1 << ACTIVE_BITS) - 1;

/// What decisions are made under.
#[derive(Debug)]
pub(crate) struct Active {
    pub(crate) policy: Policy,
    pub(crate) mapping: Mapping,
    /// The mode of [`kernelize`](crate::mapping::kernelize); without it each call has its own.
    pub(crate) mode: Option<ModeFlags>,
}

/// The name of a stored policy or mapping: its index plus one; zero is none.
type Id = u32;

/// Everything that was ever in force, and what is for the whole process.
struct Store {
    policies: Vec<Arc<Policy>>,
    mappings: Vec<Arc<Mapping>>,
    actives: Vec<(Parts, Arc<Active>)>,
    process: Process,
}

#[derive(Clone, Copy, PartialEq)]
struct Parts {
    policy: Id,
    mapping: Id,
    /// None if the policy is the same in every layer.
    layer: Option<Position>,
    mode: Option<ModeFlags>,
}

struct Process {
    policy: Id,
    registered: Id,
    kernelized: Option<(Id, ModeFlags)>,
}

static STORE: Mutex<Store> = Mutex::new(Store {
    policies: Vec::new(),
    mappings: Vec::new(),
    actives: Vec::new(),
    process: Process {
        policy: 0,
        registered: 0,
        kernelized: None,
    },
});

/// Raised by every change for the whole process; never zero.
static EPOCH: AtomicU32 = AtomicU32::new(1);

/// Whether any policy that was ever in force speaks of layers. Until then entering one costs
/// nothing but a store.
static LAYERED: AtomicBool = AtomicBool::new(false);

/// Whether any layer was ever entered.
static ENTERED: AtomicBool = AtomicBool::new(false);

/// Counts the looks at a policy that speaks of layers before any layer was entered.
static OUTSIDE: AtomicU32 = AtomicU32::new(0);

/// So many looks are more than a model takes before the first layer of its stack: one a call or two.
const MANY: u32 = 100;

thread_local! {
    /// The layer of a stack that this thread computes.
    static LAYER: Cell<Option<Position>> = const { Cell::new(None) };
    /// The epoch in which this thread's number was found, and the number.
    static FOUND: Cell<(u32, ActiveId)> = const { Cell::new((0, 0)) };
    static SCOPED: Cell<Scoped> = const { Cell::new(Scoped { policy: 0, mapping: 0, uncounted: false }) };
}

/// The innermost scopes of a thread.
#[derive(Clone, Copy)]
struct Scoped {
    policy: Id,
    mapping: Id,
    uncounted: bool,
}

/// What a scope hid, to be restored.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entered(Id);

fn store() -> MutexGuard<'static, Store> {
    // A panic while the lock is held leaves the store whole: its lists grow by single pushes.
    STORE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The name of `value` in `list`, where it is put if it is new.
fn intern<T: PartialEq>(list: &mut Vec<Arc<T>>, value: T) -> Id {
    let index = list.iter().position(|known| **known == value);
    let index = index.unwrap_or_else(|| {
        list.push(Arc::new(value));
        list.len() - 1
    });
    index as Id + 1
}

fn intern_policy(store: &mut Store, policy: Policy) -> Id {
    LAYERED.fetch_or(policy.speaks_of_layers(), Ordering::AcqRel);
    intern(&mut store.policies, policy)
}

impl Store {
    fn mapping(&self, id: Id) -> Mapping {
        match id {
            0 => Mapping::new(),
            id => (*self.mappings[id as usize - 1]).clone(),
        }
    }

    /// The mapping of the process, before a policy adds to it.
    fn process_mapping(&self) -> Id {
        let kernelized = self.process.kernelized;
        kernelized.map_or(self.process.registered, |(mapping, _)| mapping)
    }

    fn parts(&self, scoped: Scoped) -> Parts {
        let or = |scoped: Id, process: Id| if scoped == 0 { process } else { scoped };
        let policy = or(scoped.policy, self.process.policy);
        let layered = self.policies[policy as usize - 1].speaks_of_layers();
        Parts {
            policy,
            layer: LAYER.get().filter(|_| layered),
            mapping: or(scoped.mapping, self.process_mapping()),
            mode: self.process.kernelized.map(|(_, mode)| mode),
        }
    }

    /// The number of a combination, and what is to be said of a new one.
    ///
    /// # Errors
    /// It is new, and its policy is strict and asks for a kernel that no site can call.
    fn active(&mut self, parts: Parts) -> Result<(ActiveId, Option<String>), PolicyError> {
        if let Some(index) = self.actives.iter().position(|(known, _)| *known == parts) {
            return Ok((index as ActiveId + 1, None));
        }
        let policy = (*self.policies[parts.policy as usize - 1]).clone();
        let policy = policy.in_layer(parts.layer);
        let mapping = self.mapping(parts.mapping).extended(policy.mapping());
        let never_called = policy.never_called(&mapping);
        let unmet = (!never_called.is_empty()).then(|| no_site(&policy, &never_called));
        if let Some(message) = unmet.clone().filter(|_| policy.is_strict()) {
            return Err(PolicyError::NeverCalled(message));
        }
        let active = Active {
            policy,
            mapping,
            mode: parts.mode,
        };
        self.actives.push((parts, Arc::new(active)));
        let index = self.actives.len() - 1;
        assert!(
            index + 1 < UNCOUNTED as usize,
            "more different policies and mappings were in force than can be told apart"
        );
        Ok((index as ActiveId + 1, unmet))
    }
}

/// The combination in force on this thread.
///
/// # Panics
/// On the first call, if `BURN_KERNELS` holds no policy. Call [`crate::init`] early to get that
/// as an error.
#[inline]
pub(crate) fn active_id() -> ActiveId {
    let (epoch, id) = FOUND.get();
    if epoch == EPOCH.load(Ordering::Acquire) {
        return id;
    }
    find_or_panic()
}

#[cold]
#[inline(never)]
fn find_or_panic() -> ActiveId {
    find().unwrap_or_else(|error| panic!("{error}"))
}

fn find() -> Result<ActiveId, PolicyError> {
    if SCOPED.get().uncounted {
        FOUND.set((EPOCH.load(Ordering::Acquire), UNCOUNTED));
        return Ok(UNCOUNTED);
    }
    start()?;
    let mut store = store();
    // Under the lock, because every change raises the epoch under it.
    let epoch = EPOCH.load(Ordering::Acquire);
    let parts = store.parts(SCOPED.get());
    let (id, unmet) = store.active(parts)?;
    let policy = store.policies[parts.policy as usize - 1].clone();
    // A listener of the log may call sites itself.
    drop(store);
    if let Some(message) = unmet {
        tracing::warn!("{message}");
    }
    // Looked at anew until it is known whether there are layers.
    if !is_waiting_for_layers(&policy) {
        FOUND.set((epoch, id));
    }
    Ok(id)
}

/// Whether a policy speaks of layers and none was entered yet, though one may be. After many looks
/// it is said, once, that there are none.
fn is_waiting_for_layers(policy: &Policy) -> bool {
    if any_layer_was_entered() || OUTSIDE.load(Ordering::Relaxed) > MANY {
        return false;
    }
    let Some(message) = policy.without_layers() else {
        return false;
    };
    let looks = OUTSIDE.fetch_add(1, Ordering::Relaxed);
    if looks == MANY {
        tracing::warn!("{message}");
    }
    looks < MANY
}

/// Whether any thread ever said that it computes a layer.
pub(crate) fn any_layer_was_entered() -> bool {
    ENTERED.load(Ordering::Relaxed)
}

/// Installs the environment's policy, or the default, unless there is one: of the process, or of a
/// scope, which needs no other.
fn start() -> Result<(), PolicyError> {
    if SCOPED.get().policy != 0 || store().process.policy != 0 {
        return Ok(());
    }
    // Not under the lock: reading a policy looks at kernels and sites, and perhaps at a file.
    let policy = from_env()?.unwrap_or_default();
    let mut store = store();
    if store.process.policy == 0 {
        store.process.policy = intern_policy(&mut store, policy);
    }
    Ok(())
}

pub(crate) fn by_id(id: ActiveId) -> Arc<Active> {
    if id == UNCOUNTED {
        return Arc::new(Active {
            policy: Policy::reference(),
            mapping: Mapping::new(),
            mode: None,
        });
    }
    store().actives[id as usize - 1].1.clone()
}

/// What is in force on this thread.
///
/// # Errors
/// Nothing was installed and `BURN_KERNELS` holds no policy.
pub(crate) fn current() -> Result<Arc<Active>, PolicyError> {
    let (epoch, id) = FOUND.get();
    let id = match epoch == EPOCH.load(Ordering::Acquire) {
        true => id,
        false => find()?,
    };
    Ok(by_id(id))
}

/// The mapping in force on this thread without what the policy adds.
pub(crate) fn current_mapping() -> Mapping {
    let store = store();
    let scoped = SCOPED.get().mapping;
    let id = match scoped {
        0 => store.process_mapping(),
        id => id,
    };
    store.mapping(id)
}

/// A change for the whole process: every thread looks again.
fn change(change: impl FnOnce(&mut Store)) {
    let mut store = store();
    change(&mut store);
    EPOCH.fetch_add(1, Ordering::AcqRel);
}

pub(crate) fn install_policy(policy: Policy) {
    change(|store| store.process.policy = intern_policy(store, policy));
}

/// Changes the registered mapping, given what it was.
pub(crate) fn register(new: impl FnOnce(Mapping) -> Mapping) {
    change(|store| {
        let mapping = new(store.mapping(store.process.registered));
        store.process.registered = intern(&mut store.mappings, mapping);
    });
}

pub(crate) fn registered() -> Mapping {
    let store = store();
    store.mapping(store.process.registered)
}

/// Holds a mapping and a mode fast for the process, or lets them go.
pub(crate) fn kernelize(held: Option<(Mapping, ModeFlags)>) {
    change(|store| {
        store.process.kernelized =
            held.map(|(mapping, mode)| (intern(&mut store.mappings, mapping), mode));
    });
}

pub(crate) fn kernelized_mode() -> Option<ModeFlags> {
    store().process.kernelized.map(|(_, mode)| mode)
}

/// Sets the scopes of this thread, which then looks again.
fn set_scoped(scoped: Scoped) {
    SCOPED.set(scoped);
    FOUND.set((0, 0));
}

pub(crate) fn enter_policy(policy: Policy) -> Entered {
    let scoped = SCOPED.get();
    let policy = intern_policy(&mut store(), policy);
    set_scoped(Scoped { policy, ..scoped });
    Entered(scoped.policy)
}

pub(crate) fn leave_policy(outer: Entered) {
    set_scoped(Scoped {
        policy: outer.0,
        ..SCOPED.get()
    });
}

pub(crate) fn enter_mapping(mapping: Mapping) -> Entered {
    let scoped = SCOPED.get();
    let mapping = intern(&mut store().mappings, mapping);
    set_scoped(Scoped { mapping, ..scoped });
    Entered(scoped.mapping)
}

pub(crate) fn leave_mapping(outer: Entered) {
    set_scoped(Scoped {
        mapping: outer.0,
        ..SCOPED.get()
    });
}

/// Says which layer this thread computes; returns what it was before.
#[inline]
pub(crate) fn enter_layer(layer: Option<Position>) -> Option<Position> {
    if !ENTERED.load(Ordering::Relaxed) {
        ENTERED.store(true, Ordering::Relaxed);
    }
    if LAYERED.load(Ordering::Acquire) {
        FOUND.set((0, 0));
    }
    LAYER.replace(layer)
}

/// Puts [`UNCOUNTED`] in force on this thread until the guard is dropped.
pub(crate) fn uncounted() -> Uncounted {
    let scoped = SCOPED.get();
    set_scoped(Scoped {
        uncounted: true,
        ..scoped
    });
    Uncounted::over(scoped.uncounted)
}

guard! {
    /// See [`uncounted`].
    pub(crate) Uncounted(bool), |uncounted| set_scoped(Scoped { uncounted, ..SCOPED.get() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::scope;

    #[test]
    fn a_combination_is_stored_once() {
        let id = |policy| {
            let _scope = scope(policy);
            active_id()
        };
        let strict = id(Policy::reference().strict());
        assert_eq!(id(Policy::reference().strict()), strict);
        assert_ne!(id(Policy::auto().strict()), strict);
        assert_eq!(by_id(strict).policy, Policy::reference().strict());
    }
}
