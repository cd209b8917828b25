//! Gatherings: how ranks join a group, until all have come.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Instant;

use cann_sys::hccl::*;

use super::connection::Post;
use super::group::{Communicator, Group, Link};
use super::guest::{Guest, this_process};
use super::meeting::Meetings;
use super::root::Root;
use super::wire::{Hello, Message};
use super::{lock, patience, socket};
use crate::error::{Outcome, ensure, fail};

const PARA: i32 = HCCL_E_PARA.0 as i32;

/// A rank that has joined.
struct Member {
    device: i32,
    /// The random number of its process.
    process: u64,
    /// The connection to a rank of another process.
    post: Option<Post>,
}

#[derive(Default)]
struct State {
    members: HashMap<usize, Member>,
    /// The size and the meetings of the group, from the first rank on.
    group: Option<(usize, Arc<Meetings>)>,
    complete: bool,
}

/// The place where the ranks of a root gather.
pub(crate) struct Gathering {
    pub(crate) root: Root,
    state: Mutex<State>,
    changed: Condvar,
}

/// The gatherings of the roots that this process made.
static GATHERINGS: Mutex<Option<HashMap<u64, Arc<Gathering>>>> = Mutex::new(None);

impl Gathering {
    /// Starts to gather the ranks of a root.
    pub(crate) fn open(root: Root) -> Arc<Self> {
        let gathering = Arc::new(Self {
            root,
            state: Mutex::default(),
            changed: Condvar::new(),
        });
        let mut all = lock(&GATHERINGS);
        let all = all.get_or_insert_default();
        all.insert(root.id, gathering.clone());
        gathering
    }

    /// Returns the gathering of a root of this process. A fork has the roots of its parent but not their sockets.
    fn of(root: &Root) -> Option<Arc<Self>> {
        let all = lock(&GATHERINGS);
        let found = all.as_ref()?.get(&root.id)?;
        (found.root == *root && root.process == std::process::id()).then(|| found.clone())
    }

    /// Returns `true` if all ranks have come.
    pub(crate) fn is_complete(&self) -> bool {
        lock(&self.state).complete
    }

    /// Admits a rank. The last one completes the group.
    pub(crate) fn admit(&self, hello: &Hello, post: Option<Post>) -> Outcome<Arc<Meetings>> {
        let (size, rank) = (hello.size as usize, hello.rank as usize);
        check_rank(size, rank)?;
        let mut state = lock(&self.state);
        ensure!(!state.members.contains_key(&rank), PARA; "rank {rank} is in the group already");
        ensure!(!state.complete, PARA; "the group of this root is complete");
        let same =
            |member: &Member| (member.process, member.device) == (hello.process, hello.device);
        ensure!(!state.members.values().any(same), PARA;
            "device {} is another rank's already; each rank of a process has its own", hello.device);
        let (known, meetings) = state
            .group
            .get_or_insert_with(|| (size, Meetings::new(size)))
            .clone();
        ensure!(known == size, PARA; "a group of {size} ranks; another rank said {known}");
        let member = Member {
            device: hello.device,
            process: hello.process,
            post,
        };
        state.members.insert(rank, member);
        state.complete = state.members.len() == size;
        if state.complete {
            state.group = None;
            for (rank, member) in &mut state.members {
                if let Some(post) = member.post.take() {
                    meetings.connect(*rank, post.clone());
                    post.send(&Message::Welcome, None);
                }
            }
            self.changed.notify_all();
            drop(state);
            // Wakes the thread that lets ranks in. It ends if all have come.
            drop(socket::connect(self.root.id));
        }
        Ok(meetings)
    }

    /// Forgets a rank that waits no longer, unless the group is complete.
    pub(crate) fn dismiss(&self, rank: usize) {
        let mut state = lock(&self.state);
        if !state.complete {
            state.members.remove(&rank);
            if state.members.is_empty() {
                state.group = None;
            }
        }
    }

    /// Waits until all ranks have come.
    fn wait(&self, size: usize, rank: usize, deadline: Instant) -> Outcome<()> {
        let mut state = lock(&self.state);
        while !state.complete {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let come = state.members.len();
                drop(state);
                self.dismiss(rank);
                fail!(HCCL_E_TIMEOUT.0 as i32;
                    "{come} of {size} ranks came in time (HCCL_CONNECT_TIMEOUT)")
            }
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        Ok(())
    }
}

fn check_rank(size: usize, rank: usize) -> Outcome<()> {
    ensure!(size > 0 && rank < size, PARA; "rank {rank} of {size}; ranks count from 0");
    Ok(())
}

/// Joins a group and waits for all other ranks, as long as `HCCL_CONNECT_TIMEOUT` allows.
pub(crate) fn join(
    root: Root,
    size: usize,
    rank: usize,
    device: i32,
) -> Outcome<Arc<Communicator>> {
    check_rank(size, rank)?;
    let deadline = Instant::now() + patience("HCCL_CONNECT_TIMEOUT", 120)?;
    let link = match Gathering::of(&root) {
        Some(gathering) => {
            let hello = Hello {
                token: root.token,
                process: this_process()?,
                size: size as u32,
                rank: rank as u32,
                device,
            };
            let meetings = gathering.admit(&hello, None)?;
            gathering.wait(size, rank, deadline)?;
            Link::Here(meetings)
        }
        None => Link::There(Guest::join(&root, size, rank, device, deadline)?),
    };
    Ok(Communicator::new(
        Group::new(root.id, size, link),
        rank,
        device,
    ))
}
