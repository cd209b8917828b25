//! Events: marks in streams that others wait for.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::error::Failure;

/// The start of timestamps, before any event.
static START: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Returns the time from [`START`] to `at` in microseconds.
pub(crate) fn timestamp(at: Instant) -> u64 {
    at.saturating_duration_since(*START).as_micros() as u64
}

#[derive(Default)]
struct Marks {
    /// The number of times that the event was enqueued.
    recorded: u64,
    /// The latest turn that its stream has reached.
    completed: u64,
    at: Option<Instant>,
    /// The error of the stream that reached the latest turn.
    failure: Option<Failure>,
    /// The numbers of waits by streams that were enqueued and that have passed.
    waits: u64,
    passed: u64,
    destroyed: bool,
}

pub(crate) struct Event {
    /// A number that no other event of the process has.
    pub(crate) id: u32,
    marks: Mutex<Marks>,
    changed: Condvar,
}

impl Default for Event {
    fn default() -> Self {
        static MADE: AtomicU32 = AtomicU32::new(0);
        LazyLock::force(&START);
        Self {
            id: MADE.fetch_add(1, Ordering::Relaxed),
            marks: Mutex::default(),
            changed: Condvar::new(),
        }
    }
}

impl Event {
    fn lock(&self) -> MutexGuard<'_, Marks> {
        self.marks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a new turn, which a stream will complete.
    pub(crate) fn record(&self) -> u64 {
        let mut marks = self.lock();
        marks.recorded += 1;
        marks.recorded
    }

    /// Completes a turn that the stream has reached, with or without an error.
    pub(crate) fn complete(&self, turn: u64, failure: Option<Failure>) {
        let mut marks = self.lock();
        if turn > marks.completed {
            marks.completed = turn;
            marks.at = Some(Instant::now());
            marks.failure = failure;
        }
        self.changed.notify_all();
    }

    /// Makes the event count as not recorded, unless it was recorded after `turn`.
    pub(crate) fn reset(&self, turn: u64) {
        let mut marks = self.lock();
        if marks.recorded <= turn {
            (marks.recorded, marks.completed) = (0, 0);
            (marks.at, marks.failure) = (None, None);
        }
    }

    /// Returns the number of times that it was recorded.
    pub(crate) fn records(&self) -> u64 {
        self.lock().recorded
    }

    /// Returns the error of the stream that completed it.
    pub(crate) fn failure(&self) -> Option<Failure> {
        self.lock().failure.clone()
    }

    /// Counts a stream that will wait for it.
    pub(crate) fn awaited(&self) {
        self.lock().waits += 1;
    }

    /// Counts a stream that has waited for it.
    pub(crate) fn passed(&self) {
        self.lock().passed += 1;
    }

    /// Returns `true` if every stream that was to wait for it has.
    pub(crate) fn is_passed(&self) -> bool {
        let marks = self.lock();
        marks.passed >= marks.waits
    }

    /// Marks the event as destroyed. Nobody waits for a destroyed event.
    pub(crate) fn destroy(&self) {
        self.lock().destroyed = true;
        self.changed.notify_all();
    }

    /// Returns the turn for a wait that begins now: the latest, or else the first.
    pub(crate) fn turn(&self) -> u64 {
        self.lock().recorded.max(1)
    }

    /// Returns `true` if it was recorded and its stream has reached it.
    pub(crate) fn is_complete(&self) -> bool {
        let marks = self.lock();
        marks.recorded > 0 && marks.completed >= marks.recorded
    }

    pub(crate) fn is_recorded(&self) -> bool {
        self.lock().recorded > 0
    }

    /// Returns the time at which its stream reached it.
    pub(crate) fn completed_at(&self) -> Option<Instant> {
        self.is_complete().then(|| self.lock().at).flatten()
    }

    /// Waits for `turn`. Returns `false` on a timeout.
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
