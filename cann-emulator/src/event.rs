//! Events: marks in streams that others wait for.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

#[derive(Default)]
struct Marks {
    /// How often the event was put into a stream.
    recorded: u64,
    /// The latest of those that its stream has reached.
    completed: u64,
    at: Option<Instant>,
    destroyed: bool,
}

#[derive(Default)]
pub(crate) struct Event {
    marks: Mutex<Marks>,
    changed: Condvar,
}

impl Event {
    fn lock(&self) -> MutexGuard<'_, Marks> {
        self.marks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new turn, to be completed by a stream.
    pub(crate) fn record(&self) -> u64 {
        let mut marks = self.lock();
        marks.recorded += 1;
        marks.recorded
    }

    pub(crate) fn complete(&self, turn: u64) {
        let mut marks = self.lock();
        if turn > marks.completed {
            marks.completed = turn;
            marks.at = Some(Instant::now());
        }
        self.changed.notify_all();
    }

    /// Nobody waits for a destroyed event.
    pub(crate) fn destroy(&self) {
        self.lock().destroyed = true;
        self.changed.notify_all();
    }

    /// The turn that a wait which begins now is for: the latest, or the first if there is none yet.
    pub(crate) fn turn(&self) -> u64 {
        self.lock().recorded.max(1)
    }

    /// Whether it was recorded and its stream has reached it.
    pub(crate) fn is_complete(&self) -> bool {
        let marks = self.lock();
        marks.recorded > 0 && marks.completed >= marks.recorded
    }

    pub(crate) fn is_recorded(&self) -> bool {
        self.lock().recorded > 0
    }

    /// When its stream reached it.
    pub(crate) fn completed_at(&self) -> Option<Instant> {
        self.is_complete().then(|| self.lock().at).flatten()
    }

    /// Waits for `turn`; false if that took too long.
    pub(crate) fn wait(&self, turn: u64, timeout: Option<Duration>) -> bool {
        let deadline = timeout.map(|timeout| Instant::now() + timeout);
        let mut marks = self.lock();
        while marks.completed < turn && !marks.destroyed {
            marks = match deadline {
                None => self
                    .changed
                    .wait(marks)
                    .unwrap_or_else(PoisonError::into_inner),
                Some(deadline) => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return false;
                    }
                    let waited = self.changed.wait_timeout(marks, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
        true
    }
}
