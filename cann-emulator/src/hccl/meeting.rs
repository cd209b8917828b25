//! Meetings, where the tasks of ranks wait for each other.

use std::collections::HashMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use cann_sys::errors::ACL_ERROR_RT_TASK_TIMEOUT;

use super::call::{Call, perform};
use crate::error::{Failure, Outcome};
use crate::memory::memory;

/// The key of calls that belong together: the n-th collective of each rank, or the n-th transfer from one to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Key {
    All(u64),
    Pair { from: u32, to: u32, number: u64 },
}

struct Meeting {
    calls: Vec<Option<Call>>,
    outcome: Option<Outcome<()>>,
    /// The number of ranks that have not learned the outcome.
    waiting: usize,
}

/// All meetings of a group.
#[derive(Default)]
pub(crate) struct Meetings {
    open: Mutex<HashMap<Key, Meeting>>,
    changed: Condvar,
}

/// The interval in which a waiting rank checks whether its stream is destroyed by force.
const PATIENCE: Duration = Duration::from_millis(10);

impl Meetings {
    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Meeting>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enters a meeting of `size` ranks. The last one to come does the work.
    pub(crate) fn enter(&self, key: Key, size: usize, place: usize, call: Call) {
        let mut open = self.lock();
        let meeting = open.entry(key).or_insert_with(|| Meeting {
            calls: vec![None; size],
            outcome: None,
            waiting: size,
        });
        meeting.calls[place] = Some(call);
        if meeting.calls.iter().all(Option::is_some) {
            let calls: Vec<Call> = meeting.calls.drain(..).flatten().collect();
            meeting.outcome = Some(perform(&mut memory(), &calls));
            self.changed.notify_all();
        }
    }

    /// Waits until the work is done or never will be.
    pub(crate) fn leave(
        &self,
        key: Key,
        limit: Duration,
        abandoned: &dyn Fn() -> bool,
    ) -> Outcome<()> {
        let deadline = Instant::now() + limit;
        let mut open = self.lock();
        loop {
            let done = open.get(&key).and_then(|meeting| meeting.outcome.clone());
            if let Some(outcome) = done {
                if let Some(meeting) = open.get_mut(&key) {
                    meeting.waiting -= 1;
                    if meeting.waiting == 0 {
                        open.remove(&key);
                    }
                }
                return outcome;
            }
            if abandoned() {
                return Ok(());
            }
            if Instant::now() >= deadline {
                let text = format!(
                    "other ranks did not come to a collective within {limit:?} (HCCL_EXEC_TIMEOUT)"
                );
                return Err(Failure::new(ACL_ERROR_RT_TASK_TIMEOUT, text));
            }
            let waited = self.changed.wait_timeout(open, PATIENCE);
            open = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}
