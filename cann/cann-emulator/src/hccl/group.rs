//! Groups, and the handle that a rank gets.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Instant;

use super::call::Part;
use super::guest::Guest;
use super::lock;
use super::meeting::{Key, Meetings};
use super::root::Root;
use crate::error::{Failure, Outcome};

/// The way to the meetings of a group.
pub(crate) enum Link {
    Here(Arc<Meetings>),
    There(Guest),
}

/// A group, as ranks of this process see it.
pub(crate) struct Group {
    pub(crate) id: u64,
    pub(crate) size: usize,
    link: Link,
    /// The first error of a collective.
    failure: Mutex<Option<Failure>>,
}

/// A rank's handle of a group.
pub(crate) struct Communicator {
    pub(crate) group: Arc<Group>,
    pub(crate) rank: usize,
    pub(crate) device: i32,
    /// The name that a configuration gave.
    pub(crate) name: OnceLock<String>,
    collectives: AtomicU64,
    pairs: Mutex<HashMap<(u32, u32), u64>>,
}

impl Group {
    pub(crate) fn new(id: u64, size: usize, link: Link) -> Arc<Self> {
        Arc::new(Self {
            id,
            size,
            link,
            failure: Mutex::new(None),
        })
    }

    pub(crate) fn fail(&self, failure: &Failure) {
        lock(&self.failure).get_or_insert_with(|| failure.clone());
    }

    pub(crate) fn has_failed(&self) -> bool {
        lock(&self.failure).is_some()
    }
}

impl Communicator {
    pub(crate) fn new(group: Arc<Group>, rank: usize, device: i32) -> Arc<Self> {
        Arc::new(Self {
            group,
            rank,
            device,
            name: OnceLock::new(),
            collectives: AtomicU64::new(0),
            pairs: Mutex::default(),
        })
    }

    /// Enters a meeting.
    pub(crate) fn enter(&self, key: Key, part: Outcome<Part>) -> Outcome<()> {
        match &self.group.link {
            Link::Here(meetings) => meetings.enter(key, self.rank, part)?,
            Link::There(guest) => guest.enter(key, part),
        }
        Ok(())
    }

    /// Waits until the work is done or never will be. Returns what the rank receives, or `None` if its stream was
    /// abandoned.
    pub(crate) fn leave(
        &self,
        key: Key,
        deadline: Option<Instant>,
        abandoned: &dyn Fn() -> bool,
    ) -> Outcome<Option<Vec<Vec<u8>>>> {
        match &self.group.link {
            Link::Here(meetings) => meetings.leave(key, self.rank, deadline, abandoned),
            Link::There(guest) => guest.leave(key, deadline, abandoned),
        }
    }

    /// Returns the key of this rank's next collective.
    pub(crate) fn next(&self) -> Key {
        Key::All(self.collectives.fetch_add(1, Ordering::Relaxed))
    }

    /// Returns the key of the next transfer from one rank to another.
    pub(crate) fn next_pair(&self, from: u32, to: u32) -> Key {
        let mut pairs = lock(&self.pairs);
        let count = pairs.entry((from, to)).or_default();
        let number = *count;
        *count += 1;
        Key::Pair { from, to, number }
    }
}

impl Drop for Communicator {
    fn drop(&mut self) {
        if let Link::Here(meetings) = &self.group.link {
            meetings.depart(self.rank);
        }
    }
}

/// Makes a group of all `devices` of this process, with ranks in their order.
pub(crate) fn whole(devices: &[i32]) -> Outcome<Vec<Arc<Communicator>>> {
    let size = devices.len();
    let link = Link::Here(Meetings::new(size));
    let group = Group::new(Root::new()?.id, size, link);
    let ranks = devices.iter().enumerate();
    Ok(ranks
        .map(|(rank, device)| Communicator::new(group.clone(), rank, *device))
        .collect())
}
