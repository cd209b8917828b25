//! The report of live verification.

use crate::dispatch::sites;
use kernels_io::Table;
use serde::Serialize;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// The results of live verification, taken by [`report`].
#[derive(Clone, Debug, Serialize)]
pub struct LiveReport {
    /// One row per site with at least one call that was checked or skipped, sorted by name.
    pub rows: Vec<LiveRow>,
}

/// The checks of one site. Errors are fractions of their budgets: 1 is the largest error that passes.
#[derive(Clone, Debug, Serialize)]
pub struct LiveRow {
    /// The site's full name.
    pub site: String,
    /// The kernel that its attribute names.
    pub kernel: &'static str,
    /// The number of calls that were checked.
    pub checked: u64,
    /// The number of checked calls that differed from the reference. It is above zero only if a difference is a warning
    /// ([`Sampling::warn`](super::Sampling::warn)).
    pub differed: u64,
    /// The number of calls that were selected but could not be checked. In such a call, an operand contains an infinity
    /// or a NaN, no device of this build computes in f64, or the body panicked on a sample of its operands, which is
    /// logged.
    pub skipped: u64,
    /// The total time of all checks, in seconds.
    pub seconds: f64,
    /// The kernel's largest error.
    pub kernel_error: f64,
    /// The body's largest error.
    pub body_error: f64,
}

/// Returns the checks of all threads since the start of the process or the last [`reset`].
pub fn report() -> LiveReport {
    let rows = sites().map(|site| {
        let checks = site.checks();
        let error = |bits: &AtomicU64| f64::from_bits(bits.load(Ordering::Relaxed));
        LiveRow {
            site: site.name(),
            kernel: site.spec().kernel,
            checked: checks.checked.load(Ordering::Relaxed),
            differed: checks.differed.load(Ordering::Relaxed),
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

/// Forgets all checks. The next call of a site counts as its first.
pub fn reset() {
    sites().for_each(|site| site.checks().reset());
}

impl LiveReport {
    /// Returns the site whose kernel came closest to its budget.
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
            "differed",
            "skipped",
            "took",
            "kernel error",
            "body error",
        ]);
        for row in &self.rows {
            table.row([
                row.site.clone(),
                row.kernel.to_owned(),
                row.checked.to_string(),
                row.differed.to_string(),
                row.skipped.to_string(),
                format!("{:.1} ms", row.seconds * 1e3),
                percent(row.kernel_error),
                percent(row.body_error),
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
