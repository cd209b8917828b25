//! Groups of ranks. Each rank has a device, in this process or in another one of this machine.
//!
//! A collective is a task on the stream of each rank. The task reads what its rank sends, brings it to a meeting, waits
//! there for the result and writes it. The last rank to come does the work of all. Each waits without a lock on the
//! memory, so a single thread may submit the collectives of all ranks.
//!
//! The meetings of a group are in the process that made its root (`host`). Ranks of other processes have a connection
//! to that process (`guest`): a Unix socket, whose messages are in `wire`. So all checks and all sums are made in one
//! place and in the order of the ranks, whoever comes first.

pub(crate) mod call;
mod connection;
mod gathering;
mod group;
mod guest;
mod host;
mod meeting;
mod root;
mod socket;
mod wire;

pub(crate) use call::{Block, Call, Operation};
pub(crate) use gathering::join;
pub(crate) use group::{Communicator, whole};
pub(crate) use host::make_root;
pub(crate) use meeting::Key;
pub(crate) use root::Root;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use cann_sys::hccl::HCCL_E_PARA;

use crate::error::{Outcome, fail};

/// The interval in which a waiting task checks whether its stream is destroyed by force.
const PATIENCE: Duration = Duration::from_millis(10);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns a time in seconds from a variable of the environment, as HCCL reads it. Zero is allowed.
pub(crate) fn patience(variable: &str, default: u64) -> Outcome<Duration> {
    let seconds = match std::env::var(variable) {
        Err(_) => default,
        Ok(text) => match text.parse::<u64>() {
            Ok(seconds) if seconds <= i32::MAX as u64 => seconds,
            _ => fail!(HCCL_E_PARA.0 as i32;
                "{variable}={text}: a whole number of seconds up to {} is needed", i32::MAX),
        },
    };
    Ok(Duration::from_secs(seconds))
}

/// The time that a collective may wait for other ranks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limit(Option<Duration>);

impl Limit {
    /// Reads `HCCL_EXEC_TIMEOUT`. Zero means no limit, as on the processors that the emulator has.
    pub(crate) fn read() -> Outcome<Self> {
        let time = patience("HCCL_EXEC_TIMEOUT", 1836)?;
        Ok(Self((!time.is_zero()).then_some(time)))
    }

    /// Returns the time at which a collective that begins now must be done.
    pub(crate) fn deadline(self) -> Option<Instant> {
        self.0.map(|time| Instant::now() + time)
    }
}
