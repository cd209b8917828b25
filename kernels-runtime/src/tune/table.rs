//! The classes of calls that were seen, by site and sizes.

use super::choice::Size;
use super::class::{Class, Progress};
use super::file::{Choices, Subject};
use crate::context::{self, Active, ActiveId};
use crate::device::{DeviceKind, Machine};
use crate::dispatch::{Query, Site};
use crate::policy::Reaction;
use crate::reason::Reason;
use crate::registry::{Implementation, KernelSpec};
use crate::warning::warning;
use burn::backend::{DeviceId, DispatchTensor, TensorMetadata};
use burn::tensor::Device;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ptr;
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockWriteGuard};

/// A call whose kernel can run, under a policy that tunes.
pub(crate) struct Call<'a> {
    pub(crate) site: &'static Site,
    pub(crate) active: ActiveId,
    pub(crate) query: Query,
    pub(crate) kernel: &'static KernelSpec,
    pub(crate) implementation: &'static Implementation,
    pub(crate) tensors: &'a [&'a DispatchTensor],
}

/// The calls that are looked up together.
struct Entry {
    site: &'static Site,
    active: ActiveId,
    query: Query,
    /// `None` for this process's CPU.
    device: Option<DeviceId>,
    implementation: &'static Implementation,
    sizes: Box<[Size]>,
    origin: Origin,
    /// `None` if the policy keeps the kernel, whatever is faster.
    class: Option<&'static Class>,
}

/// The part of a policy by which choices are made. Policies with the same one share classes.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Origin {
    /// The choices of a file.
    choices: Option<Arc<Choices>>,
    /// True if nothing is measured.
    is_deterministic: bool,
}

type Table = BTreeMap<u64, Vec<Entry>>;

static TABLE: RwLock<Table> = RwLock::new(Table::new());

fn table() -> RwLockWriteGuard<'static, Table> {
    // A panic while the lock is held leaves the table consistent, because it grows by single pushes.
    TABLE.write().unwrap_or_else(PoisonError::into_inner)
}

impl Call<'_> {
    /// Returns the class of the call, or `None` if the policy keeps the kernel, whatever is faster. A known class is found
    /// without an allocation.
    pub(crate) fn class(&self) -> Option<&'static Class> {
        let hash = self.hash();
        self.known(hash).unwrap_or_else(|| self.enter(hash))
    }

    /// Returns what [`Call::class`] does, or `None` for a call that was not entered yet.
    fn known(&self, hash: u64) -> Option<Option<&'static Class>> {
        let table = TABLE.read().unwrap_or_else(PoisonError::into_inner);
        let mut entries = table.get(&hash)?.iter();
        entries
            .find(|entry| entry.is_of(self))
            .map(|entry| entry.class)
    }

    fn sizes(&self) -> impl Iterator<Item = Size> {
        self.tensors.iter().map(|tensor| Size::of(&tensor.shape()))
    }

    fn hash(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        ptr::from_ref(self.site).hash(&mut hasher);
        self.active.hash(&mut hasher);
        self.sizes().for_each(|size| size.hash(&mut hasher));
        hasher.finish()
    }

    #[cold]
    fn enter(&self, hash: u64) -> Option<&'static Class> {
        let active = context::by_id(self.active);
        let origin = Origin {
            choices: active.policy.choices().cloned(),
            is_deterministic: active.policy.is_deterministic(),
        };
        let class = match self.keeps_kernel(&active) {
            true => None,
            false => Some(self.shared_or_new(&origin)),
        };
        let mut table = table();
        let entries = table.entry(hash).or_default();
        // Another thread may have entered it meanwhile.
        if let Some(known) = entries.iter().find(|entry| entry.is_of(self)) {
            return known.class;
        }
        entries.push(Entry {
            site: self.site,
            active: self.active,
            query: self.query,
            device: self.device(),
            implementation: self.implementation,
            sizes: self.sizes().collect(),
            origin,
            class,
        });
        class
    }

    fn device(&self) -> Option<DeviceId> {
        DeviceKind::id_of_tensor(&self.tensors[0].kind)
    }

    /// Returns whether the policy requests the kernel, so that no faster reference replaces it.
    fn keeps_kernel(&self, active: &Active) -> bool {
        let wish = active.policy.wish(self.site.spec(), self.kernel.id);
        active.policy.reaction(wish, Reason::Tuned) == Reaction::Strict
    }

    /// Returns the class under another policy or on another device of the same name, or else a new one.
    fn shared_or_new(&self, origin: &Origin) -> &'static Class {
        let machine = Machine::of(&Device::new(self.tensors[0].kind.device()));
        let shared = table().values().flatten().find_map(|entry| {
            let class = entry.class?;
            let is_shared =
                entry.is_alike(self) && entry.origin == *origin && class.machine == machine;
            is_shared.then_some(class)
        });
        shared.unwrap_or_else(|| self.new_class(machine, origin))
    }

    /// Creates a class. It lives as long as the process, as the site does.
    fn new_class(&self, machine: Machine, origin: &Origin) -> &'static Class {
        let subject = Subject {
            site: self.site.name(),
            kernel: self.kernel.id.to_owned(),
            implementation: self.implementation.name.to_owned(),
            dtype: self.query.tensors.to_string(),
            mode: self.query.mode,
            tensors: self.sizes().collect(),
        };
        let found = match &origin.choices {
            Some(choices) => choices.find(&machine, &subject).unwrap_or_else(|why| {
                let instead = match origin.is_deterministic {
                    true => "kernels run",
                    false => "calls are measured anew",
                };
                warn_once(format!("{why}; {instead}"));
                None
            }),
            None => None,
        };
        let progress = match found {
            Some(found) => Progress::Decided(found, true),
            None if origin.is_deterministic => {
                Progress::Kept("the policy is deterministic, and times are not".to_owned())
            }
            None => Progress::Open(0, None),
        };
        let purpose = self.site.spec().key.purpose(self.query.mode);
        Box::leak(Box::new(Class::new(machine, subject, purpose, progress)))
    }
}

impl Entry {
    fn is_of(&self, call: &Call<'_>) -> bool {
        self.active == call.active && self.device == call.device() && self.is_alike(call)
    }

    /// Returns whether the call is the same under any policy, on any device of its kind.
    fn is_alike(&self, call: &Call<'_>) -> bool {
        ptr::eq(self.site, call.site)
            && ptr::eq(self.implementation, call.implementation)
            && self.query == call.query
            && self.sizes.iter().copied().eq(call.sizes())
    }
}

/// Logs why a file is not used, once for each file and device.
fn warn_once(why: String) {
    static SAID: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let mut said = SAID.lock().unwrap_or_else(PoisonError::into_inner);
    let is_new = said.insert(why.clone());
    // The lock is released first, because a listener of the log may call sites itself.
    drop(said);
    if is_new {
        warning!("{why}");
    }
}

/// Returns every class, each once.
pub(super) fn classes() -> Vec<&'static Class> {
    let table = table();
    let mut classes: Vec<&'static Class> = Vec::new();
    for class in table.values().flatten().filter_map(|entry| entry.class) {
        if !classes.iter().any(|known| ptr::eq(*known, class)) {
            classes.push(class);
        }
    }
    classes
}

/// Forgets every class. Later calls are measured, or looked up in a file, anew.
pub(super) fn clear() {
    table().clear();
}
