//! The report of what was measured and chosen.

use super::choice::{Choice, Size, is_clearly_less};
use super::class::{Class, Progress, TURNS};
use super::file::{Decided, File, Subject, TuneError};
use super::table;
use crate::device::Machine;
use crate::mode::Mode;
use kernels_io::{Cell, Fit, Look, Page, Table, Tone};
use serde::Serialize;
use std::fmt;
use std::path::Path;
use std::time::Duration;

/// The classes of calls that policies with `tune` have seen, taken by [`report`].
#[derive(Clone, Debug, Serialize)]
pub struct TuneReport {
    /// One row per class, sorted by site, mode, dtype and sizes.
    pub rows: Vec<TuneRow>,
}

/// A class of calls: those of a site with one implementation, device, dtype, mode, and tensors of similar sizes.
#[derive(Clone, Debug, Serialize)]
pub struct TuneRow {
    /// The site's full name.
    pub site: String,
    /// The kernel that can run.
    pub kernel: String,
    /// The implementation that can run.
    pub implementation: String,
    /// The device that the calls run on.
    pub device: Machine,
    /// The dtype of the tensors.
    pub dtype: String,
    /// The mode: training with autodiff, inference without.
    pub mode: Mode,
    /// The sizes of the tensors: the product of all axes but the last, rounded up to a power of two, and the last axis.
    pub tensors: Vec<String>,
    /// The shortest time of the kernel, forward and, with autodiff, backward, in milliseconds.
    pub kernel_ms: Option<f64>,
    /// The shortest time of the reference, in milliseconds.
    pub reference_ms: Option<f64>,
    /// The choice. Without one, the kernel runs: more calls are measured, or the class can't be.
    pub choice: Option<Choice>,
    /// True if the choice is that of a file.
    pub from_file: bool,
    /// The number of calls that were measured in this process.
    pub measured: usize,
    /// The reason why the kernel runs without a measurement.
    pub kept: Option<String>,
    /// The implementation that runs in place of this one, because it was measured to be faster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instead: Option<String>,
    #[serde(skip)]
    known: Known,
}

/// The part of a row that a file and the table hold.
#[derive(Clone, Debug)]
struct Known {
    subject: Subject,
    purpose: &'static str,
    decided: Option<Decided>,
}

/// Returns the classes that calls of all threads have had since the start of the process or the last [`reset`].
pub fn report() -> TuneReport {
    let mut classes = table::classes();
    classes.sort_by_cached_key(|class| {
        let Subject {
            site,
            mode,
            dtype,
            tensors,
            ..
        } = &class.subject;
        (
            site.clone(),
            mode.to_string(),
            dtype.clone(),
            tensors.clone(),
        )
    });
    let mut rows: Vec<TuneRow> = classes.into_iter().map(TuneRow::of).collect();
    let fastest: Vec<Option<String>> = rows.iter().map(|row| row.faster_among(&rows)).collect();
    for (row, fastest) in rows.iter_mut().zip(fastest) {
        row.instead = fastest;
    }
    TuneReport { rows }
}

/// Forgets all classes. Later calls are measured anew, or take the choices of the policy's file.
pub fn reset() {
    table::clear();
}

impl TuneReport {
    /// Returns the number of classes that more calls are measured for.
    pub fn open(&self) -> usize {
        let rows = self.rows.iter();
        rows.filter(|row| row.is_open()).count()
    }

    /// Returns the choices as TOML, for a policy with `tune:FILE`. Classes without one are left out. Of a class that one
    /// policy measured and another has from a file, the measured choice is written.
    pub fn to_toml(&self) -> String {
        let of = |from_file: bool| {
            let rows = self.rows.iter();
            rows.filter(move |row| row.from_file == from_file)
                .filter_map(|row| {
                    let Known {
                        subject, decided, ..
                    } = &row.known;
                    Some((&row.device, subject, (*decided)?))
                })
        };
        File::of(of(false).chain(of(true))).to_toml()
    }

    /// Writes [`TuneReport::to_toml`] to a file, which is written completely or not at all.
    ///
    /// # Errors
    /// Returns an error that names the file if it can't be written.
    pub fn write(&self, path: impl AsRef<Path>) -> Result<(), TuneError> {
        kernels_io::write_whole(path.as_ref(), self.to_toml().as_bytes())
            .map_err(|error| TuneError::Unwritable(error.to_string()))
    }

    /// Returns the report as JSON, an object with `rows`.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("text and numbers are JSON")
    }

    /// Returns the report laid out for `look`.
    #[doc(hidden)]
    pub fn page(&self, look: Look) -> Page {
        let mut page = Page::new(look);
        if self.rows.is_empty() {
            page.line("no call was measured for `tune`");
            return page;
        }
        let heading = ["site", "call", "tensors", "kernel", "reference", "runs"];
        let mut table = Table::new(heading).fit([
            Fit::Item,
            Fit::Wrap,
            Fit::Wrap,
            Fit::Wrap,
            Fit::Wrap,
            Fit::Wrap,
        ]);
        for row in &self.rows {
            let time =
                |time: Option<f64>| time.map_or_else(String::new, |ms| format!("{ms:.3} ms"));
            table.row([
                row.site.as_str().into(),
                format!("{} {} {}", row.device.kind, row.dtype, row.known.purpose).into(),
                row.tensors.join(" ").into(),
                time(row.kernel_ms).into(),
                time(row.reference_ms).into(),
                Cell::new(row.tone(), row.runs()),
            ]);
        }
        page.table(&table);
        page
    }
}

impl fmt::Display for TuneReport {
    /// Writes a table of at most 100 columns. `{:#}` writes each class on one line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let look = match f.alternate() {
            true => Look::WIDE,
            false => Look::PLAIN,
        };
        self.page(look).fmt(f)
    }
}

impl TuneRow {
    fn of(class: &'static Class) -> Self {
        let Class {
            machine, subject, ..
        } = class;
        let (measured, decided, from_file, kept) = match class.progress() {
            Progress::Open(taken, _) => (taken, None, false, None),
            Progress::Decided(decided, true) => (0, Some(decided), true, None),
            Progress::Decided(decided, false) => (TURNS, Some(decided), false, None),
            Progress::Kept(why) => (0, None, false, Some(why)),
        };
        let milliseconds = |time: Duration| time.as_secs_f64() * 1e3;
        Self {
            site: subject.site.clone(),
            kernel: subject.kernel.clone(),
            implementation: subject.implementation.clone(),
            device: machine.clone(),
            dtype: subject.dtype.clone(),
            mode: subject.mode,
            tensors: subject.tensors.iter().map(Size::to_string).collect(),
            kernel_ms: decided.map(|decided| milliseconds(decided.times.kernel)),
            reference_ms: decided.map(|decided| milliseconds(decided.times.reference)),
            choice: decided.map(|decided| decided.choice),
            from_file,
            measured,
            kept,
            instead: None,
            known: Known {
                subject: subject.clone(),
                purpose: class.purpose,
                decided,
            },
        }
    }

    /// Returns the fastest of the other implementations that were measured for the same calls, if it is faster than
    /// this one.
    fn faster_among(&self, rows: &[Self]) -> Option<String> {
        let time = |row: &Self| Some(row.known.decided?.times.kernel);
        let own = time(self)?;
        let rivals = rows.iter().filter(|row| self.is_rival(row));
        let timed = rivals.filter_map(|row| Some((time(row)?, &row.implementation)));
        let (shortest, name) = timed.min()?;
        is_clearly_less(shortest, own).then(|| name.clone())
    }

    /// Returns whether another row has the same calls with another implementation.
    fn is_rival(&self, other: &Self) -> bool {
        let of = |row: &Self| Subject {
            implementation: String::new(),
            ..row.known.subject.clone()
        };
        self.implementation != other.implementation
            && self.device == other.device
            && of(self) == of(other)
    }

    fn is_open(&self) -> bool {
        self.choice.is_none() && self.kept.is_none()
    }

    /// Returns how many times as fast the choice is as the other way.
    fn gain(&self) -> Option<f64> {
        // A file may hold times of 0.
        let [kernel, reference] = [self.kernel_ms?, self.reference_ms?].map(|ms| ms.max(1e-6));
        Some(match self.choice? {
            Choice::Kernel => reference / kernel,
            Choice::Reference => kernel / reference,
        })
    }

    /// Returns the choice in words.
    fn runs(&self) -> String {
        if let Some(why) = &self.kept {
            return format!("kernel, not measured: {why}");
        }
        let (Some(choice), Some(gain)) = (self.choice, self.gain()) else {
            return format!("kernel so far, {} of {TURNS} calls measured", self.measured);
        };
        if let Some(faster) = &self.instead {
            return format!("{faster} in place of {}", self.implementation);
        }
        let file = if self.from_file {
            ", from the file"
        } else {
            ""
        };
        format!("{choice}, {gain:.2} times as fast{file}")
    }

    fn tone(&self) -> Tone {
        match self.choice {
            Some(Choice::Kernel) => Tone::Good,
            Some(Choice::Reference) | None => Tone::Caution,
        }
    }
}
