//! Groups: how ranks join them, and the handle that a rank gets.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use cann_sys::hccl::*;

use super::meeting::{Key, Meetings};
use super::patience;
use crate::error::{Failure, Outcome, ensure, fail};

/// All ranks of a group.
pub(crate) struct Group {
    pub(crate) id: u64,
    pub(crate) size: usize,
    pub(crate) meetings: Meetings,
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

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Group {
    fn new(id: u64, size: usize) -> Arc<Self> {
        Arc::new(Self {
            id,
            size,
            meetings: Meetings::default(),
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
    fn new(group: Arc<Group>, rank: usize, device: i32) -> Arc<Self> {
        Arc::new(Self {
            group,
            rank,
            device,
            name: OnceLock::new(),
            collectives: AtomicU64::new(0),
            pairs: Mutex::default(),
        })
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

/// The message of the first rank to the others: the process and the group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Root {
    process: u32,
    id: u64,
}

/// A mark by which other bytes are recognised.
const MARK: &[u8; 16] = b"cann-emulator/01";

impl Root {
    pub(crate) fn write(self, bytes: &mut [u8]) {
        bytes.fill(0);
        bytes[..16].copy_from_slice(MARK);
        bytes[16..20].copy_from_slice(&self.process.to_le_bytes());
        bytes[20..28].copy_from_slice(&self.id.to_le_bytes());
    }

    pub(crate) fn read(bytes: &[u8]) -> Outcome<Self> {
        ensure!(
            bytes[..16] == *MARK,
            HCCL_E_PARA.0 as i32,
            "these are not the bytes that HcclGetRootInfo of the emulator gave"
        );
        let process = u32::from_le_bytes(bytes[16..20].try_into().expect("four bytes"));
        let id = u64::from_le_bytes(bytes[20..28].try_into().expect("eight bytes"));
        Ok(Self { process, id })
    }
}

static GROUPS: AtomicU64 = AtomicU64::new(1);

/// Makes the root of a new group in this process.
pub(crate) fn root() -> Root {
    Root {
        process: std::process::id(),
        id: GROUPS.fetch_add(1, Ordering::Relaxed),
    }
}

/// A group whose ranks are joining.
struct Gathering {
    group: Arc<Group>,
    /// The device of each rank that has joined.
    devices: HashMap<usize, i32>,
}

static GATHERINGS: Mutex<Option<HashMap<u64, Gathering>>> = Mutex::new(None);
static CHANGED: Condvar = Condvar::new();

/// Joins a group and waits for all other ranks, as long as `HCCL_CONNECT_TIMEOUT` allows.
pub(crate) fn join(
    root: Root,
    size: usize,
    rank: usize,
    device: i32,
) -> Outcome<Arc<Communicator>> {
    ensure!(
        root.process == std::process::id(),
        HCCL_E_NOT_SUPPORT.0 as i32,
        "the root is of process {}, this is {}: the emulator has groups of one process only; \
         run a rank a thread",
        root.process,
        std::process::id()
    );
    ensure!(
        size > 0 && rank < size,
        HCCL_E_PARA.0 as i32,
        "rank {rank} of {size}; ranks count from 0"
    );
    let deadline = Instant::now() + patience("HCCL_CONNECT_TIMEOUT", 120)?;
    let mut guard = lock(&GATHERINGS);
    let group = admit(guard.get_or_insert_default(), root, size, rank, device)?;
    CHANGED.notify_all();
    loop {
        let come = guard
            .get_or_insert_default()
            .get(&root.id)
            .map_or(0, |gathering| gathering.devices.len());
        if come == size {
            return Ok(Communicator::new(group, rank, device));
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            if let Some(gathering) = guard.get_or_insert_default().get_mut(&root.id) {
                gathering.devices.remove(&rank);
            }
            fail!(
                HCCL_E_TIMEOUT.0 as i32,
                "{come} of {size} ranks came in time (HCCL_CONNECT_TIMEOUT)"
            )
        }
        let waited = CHANGED.wait_timeout(guard, left);
        guard = waited.unwrap_or_else(PoisonError::into_inner).0;
    }
}

/// Admits a rank to the group of its root. The first rank makes the group.
fn admit(
    gatherings: &mut HashMap<u64, Gathering>,
    root: Root,
    size: usize,
    rank: usize,
    device: i32,
) -> Outcome<Arc<Group>> {
    let gathering = gatherings.entry(root.id).or_insert_with(|| Gathering {
        group: Group::new(root.id, size),
        devices: HashMap::new(),
    });
    let group = &gathering.group;
    ensure!(
        group.size == size,
        HCCL_E_PARA.0 as i32,
        "a group of {size} ranks; another rank said {}",
        group.size
    );
    ensure!(
        !gathering.devices.contains_key(&rank),
        HCCL_E_PARA.0 as i32,
        "rank {rank} is in the group already"
    );
    ensure!(
        !gathering.devices.values().any(|other| *other == device),
        HCCL_E_PARA.0 as i32,
        "device {device} is another rank's already; each rank has its own"
    );
    gathering.devices.insert(rank, device);
    Ok(gathering.group.clone())
}

/// Makes a group of all `devices`, with ranks in their order.
pub(crate) fn whole(devices: &[i32]) -> Vec<Arc<Communicator>> {
    let group = Group::new(root().id, devices.len());
    devices
        .iter()
        .enumerate()
        .map(|(rank, device)| Communicator::new(group.clone(), rank, *device))
        .collect()
}
