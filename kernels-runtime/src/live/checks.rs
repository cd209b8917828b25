//! The memory of a site's checks: the calls to check, and the results so far.

use super::sampling::Active;
use crate::registry::SiteSpec;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Instant;

/// A part of a call that is checked. Each part has its own turns.
#[derive(Clone, Copy)]
pub(super) enum Part {
    /// The kernel and the body that it replaces.
    Kernel,
    /// The body of a gated MLP or a sparse block, including its layers.
    Composite,
}

struct Turn {
    /// The first calls that have happened: bit 0 without autodiff, bit 1 with it.
    first: AtomicU8,
    /// The number of calls, counted while every nth is checked.
    calls: AtomicU64,
}

impl Turn {
    const fn new() -> Self {
        Self {
            first: AtomicU8::new(0),
            calls: AtomicU64::new(0),
        }
    }

    fn is_first(&self, training: impl FnOnce() -> bool) -> bool {
        if self.first.load(Ordering::Relaxed) == 0b11 {
            return false;
        }
        let bit = if training() { 0b10 } else { 0b01 };
        self.first.fetch_or(bit, Ordering::Relaxed) & bit == 0
    }
}

/// The checks of one site.
pub(crate) struct Checks {
    turns: [Turn; 2],
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
            checked: AtomicU64::new(0),
            differed: AtomicU64::new(0),
            skipped: AtomicU64::new(0),
            nanoseconds: AtomicU64::new(0),
            kernel: AtomicU64::new(0),
            body: AtomicU64::new(0),
        }
    }

    /// Returns `true` if this call has to be checked. `training` returns `true` if autodiff is enabled for it.
    pub(super) fn due(
        &self,
        site: &SiteSpec,
        part: Part,
        active: Active,
        training: impl FnOnce() -> bool,
    ) -> bool {
        let turn = &self.turns[part as usize];
        let due = match active {
            Active::Off => false,
            Active::First(_) => turn.is_first(training),
            Active::Every(n, _) => turn.calls.fetch_add(1, Ordering::Relaxed).is_multiple_of(n),
        };
        due && active.includes(&site.name())
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
            turn.first.store(0, Ordering::Relaxed);
            turn.calls.store(0, Ordering::Relaxed);
        }
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
