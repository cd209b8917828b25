//! The memory of a site's checks: the calls to check, and the results so far.

use super::sampling::Active;
use crate::registry::SiteSpec;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// A part of a call that is checked. Each part has its own turns.
#[derive(Clone, Copy)]
pub(super) enum Part {
    /// The kernel and the body that it replaces.
    Kernel,
    /// The body of a gated MLP or a sparse block, including its layers.
    Composite,
}

/// The number of classes of calls that a site remembers. Calls of further classes are not checked.
const CLASSES: usize = 32;

/// The number of calls of a class that are looked at, if their operands hold an infinity or a NaN.
const TRIES: u64 = 8;

/// The bits of a remembered class that count its tries. [`TRIES`] of them: the class is done.
const COUNT: u64 = 0xf;

struct Turn {
    /// The hashes of the classes that were looked at, without the bits of [`COUNT`]. Zero is a free place.
    classes: [AtomicU64; CLASSES],
    /// The number of calls, counted while every nth is checked.
    calls: AtomicU64,
}

impl Turn {
    const fn new() -> Self {
        Self {
            classes: [const { AtomicU64::new(0) }; CLASSES],
            calls: AtomicU64::new(0),
        }
    }

    /// Returns `true` if no call of the class was checked yet.
    fn is_open(&self, class: u64) -> bool {
        for place in &self.classes {
            let known = place.load(Ordering::Acquire);
            if known == 0 {
                return true;
            }
            if known & !COUNT == class {
                return known & COUNT < TRIES;
            }
        }
        false
    }

    /// Adds tries to a class. Returns their number.
    fn count(&self, class: u64, tries: u64) -> u64 {
        for place in &self.classes {
            let counted = place.fetch_update(Ordering::AcqRel, Ordering::Acquire, |known| {
                let is_mine = known == 0 || known & !COUNT == class;
                is_mine.then(|| class | (known & COUNT).saturating_add(tries).min(TRIES))
            });
            if let Ok(before) = counted {
                return (before & COUNT) + tries;
            }
        }
        TRIES
    }
}

/// A call that has to be checked. Its class stays open until a check is done: concurrent first calls are all checked, so
/// that none returns unchecked numbers.
#[derive(Clone, Copy)]
pub(crate) struct Due {
    checks: &'static Checks,
    part: Part,
    /// `None` if every nth call is checked, whatever its class.
    class: Option<u64>,
}

impl Due {
    /// Returns `true` if every nth call is checked, so that this one does not depend on others.
    pub(super) fn is_nth(self) -> bool {
        self.class.is_none()
    }

    /// Ends the check, whose class needs no other.
    pub(super) fn done(self) {
        self.try_again(TRIES);
    }

    /// Counts a call whose operands or results are not finite, so that it was not compared. Another call of its class is
    /// checked in its place. Returns `true` if it was the first of its class.
    pub(super) fn not_finite(self) -> bool {
        self.checks.skip();
        self.try_again(1) == 1
    }

    fn try_again(self, tries: u64) -> u64 {
        match self.class {
            Some(class) => self.checks.turns[self.part as usize].count(class, tries),
            None => 0,
        }
    }
}

/// The checks of one site.
pub(crate) struct Checks {
    turns: [Turn; 2],
    has_failed: AtomicBool,
    /// The message of the last check that failed.
    failed: Mutex<Option<String>>,
    pub(super) checked: AtomicU64,
    /// The number of calls that differed, if a difference is a warning.
    pub(super) differed: AtomicU64,
    /// The number of calls that could not be checked: an operand was not finite, no device computes in f64, or the body
    /// can't run on a sample.
    pub(super) skipped: AtomicU64,
    /// The total time of all checks.
    pub(super) nanoseconds: AtomicU64,
    /// The bits of the largest fractions of the budgets. The bits of non-negative floats have the same order as the
    /// floats.
    pub(super) kernel: AtomicU64,
    pub(super) body: AtomicU64,
}

impl Checks {
    pub(crate) const fn new() -> Self {
        Self {
            turns: [const { Turn::new() }; 2],
            has_failed: AtomicBool::new(false),
            failed: Mutex::new(None),
            checked: AtomicU64::new(0),
            differed: AtomicU64::new(0),
            skipped: AtomicU64::new(0),
            nanoseconds: AtomicU64::new(0),
            kernel: AtomicU64::new(0),
            body: AtomicU64::new(0),
        }
    }

    /// Returns a value if a call of this class has to be checked.
    pub(super) fn due(
        &'static self,
        site: &SiteSpec,
        part: Part,
        active: Active,
        class: u64,
    ) -> Option<Due> {
        let turn = &self.turns[part as usize];
        // A hash of zero would be a free place.
        let class = (class & !COUNT).max(COUNT + 1);
        let (is_due, class) = match active {
            Active::Off => (false, None),
            Active::First(_) => (turn.is_open(class), Some(class)),
            Active::Every(n, _) => {
                let call = turn.calls.fetch_add(1, Ordering::Relaxed);
                (call.is_multiple_of(n), None)
            }
        };
        if !is_due {
            return None;
        }
        let due = Due {
            checks: self,
            part,
            class,
        };
        if !active.includes(&site.name()) {
            due.done();
            return None;
        }
        Some(due)
    }

    /// Notes that a check failed. From then on, each call of the site [is refused](Self::refuse).
    pub(super) fn fail(&self, message: &str) {
        *self.message() = Some(message.to_owned());
        self.has_failed.store(true, Ordering::Release);
    }

    /// Panics with the message of a check that failed, unless the sampling leaves the site out or only warns.
    #[track_caller]
    #[inline]
    pub(super) fn refuse(&self, site: &SiteSpec, active: Active) {
        if self.has_failed.load(Ordering::Acquire) {
            self.refuse_failed(site, active);
        }
    }

    #[track_caller]
    #[cold]
    fn refuse_failed(&self, site: &SiteSpec, active: Active) {
        if !active.includes(&site.name()) || active.goes_on() {
            return;
        }
        let message = self.message().clone();
        if let Some(message) = message {
            panic!("{message}");
        }
    }

    fn message(&self) -> MutexGuard<'_, Option<String>> {
        // The message is replaced as a whole, so a panic leaves it consistent.
        self.failed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn skip(&self) {
        self.skipped.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a call whose kernel and body have these errors, as fractions of their budgets.
    pub(super) fn passed(&self, kernel: f64, body: f64) {
        self.checked.fetch_add(1, Ordering::Relaxed);
        self.kernel.fetch_max(kernel.to_bits(), Ordering::Relaxed);
        self.body_passed(body);
    }

    /// Counts a call that differed.
    pub(super) fn differ(&self) {
        self.checked.fetch_add(1, Ordering::Relaxed);
        self.differed.fetch_add(1, Ordering::Relaxed);
    }

    /// Measures the time until the guard is dropped.
    pub(super) fn timed(&self) -> Timed<'_> {
        Timed {
            checks: self,
            started: Instant::now(),
        }
    }

    pub(super) fn body_passed(&self, body: f64) {
        self.body.fetch_max(body.to_bits(), Ordering::Relaxed);
    }

    pub(super) fn reset(&self) {
        for turn in &self.turns {
            for class in &turn.classes {
                class.store(0, Ordering::Relaxed);
            }
            turn.calls.store(0, Ordering::Relaxed);
        }
        self.has_failed.store(false, Ordering::Relaxed);
        let counts = [
            &self.checked,
            &self.differed,
            &self.skipped,
            &self.nanoseconds,
        ];
        for counter in counts.into_iter().chain([&self.kernel, &self.body]) {
            counter.store(0, Ordering::Relaxed);
        }
    }
}

/// The guard of [`Checks::timed`].
pub(super) struct Timed<'a> {
    checks: &'a Checks,
    started: Instant,
}

impl Drop for Timed<'_> {
    fn drop(&mut self) {
        let nanoseconds = u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let total = &self.checks.nanoseconds;
        total.fetch_add(nanoseconds, Ordering::Relaxed);
    }
}
