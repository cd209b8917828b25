//! The state in force on a thread: a policy, a mapping and the mode that models were kernelized for.
//!
//! Every distinct combination is stored once and has a small number as its id. A site compares two numbers to check
//! whether a cached decision still holds. A thread remembers its id together with the epoch, which every process-wide
//! change increments.

use crate::mapping::{Mapping, ModeFlags};
use crate::policy::{Policy, PolicyError, Position, from_env, no_site};
use crate::scope_guard::guard;
use crate::warning::warning;
use std::cell::Cell;
#[cfg(feature = "npu")]
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The id of a stored combination: its index plus one, and [`TUNES`].
pub(crate) type ActiveId = u32;

/// The number of bits that the cache of decisions has for an [`ActiveId`].
pub(crate) const ACTIVE_BITS: u32 = 24;

/// The id in force while a call is verified live: every site takes its reference and counts nothing.
pub(crate) const UNCOUNTED: ActiveId = (1 << ACTIVE_BITS) - 1;

/// The bit of the ids whose policy tunes, so that a call knows it without a look at the policy.
const TUNES: ActiveId = 1 << (ACTIVE_BITS - 1);

/// The policy, mapping and mode that decisions are made under.
#[derive(Debug)]
pub(crate) struct Active {
    pub(crate) policy: Policy,
    pub(crate) mapping: Mapping,
    /// The mode of [`kernelize`](crate::mapping::kernelize). If it is `None`, each call has its own mode.
    pub(crate) mode: Option<ModeFlags>,
}

/// The id of a stored policy or mapping: its index plus one, or zero for none.
type Id = u32;

/// Every policy, mapping and combination that was ever in force, and the process-wide settings.
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
    /// `None` if the policy is the same in every layer.
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

/// The number of the current state. Every process-wide change increments it; it is never zero.
static EPOCH: AtomicU32 = AtomicU32::new(1);

/// True if any policy that was ever in force has rules for layers. Until then, entering a layer costs only a store.
static LAYERED: AtomicBool = AtomicBool::new(false);

/// True if any policy that was ever in force prefers an implementation.
static PREFERS: AtomicBool = AtomicBool::new(false);

/// True if any policy that was ever in force asks for determinism.
#[cfg(feature = "npu")]
static DETERMINISTIC: AtomicBool = AtomicBool::new(false);

/// The function that makes devices with such a setting deterministic, once a policy asks for it.
#[cfg(feature = "npu")]
static ON_DETERMINISTIC: OnceLock<fn()> = OnceLock::new();

/// True if any layer was ever entered.
static ENTERED: AtomicBool = AtomicBool::new(false);

/// The number of times that a policy with rules for layers was looked up before any layer was entered.
static OUTSIDE: AtomicU32 = AtomicU32::new(0);

/// More look-ups than a model makes before the first layer of its stack. A call makes one or two.
const MANY: u32 = 100;

thread_local! {
    /// The layer of a stack that this thread computes.
    static LAYER: Cell<Option<Position>> = const { Cell::new(None) };
    /// The epoch in which this thread's id was found, and the id.
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

/// The id that a scope replaced. It is restored when the scope ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entered(Id);

fn store() -> MutexGuard<'static, Store> {
    // A panic while the lock is held leaves the store consistent, because its lists grow by single pushes.
    STORE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the id of `value` in `list`, and adds it if it is new.
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
    PREFERS.fetch_or(policy.prefers_any(), Ordering::AcqRel);
    #[cfg(feature = "npu")]
    DETERMINISTIC.fetch_or(policy.is_deterministic(), Ordering::AcqRel);
    intern(&mut store.policies, policy)
}

/// Returns `true` once a policy that asks for determinism was in force anywhere in the process.
#[cfg(feature = "npu")]
pub fn is_deterministic() -> bool {
    DETERMINISTIC.load(Ordering::Acquire)
}

/// Registers `set` to be called when the first policy asks for determinism. Devices that are opened later check
/// [`is_deterministic`].
#[cfg(feature = "npu")]
pub fn on_deterministic(set: fn()) {
    ON_DETERMINISTIC.get_or_init(|| set);
}

/// Makes devices deterministic if a policy asks for it, once. The caller must not hold the store's lock.
fn set_devices() {
    #[cfg(feature = "npu")]
    {
        static SET: AtomicBool = AtomicBool::new(false);
        if let Some(set) = ON_DETERMINISTIC.get()
            && is_deterministic()
            && !SET.swap(true, Ordering::AcqRel)
        {
            set();
        }
    }
}

impl Store {
    fn mapping(&self, id: Id) -> Mapping {
        match id {
            0 => Mapping::new(),
            id => (*self.mappings[id as usize - 1]).clone(),
        }
    }

    /// Returns the mapping of the process, without the policy's additions.
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

    /// Returns the id of a combination. For a new one, also returns the warning about it, if any.
    ///
    /// # Errors
    /// Returns an error if the combination is new and its policy is strict and asks for a kernel that no site can call.
    fn active(&mut self, parts: Parts) -> Result<(ActiveId, Option<String>), PolicyError> {
        if let Some(index) = self.actives.iter().position(|(known, _)| *known == parts) {
            return Ok((self.id(index), None));
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
            index + 1 < (UNCOUNTED & !TUNES) as usize,
            "more different policies and mappings were in force than can be told apart"
        );
        Ok((self.id(index), unmet))
    }

    fn id(&self, index: usize) -> ActiveId {
        let (_, active) = &self.actives[index];
        let tunes = if active.policy.is_tuning() { TUNES } else { 0 };
        (index as ActiveId + 1) | tunes
    }
}

/// Returns `true` if the policy of this id tunes.
#[inline]
pub(crate) const fn tunes(id: ActiveId) -> bool {
    id & TUNES != 0 && id != UNCOUNTED
}

/// Returns the id of the combination in force on this thread.
///
/// # Panics
/// Panics on the first call if `BURN_KERNELS` holds no policy. [`crate::init`] returns this as an error if it is called
/// earlier.
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
    // The epoch is read under the lock, because every change increments it under the lock.
    let epoch = EPOCH.load(Ordering::Acquire);
    let parts = store.parts(SCOPED.get());
    let (id, unmet) = store.active(parts)?;
    let policy = store.policies[parts.policy as usize - 1].clone();
    // The lock is released first, because a listener of the log may call sites itself.
    drop(store);
    if let Some(message) = unmet {
        warning!("{message}");
    }
    // The id is not remembered until it is known whether there are layers.
    if !is_waiting_for_layers(&policy) {
        FOUND.set((epoch, id));
    }
    Ok(id)
}

/// Returns `true` if a policy has rules for layers and none was entered yet. After many look-ups, warns once that no
/// layer is ever entered, and returns `false` from then on.
fn is_waiting_for_layers(policy: &Policy) -> bool {
    if any_layer_was_entered() || OUTSIDE.load(Ordering::Relaxed) > MANY {
        return false;
    }
    let Some(message) = policy.without_layers() else {
        return false;
    };
    let looks = OUTSIDE.fetch_add(1, Ordering::Relaxed);
    if looks == MANY {
        warning!("{message}");
    }
    looks < MANY
}

/// Returns `true` if any thread has ever entered a layer.
pub(crate) fn any_layer_was_entered() -> bool {
    ENTERED.load(Ordering::Relaxed)
}

/// Installs the environment's policy, or the default, if the process has none. Does nothing in a scope of a policy,
/// which needs no other.
fn start() -> Result<(), PolicyError> {
    if SCOPED.get().policy != 0 || store().process.policy != 0 {
        return Ok(());
    }
    // The lock is not held here: reading a policy looks at kernels and sites, and perhaps at a file.
    let policy = from_env()?.unwrap_or_default();
    let mut store = store();
    if store.process.policy == 0 {
        store.process.policy = intern_policy(&mut store, policy);
    }
    drop(store);
    set_devices();
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
    store().actives[(id & !TUNES) as usize - 1].1.clone()
}

/// Returns the state in force on this thread.
///
/// # Errors
/// Returns an error if nothing was installed and `BURN_KERNELS` holds no policy.
pub(crate) fn current() -> Result<Arc<Active>, PolicyError> {
    let (epoch, id) = FOUND.get();
    let id = match epoch == EPOCH.load(Ordering::Acquire) {
        true => id,
        false => find()?,
    };
    Ok(by_id(id))
}

/// Returns `true` if the policy in force on this thread prefers an implementation. Takes no lock where the state is known and no
/// policy of the process prefers any. Calls of sites tell of a policy that can't be read.
pub(crate) fn prefers(implementation: &str) -> bool {
    let is_found = FOUND.get().0 == EPOCH.load(Ordering::Acquire);
    if is_found && !PREFERS.load(Ordering::Acquire) {
        return false;
    }
    current().is_ok_and(|active| active.policy.prefers(implementation))
}

/// Returns the mapping in force on this thread, without the policy's additions.
pub(crate) fn current_mapping() -> Mapping {
    let store = store();
    let scoped = SCOPED.get().mapping;
    let id = match scoped {
        0 => store.process_mapping(),
        id => id,
    };
    store.mapping(id)
}

/// Changes the process-wide settings and makes every thread look them up again.
fn change(change: impl FnOnce(&mut Store)) {
    let mut store = store();
    change(&mut store);
    EPOCH.fetch_add(1, Ordering::AcqRel);
}

pub(crate) fn install_policy(policy: Policy) {
    change(|store| store.process.policy = intern_policy(store, policy));
    set_devices();
}

/// Replaces the registered mapping with the result of `new` for the current one.
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

/// Fixes a mapping and a mode for the process, or releases them.
pub(crate) fn kernelize(held: Option<(Mapping, ModeFlags)>) {
    change(|store| {
        store.process.kernelized =
            held.map(|(mapping, mode)| (intern(&mut store.mappings, mapping), mode));
    });
}

pub(crate) fn kernelized_mode() -> Option<ModeFlags> {
    store().process.kernelized.map(|(_, mode)| mode)
}

/// Sets the scopes of this thread, and makes it look up its state again.
fn set_scoped(scoped: Scoped) {
    SCOPED.set(scoped);
    FOUND.set((0, 0));
}

pub(crate) fn enter_policy(policy: Policy) -> Entered {
    let scoped = SCOPED.get();
    let policy = intern_policy(&mut store(), policy);
    set_devices();
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

/// Sets the layer that this thread computes, and returns the previous one.
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
    /// The guard of [`uncounted`].
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
        assert!(!tunes(strict) && !tunes(UNCOUNTED));
        let tuning = id(Policy::reference().strict().tune());
        assert!(tunes(tuning));
        assert!(by_id(tuning).policy.is_tuning());
    }
}
