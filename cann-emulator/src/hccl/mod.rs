//! Groups of ranks. Each rank has a device, and all ranks are in this process.
//!
//! A collective is a task on the stream of each rank. The tasks of a group's ranks meet, and the last one to come does
//! the work of all. Each waits without a lock on the memory, so a single thread may submit the collectives of all
//! ranks.

pub(crate) mod call;
mod group;
mod meeting;

pub(crate) use call::{Block, Call, Operation};
pub(crate) use group::{Communicator, Root, join, root, whole};
pub(crate) use meeting::Key;

use std::time::Duration;

use cann_sys::hccl::HCCL_E_PARA;

use crate::error::{Outcome, fail};

/// Returns a time in seconds from a variable of the environment, as HCCL reads it.
pub(crate) fn patience(variable: &str, default: u64) -> Outcome<Duration> {
    let seconds = match std::env::var(variable) {
        Err(_) => default,
        Ok(text) => match text.parse() {
            Ok(seconds) => seconds,
            Err(_) => fail!(
                HCCL_E_PARA.0 as i32,
                "{variable}={text}: a whole number of seconds is needed"
            ),
        },
    };
    Ok(Duration::from_secs(seconds))
}
