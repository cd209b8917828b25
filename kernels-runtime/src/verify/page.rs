//! The readable form of a verification: a summary with the failures, or every case.

use super::{Outcome, VerifyReport, VerifyRow, percent};
use crate::device::DeviceKind;
use crate::reason::Reason;
use crate::registry::FloatType;
use crate::semantics::as_written;
use kernels_io::{Cell, Look, Page, Table, Tone};
use std::collections::BTreeMap;
use std::fmt;

/// Why cases in f64 were not run on the CPU.
const F64: &str =
    "calls in f64 take the reference in this build; the feature `f64-kernels` adds the kernels";

/// The cases of one kernel.
#[derive(Default)]
struct Tally {
    passed: usize,
    failed: usize,
    not_run: usize,
    /// The largest error of the cases that passed, as a fraction of the error that the budget allows.
    worst: f64,
}

impl Tally {
    fn add(&mut self, outcome: &Outcome) {
        match outcome {
            Outcome::Passed { worst } => {
                self.passed += 1;
                self.worst = self.worst.max(*worst);
            }
            Outcome::Failed { .. } => self.failed += 1,
            Outcome::Unavailable { .. } => self.not_run += 1,
        }
    }

    fn cells(&self, kernel: &str) -> [Cell; 6] {
        let failed = match self.failed {
            0 => "0".into(),
            failed => Cell::new(Tone::Bad, failed),
        };
        let worst = match (self.failed, self.passed) {
            (0, 0) => "-".into(),
            (0, _) => Cell::new(Tone::Good, percent(self.worst)),
            _ => Cell::new(Tone::Bad, "over 100 %"),
        };
        [
            kernel.into(),
            (self.passed + self.failed).into(),
            self.passed.into(),
            failed,
            self.not_run.into(),
            worst,
        ]
    }
}

impl VerifyReport {
    /// Returns the report laid out for `look`: each case, or a summary by kernel with the cases that failed.
    #[doc(hidden)]
    pub fn page(&self, look: Look, every_case: bool) -> Page {
        let mut page = Page::new(look);
        if every_case {
            page.table(&cases(self.rows.iter()));
        } else {
            page.table(&self.summary());
            let mut failed = self.rows.iter().filter(|row| row.has_failed()).peekable();
            if failed.peek().is_some() {
                page.line("");
                page.table(&cases(failed));
                page.line("");
            }
            self.reasons().iter().for_each(|line| page.line(line));
        }
        let (ran, passed) = self.counts();
        let tone = match self.passed() {
            true => Tone::Good,
            false => Tone::Bad,
        };
        let device = self.device;
        page.toned(
            tone,
            format_args!("{passed} of {ran} cases within the budget on {device}"),
        );
        if !self.without_cases.is_empty() {
            let kernels = self.without_cases.join(", ");
            page.line(format_args!("not verified here: {kernels}"));
        }
        page
    }

    fn summary(&self) -> Table<6> {
        let mut kernels: BTreeMap<&str, Tally> = BTreeMap::new();
        for row in &self.rows {
            kernels.entry(row.kernel).or_default().add(&row.outcome);
        }
        let heading = [
            "kernel",
            "cases",
            "passed",
            "failed",
            "not run",
            "worst error / budget",
        ];
        let mut table = Table::new(heading);
        for (kernel, tally) in kernels {
            table.row(tally.cells(kernel));
        }
        table
    }

    /// Returns the reasons why cases were not run, with the number of cases of each.
    fn reasons(&self) -> Vec<String> {
        let mut reasons: BTreeMap<(Reason, bool), usize> = BTreeMap::new();
        for row in &self.rows {
            if let Outcome::Unavailable { reason } = row.outcome {
                *reasons.entry((reason, self.lacks_f64(row))).or_default() += 1;
            }
        }
        let reasons = reasons.into_iter();
        reasons
            .map(|((reason, in_f64), count)| match in_f64 {
                true => format!("{count} in f64 not run: {F64}"),
                false => format!("{count} not run: {reason}"),
            })
            .collect()
    }

    /// Returns `true` if a case was not run because this build has no kernels in f64 for the CPU.
    fn lacks_f64(&self, row: &VerifyRow) -> bool {
        let reason = Reason::Dtype;
        self.device == DeviceKind::Cpu
            && row.dtype == FloatType::F64
            && matches!(row.outcome, Outcome::Unavailable { reason: found } if found == reason)
    }
}

impl VerifyRow {
    fn has_failed(&self) -> bool {
        matches!(self.outcome, Outcome::Failed { .. })
    }
}

fn cases<'a>(rows: impl Iterator<Item = &'a VerifyRow>) -> Table<5> {
    let mut table = Table::new(["kernel", "semantics", "dtype", "shape", "outcome"]);
    for row in rows {
        let tone = match row.outcome {
            Outcome::Passed { .. } => Tone::Good,
            Outcome::Failed { .. } => Tone::Bad,
            Outcome::Unavailable { .. } => Tone::Caution,
        };
        table.row([
            row.kernel.into(),
            as_written(&row.key).into(),
            row.dtype.name().into(),
            row.shape.as_str().into(),
            Cell::new(tone, &row.outcome),
        ]);
    }
    table
}

impl fmt::Display for VerifyReport {
    /// Writes a summary by kernel and the cases that failed, in tables of at most 100 columns. `{:#}` writes each case
    /// on one line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match f.alternate() {
            true => self.page(Look::WIDE, true).fmt(f),
            false => self.page(Look::PLAIN, false).fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(kernel: &'static str, outcome: Outcome) -> VerifyRow {
        VerifyRow {
            kernel,
            key: "rms_norm(offset=0)".to_owned(),
            dtype: FloatType::F32,
            shape: "[1, 1, 5, 64]".to_owned(),
            outcome,
        }
    }

    fn report(failed: bool) -> VerifyReport {
        let missed = Outcome::Failed {
            result: "d_x",
            element: 7,
            got: 1.0,
            expected: 2.0,
            allowed: 0.5,
        };
        let reason = Reason::Dtype;
        let rows = [
            row("a_norm", Outcome::Passed { worst: 0.25 }),
            row("a_norm", Outcome::Passed { worst: 0.5 }),
            row("b_norm", Outcome::Unavailable { reason }),
        ];
        VerifyReport {
            device: DeviceKind::Cpu,
            rows: rows
                .into_iter()
                .chain(failed.then(|| row("b_norm", missed)))
                .collect(),
            without_cases: Vec::new(),
        }
    }

    /// Returns the cells of the line that starts with `start`.
    fn line(text: &str, start: &str) -> Vec<String> {
        let line = text.lines().find(|line| line.starts_with(start));
        let cells = line.unwrap_or_else(|| panic!("{text}")).split("  ");
        let cells = cells.map(str::trim).filter(|cell| !cell.is_empty());
        cells.map(str::to_owned).collect()
    }

    #[test]
    fn a_summary_counts_by_kernel_and_shows_what_failed_in_full() {
        let text = report(true).to_string();
        assert_eq!(
            line(&text, "a_norm"),
            ["a_norm", "2", "2", "0", "0", "50 %"]
        );
        let b_norm = ["b_norm", "1", "0", "1", "1", "over 100 %"];
        assert_eq!(line(&text, "b_norm"), b_norm);
        assert!(
            text.contains("d_x[7]") && text.contains("2 of 3 cases"),
            "{text}"
        );
        assert!(
            text.contains("\n1 not run: the implementation does not take this dtype\n"),
            "{text}"
        );
        let text = report(false).to_string();
        assert!(!text.contains("d_x") && !text.contains("offset"), "{text}");
        assert_eq!(line(&text, "b_norm"), ["b_norm", "0", "0", "0", "1", "-"]);
    }

    #[test]
    fn cases_in_f64_without_kernels_are_told_apart() {
        let mut report = report(false);
        report.rows[2].dtype = FloatType::F64;
        let text = report.to_string();
        assert!(
            text.contains("\n1 in f64 not run: calls in f64 take the reference"),
            "{text}"
        );
        report.device = DeviceKind::Npu;
        let text = report.to_string();
        assert!(
            text.contains("\n1 not run: the implementation does not take this dtype"),
            "{text}"
        );
    }

    #[test]
    fn the_alternate_form_has_a_line_for_each_case() {
        let text = format!("{:#}", report(true));
        assert_eq!(text.matches("rms_norm(offset = 0)").count(), 4, "{text}");
        assert!(text.contains("ok, 25 % of the budget"), "{text}");
    }
}
