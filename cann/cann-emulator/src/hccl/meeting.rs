//! Meetings, where the parts of ranks wait for each other.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::time::Instant;

use cann_sys::errors::{
    ACL_ERROR_RT_LINK_ERROR, ACL_ERROR_RT_PARAM_INVALID, ACL_ERROR_RT_TASK_TIMEOUT,
};

use super::call::{Part, Results, perform};
use super::connection::Post;
use super::wire::Message;
use super::{PATIENCE, lock};
use crate::error::{Failure, Outcome, fail, guarded};

/// The key of parts that belong together: the n-th collective of each rank, or the n-th transfer from one to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Key {
    All(u64),
    Pair { from: u32, to: u32, number: u64 },
}

impl Key {
    /// Returns the ranks that meet, in their order.
    fn ranks(self, size: usize) -> Vec<usize> {
        match self {
            Self::All(_) => (0..size).collect(),
            Self::Pair { from, to, .. } => vec![from as usize, to as usize],
        }
    }
}

/// The error of a rank that waited too long.
pub(crate) fn too_late() -> Failure {
    Failure::new(
        ACL_ERROR_RT_TASK_TIMEOUT,
        "other ranks did not come to a collective in time (HCCL_EXEC_TIMEOUT)",
    )
}

/// The error of ranks whose partner is gone.
fn left(rank: usize) -> Failure {
    Failure::new(
        ACL_ERROR_RT_LINK_ERROR,
        format!("rank {rank} has left the group: it was destroyed there, or its process ended"),
    )
}

/// The error of ranks whose partner's stream was destroyed by force.
pub(crate) fn abandoned_by(rank: usize) -> Failure {
    Failure::new(
        ACL_ERROR_RT_LINK_ERROR,
        format!("rank {rank} destroyed its stream before a collective was done"),
    )
}

struct Meeting {
    ranks: Vec<usize>,
    /// The ranks that have come.
    come: Vec<bool>,
    /// The parts, until the outcome is known.
    parts: Vec<Option<Outcome<Part>>>,
    outcome: Option<Outcome<Results>>,
    /// The ranks that have learned the outcome.
    told: Vec<bool>,
    /// The number of messages with the outcome that are not yet written.
    undelivered: Arc<AtomicUsize>,
}

#[derive(Default)]
struct State {
    open: HashMap<Key, Meeting>,
    /// The connections to ranks of other processes.
    posts: HashMap<usize, Post>,
    departed: HashSet<usize>,
}

/// All meetings of a group.
pub(crate) struct Meetings {
    size: usize,
    state: Mutex<State>,
    changed: Condvar,
}

/// Tells a meeting, when it is dropped, that a message with its outcome is written or never will be. It may be dropped
/// under the lock of the meetings, so it takes none.
pub(crate) struct Delivery {
    meetings: Weak<Meetings>,
    undelivered: Arc<AtomicUsize>,
}

impl Drop for Delivery {
    fn drop(&mut self) {
        self.undelivered.fetch_sub(1, Ordering::Release);
        if let Some(meetings) = self.meetings.upgrade() {
            meetings.changed.notify_all();
        }
    }
}

impl Meetings {
    pub(crate) fn new(size: usize) -> Arc<Self> {
        Arc::new(Self {
            size,
            state: Mutex::default(),
            changed: Condvar::new(),
        })
    }

    /// Lets a rank of another process take part. Its answers go to `post`.
    pub(crate) fn connect(&self, rank: usize, post: Post) {
        lock(&self.state).posts.insert(rank, post);
    }

    /// Enters a meeting. The last rank to come does the work.
    pub(crate) fn enter(
        self: &Arc<Self>,
        key: Key,
        rank: usize,
        part: Outcome<Part>,
    ) -> Outcome<()> {
        let ranks = key.ranks(self.size);
        let place = ranks.iter().position(|one| *one == rank);
        let place = place.filter(|_| ranks.iter().all(|one| *one < self.size));
        let mut state = lock(&self.state);
        let meeting = state.open.entry(key).or_insert_with(|| Meeting {
            come: vec![false; ranks.len()],
            parts: vec![None; ranks.len()],
            outcome: None,
            told: vec![false; ranks.len()],
            ranks,
            undelivered: Arc::default(),
        });
        let place = place.filter(|place| meeting.come.get(*place) == Some(&false));
        let Some(place) = place else {
            fail!(ACL_ERROR_RT_PARAM_INVALID; "rank {rank} comes to a meeting of others, or twice")
        };
        meeting.come[place] = true;
        meeting.parts[place] = Some(part);
        self.settle(&mut state, key);
        Ok(())
    }

    /// Ends a meeting that has no outcome yet: a rank waits no longer.
    pub(crate) fn give_up(self: &Arc<Self>, key: Key, rank: usize, failure: Failure) {
        let mut state = lock(&self.state);
        if let Some(meeting) = state.open.get_mut(&key) {
            meeting.outcome.get_or_insert(Err(failure));
            meeting.tell(rank);
            self.settle(&mut state, key);
        }
    }

    /// Removes a rank: its group was destroyed, or its process ended. Meetings that need it fail.
    pub(crate) fn depart(self: &Arc<Self>, rank: usize) {
        let mut state = lock(&self.state);
        state.departed.insert(rank);
        state.posts.remove(&rank);
        let keys: Vec<Key> = state.open.keys().copied().collect();
        for key in keys {
            self.settle(&mut state, key);
        }
    }

    /// Decides a meeting if it can be decided, and sends the outcome to ranks of other processes.
    fn settle(self: &Arc<Self>, state: &mut State, key: Key) {
        let Some(meeting) = state.open.get_mut(&key) else {
            return;
        };
        if meeting.outcome.is_none() {
            meeting.outcome = meeting.decide(&state.departed);
        }
        let Some(outcome) = &mut meeting.outcome else {
            return;
        };
        for (place, rank) in meeting.ranks.iter().enumerate() {
            let waits = meeting.come[place] && !meeting.told[place];
            let Some(post) = state.posts.get(rank).filter(|_| waits) else {
                continue;
            };
            let results = match outcome {
                Ok(results) => Ok(std::mem::take(&mut results[place])),
                Err(failure) => Err(failure.clone()),
            };
            meeting.told[place] = true;
            meeting.undelivered.fetch_add(1, Ordering::Relaxed);
            let delivery = Delivery {
                meetings: Arc::downgrade(self),
                undelivered: meeting.undelivered.clone(),
            };
            post.send(&Message::Answer(key, results), Some(delivery));
        }
        self.changed.notify_all();
        state.close(key);
    }

    /// Waits until the work is done or never will be. Returns what a rank of this process receives, or `None` if its
    /// stream was abandoned.
    pub(crate) fn leave(
        self: &Arc<Self>,
        key: Key,
        rank: usize,
        deadline: Option<Instant>,
        abandoned: &dyn Fn() -> bool,
    ) -> Outcome<Option<Vec<Vec<u8>>>> {
        let mut state = lock(&self.state);
        loop {
            if let Some(results) = state.take(key, rank) {
                return results.map(Some);
            }
            let late = deadline.is_some_and(|deadline| Instant::now() >= deadline);
            if late || abandoned() {
                drop(state);
                let failure = if late { too_late() } else { abandoned_by(rank) };
                self.give_up(key, rank, failure);
                return if late { Err(too_late()) } else { Ok(None) };
            }
            let waited = self.changed.wait_timeout(state, PATIENCE);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl State {
    /// Takes what a rank receives, if the outcome is known and the ranks of other processes have theirs. Otherwise
    /// they would lose it if this process ended now.
    fn take(&mut self, key: Key, rank: usize) -> Option<Outcome<Vec<Vec<u8>>>> {
        let meeting = self.open.get_mut(&key)?;
        if meeting.undelivered.load(Ordering::Acquire) > 0 {
            return None;
        }
        let place = meeting.ranks.iter().position(|one| *one == rank)?;
        let results = match meeting.outcome.as_mut()? {
            Ok(results) => Ok(std::mem::take(&mut results[place])),
            Err(failure) => Err(failure.clone()),
        };
        meeting.tell(rank);
        self.close(key);
        Some(results)
    }

    /// Forgets a meeting whose outcome all ranks know.
    fn close(&mut self, key: Key) {
        let known = |meeting: &Meeting| {
            let mut ranks = meeting.ranks.iter().zip(&meeting.told);
            ranks.all(|(rank, told)| *told || self.departed.contains(rank))
        };
        if self.open.get(&key).is_some_and(known) {
            self.open.remove(&key);
        }
    }
}

impl Meeting {
    fn tell(&mut self, rank: usize) {
        for (one, told) in self.ranks.iter().zip(&mut self.told) {
            *told |= *one == rank;
        }
    }

    /// Returns the outcome if it is certain.
    fn decide(&mut self, departed: &HashSet<usize>) -> Option<Outcome<Results>> {
        for (rank, part) in self.ranks.iter().zip(&self.parts) {
            match part {
                Some(Err(failure)) => {
                    let text = format!("rank {rank} could not take part: {}", failure.text);
                    return Some(Err(Failure::new(failure.code, text)));
                }
                None if departed.contains(rank) => return Some(Err(left(*rank))),
                _ => {}
            }
        }
        if !self.come.iter().all(|come| *come) {
            return None;
        }
        let parts = self.parts.iter_mut().filter_map(Option::take);
        let parts: Outcome<Vec<Part>> = parts.collect();
        Some(parts.and_then(|parts| guarded(|| perform(&parts))))
    }
}
