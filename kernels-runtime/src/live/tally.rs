//! What was checked.

use super::sampling::Active;
use crate::registry::{Site, sites};
use crate::table::Table;
use serde::Serialize;
use std::fmt;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Instant;

/// What is checked of a call, each in its own turn.
#[derive(Clone, Copy)]
pub(super) enum Part {
    /// The kernel, and what stands in its place.
    Kernel,
    /// The whole body of a gated MLP or a sparse block.
    Whole,
}

struct Turn {
    /// Which first calls have been: bit 0 without, bit 1 with autodiff.
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
    checked: AtomicU64,
    /// Calls that could not be checked: an operand was not finite, nothing computes in f64, or the
    /// body can't run on a sample.
    skipped: AtomicU64,
    /// The time of all checks together.
    nanoseconds: AtomicU64,
    /// Bits of the largest parts of the budgets: those of non-negative floats keep their order.
    kernel: AtomicU64,
    body: AtomicU64,
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
        site: &Site,
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

    fn reset(&self) {
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

/// What was verified live, taken by [`report`].
#[derive(Clone, Debug, Serialize)]
pub struct LiveReport {
    /// One row a site with at least one call that was checked or skipped, sorted by name.
    pub rows: Vec<LiveRow>,
}

/// The checks of one site. Errors are parts of their budgets: 1 is the most that passes.
#[derive(Clone, Debug, Serialize)]
pub struct LiveRow {
    /// The site's full name.
    pub site: String,
    /// The kernel that its attribute names.
    pub kernel: &'static str,
    /// Calls that were checked.
    pub checked: u64,
    /// Calls whose turn it was, but which could not be checked: an operand held an infinity or a
    /// NaN, no device of this build computes in f64, or the body panicked on a sample of its
    /// operands, which the log tells.
    pub skipped: u64,
    /// The time of all checks together, in seconds.
    pub seconds: f64,
    /// The kernel's largest error.
    pub kernel_error: f64,
    /// The body's largest error.
    pub body_error: f64,
}

/// The checks since the start of the process or the last [`reset`], over all threads.
pub fn report() -> LiveReport {
    let rows = sites().map(|site| {
        let checks = site.checks();
        let error = |bits: &AtomicU64| f64::from_bits(bits.load(Ordering::Relaxed));
        LiveRow {
            site: site.name(),
            kernel: site.spec().kernel,
            checked: checks.checked.load(Ordering::Relaxed),
            skipped: checks.skipped.load(Ordering::Relaxed),
            seconds: checks.nanoseconds.load(Ordering::Relaxed) as f64 * 1e-9,
            kernel_error: error(&checks.kernel),
            body_error: error(&checks.body),
        }
    });
    LiveReport {
        rows: rows.filter(|row| row.checked + row.skipped > 0).collect(),
    }
}

/// Forgets all checks: the next call of a site is its first.
pub fn reset() {
    sites().for_each(|site| site.checks().reset());
}

impl LiveReport {
    /// The site whose kernel came nearest to its budget.
    pub fn worst(&self) -> Option<&LiveRow> {
        let checked = self.rows.iter().filter(|row| row.checked > 0);
        checked.max_by(|a, b| a.kernel_error.total_cmp(&b.kernel_error))
    }
}

impl fmt::Display for LiveReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |part: f64| format!("{:.0} %", part * 100.0);
        let mut table = Table::new([
            "site",
            "kernel",
            "checked",
            "skipped",
            "took",
            "kernel error",
            "body error",
        ]);
        for row in &self.rows {
            table.row([
                &row.site,
                row.kernel,
                &row.checked.to_string(),
                &row.skipped.to_string(),
                &format!("{:.1} ms", row.seconds * 1e3),
                &percent(row.kernel_error),
                &percent(row.body_error),
            ]);
        }
        table.fmt(f)?;
        match self.worst() {
            Some(worst) => writeln!(
                f,
                "worst site: {}, {} of what its dtype allows",
                worst.site,
                percent(worst.kernel_error)
            ),
            None => writeln!(f, "nothing was verified live"),
        }
    }
}
