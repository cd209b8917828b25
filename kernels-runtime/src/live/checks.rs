//! The memory of a site's checks: whose turn it is, and what was found.

use super::sampling::Active;
use crate::registry::SiteSpec;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Instant;

/// The parts of a call that are checked, each in its own turn.
#[derive(Clone, Copy)]
pub(super) enum Part {
    /// The kernel, and what stands in its place.
    Kernel,
    /// The body of a gated MLP or a sparse block, with the layers in it.
    Composite,
}

struct Turn {
    /// The first calls that have been: bit 0 without, bit 1 with autodiff.
    first: AtomicU8,
    /// Calls while every nth is checked.
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
    /// Calls that could not be checked: an operand was not finite, nothing computes in f64, or the
    /// body can't run on a sample.
    pub(super) skipped: AtomicU64,
    /// The time of all checks together.
    pub(super) nanoseconds: AtomicU64,
    /// Bits of the largest parts of the budgets: those of non-negative floats keep their order.
    pub(super) kernel: AtomicU64,
    pub(super) body: AtomicU64,
}

impl Checks {
    pub(crate) const fn new() -> Self {
        Self {
            turns: [const { Turn::new() }; 2],
            checked: AtomicU64::new(0),
            skipped: AtomicU64::new(0),
            nanoseconds: AtomicU64::new(0),
            kernel: AtomicU64::new(0),
            body: AtomicU64::new(0),
        }
    }

    /// Whether this call is to be checked. `training` says whether autodiff is enabled for it.
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

    /// Counts a call whose results are `kernel` and `body` of their budgets away.
    pub(super) fn passed(&self, kernel: f64, body: f64) {
        self.checked.fetch_add(1, Ordering::Relaxed);
        self.kernel.fetch_max(kernel.to_bits(), Ordering::Relaxed);
        self.body_passed(body);
    }

    /// Measures from here on, until the guard is dropped.
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
        let counts = [&self.checked, &self.skipped, &self.nanoseconds];
        for counter in counts.into_iter().chain([&self.kernel, &self.body]) {
            counter.store(0, Ordering::Relaxed);
        }
    }
}

/// See [`Checks::timed`].
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
