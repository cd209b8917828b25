//! Saved states of a run, from which it can go on: parameters, optimiser, place in data and schedule, metrics.
//!
//! ```text
//! resume/step-00000120/
//!     state.json            the step, the best validation so far, and the settings of the run
//!     points.jsonl          the points up to this step
//!     tensors.safetensors   the trained parameters and the state of their optimiser
//!     digests.json          the checksums of these files
//! ```
//!
//! Data, schedule and random numbers are functions of seed and step, so the step is all that is kept of them. A state
//! appears complete or not at all.

mod digests;
mod shared;

use super::batch::Batch;
use super::folder::{Kept, RunFolder};
use super::metrics::{self, Point};
use super::optimiser::{self, Optimiser};
use super::step::{Loss, Method, Pass};
use super::{identity, tensors};
use crate::output;
use anyhow::{Context, bail, ensure};
use burn::optim::GradientsParams;
use burn::tensor::Device;
use kernels_io::{Limit, Staging, clear_leftovers, escape_path, write_new};
use kernels_models::CausalLm;
use serde::{Deserialize, Serialize};
use serde_json::Value;
pub use shared::Shared;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// The version of these files.
const FORMAT: u32 = 1;
const STATE: &str = "state.json";
const POINTS: &str = "points.jsonl";
const TENSORS: &str = "tensors.safetensors";
const FILES: [&str; 3] = [STATE, POINTS, TENSORS];

/// The place of a run between two steps.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// The number of steps so far.
    pub step: usize,
    /// The step of the last validation, or 0.
    pub validated: usize,
    /// The validation with the lowest loss.
    pub best: Option<Best>,
    /// The number of validations since then.
    pub since_best: usize,
    /// Seconds of training so far.
    pub seconds: f64,
}

/// A validation.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Best {
    /// The number of steps before it.
    pub step: usize,
    /// The loss.
    pub loss: f64,
}

#[derive(Serialize, Deserialize)]
struct Stored {
    format: u32,
    progress: Progress,
    run: Value,
}

/// A model in training.
pub struct Trainee {
    /// The model.
    pub model: CausalLm,
    /// Its optimiser.
    pub optimiser: Optimiser,
}

impl Trainee {
    /// Takes a step on batches, with losses in `dtype`. Returns the trained model, the loss before the step, and the norm
    /// of its gradients. If one of both is not finite, the model is as it was.
    ///
    /// # Errors
    /// Returns an error if the device fails.
    pub fn step(
        self,
        batches: &[Batch],
        method: Method<'_>,
        rate: f64,
    ) -> anyhow::Result<(Self, Loss, f64)> {
        let all = batches.iter().map(Batch::counted).sum();
        let (mean, gradients) = Pass::new(&self.model, method).gradients(batches, all)?;
        let norm = optimiser::norm(&self.model, &gradients)?;
        let loss = mean.get();
        let trainee = match loss.value.is_finite() && norm.is_finite() {
            true => self.updated(rate, gradients, norm),
            false => self,
        };
        Ok((trainee, loss, norm))
    }

    /// Updates the model by gradients of this norm.
    pub fn updated(self, rate: f64, gradients: GradientsParams, norm: f64) -> Self {
        let Self {
            model,
            mut optimiser,
        } = self;
        let model = optimiser.step(rate, model, gradients, norm);
        Self { model, optimiser }
    }
}

/// The saved states of a run.
pub struct States {
    folder: PathBuf,
    /// The number of last states that are kept, beside the best.
    keep: usize,
    /// The settings of the run.
    run: Value,
    /// The files of these settings, without which no state is of use.
    kept: Kept,
}

impl States {
    /// Names the states of a run with these settings, whose files are `kept`.
    pub fn new(folder: &RunFolder, keep: usize, run: Value, kept: Kept) -> Self {
        Self {
            folder: folder.states(),
            keep,
            run,
            kept,
        }
    }

    /// Returns the states of a process that saves none.
    pub fn none() -> Self {
        Self {
            folder: PathBuf::new(),
            keep: 0,
            run: Value::Null,
            kept: Kept::default(),
        }
    }

    /// Makes sure that the run can go on from its states, though its folder was moved or removed.
    ///
    /// # Errors
    /// Returns an error if the files of its settings can't be written.
    pub fn settle(&self) -> anyhow::Result<()> {
        self.kept.write_missing()
    }

    /// Saves a state, and removes the oldest beyond the number that is kept. Returns its folder.
    ///
    /// # Errors
    /// Returns an error if the system or the device fails. Earlier states are then unchanged.
    pub fn save(
        &self,
        (model, optimiser): (&CausalLm, &Optimiser),
        progress: &Progress,
        points: &[Point],
    ) -> anyhow::Result<PathBuf> {
        self.settle()?;
        let target = self.path(Name::of(progress));
        if target.exists() {
            // It was saved before, by this run or by the one that it continues.
            return Ok(target);
        }
        let staging = Staging::beside(&target)?;
        let stored = Stored {
            format: FORMAT,
            progress: progress.clone(),
            run: self.run.clone(),
        };
        let text = serde_json::to_vec_pretty(&stored)?;
        write_new(&staging.path().join(STATE), &text)?;
        write_new(&staging.path().join(POINTS), &metrics::lines(points))?;
        let path = staging.path().join(TENSORS);
        tensors::write(&path, model, optimiser)?;
        digests::write(staging.path(), &FILES)?;
        staging.publish()?;
        self.remove_others(progress);
        Ok(target)
    }

    /// Returns the newest state, or `None` without one.
    ///
    /// # Errors
    /// Returns an error if it can't be read, has changed since it was written, or is of another configuration.
    pub fn newest(&self) -> anyhow::Result<Option<Saved>> {
        clear_leftovers(&self.folder);
        let newest = self.names().pop();
        newest.map(|name| self.open(name)).transpose()
    }

    /// Returns the state of the best validation, or `None` if it was not saved.
    ///
    /// # Errors
    /// Returns an error as [`newest`](Self::newest) does.
    #[cfg(feature = "text")]
    pub fn best(&self, progress: &Progress) -> anyhow::Result<Option<Saved>> {
        let name = progress.best.map(Name::of_best);
        let name = name.filter(|name| self.path(*name).exists());
        name.map(|name| self.open(name)).transpose()
    }

    fn open(&self, name: Name) -> anyhow::Result<Saved> {
        let folder = self.path(name);
        let shown = escape_path(&folder);
        let saved = Saved::open(folder.clone()).and_then(|saved| saved.checked(name));
        let saved = saved.with_context(|| unreadable(&folder))?;
        identity::check(&format!("the checkpoint {shown}"), &saved.run, &self.run)?;
        if let Some(remark) = identity::remark(&saved.run, &self.run) {
            output::note(remark);
        }
        Ok(saved)
    }

    /// Removes all states.
    pub fn clear(&self) {
        remove(&self.folder);
    }

    /// Returns the names of all states, in order.
    fn names(&self) -> Vec<Name> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| Name::parse(entry.file_name().to_str()?));
        let mut names: Vec<Name> = names.collect();
        names.sort_unstable();
        names
    }

    fn path(&self, name: Name) -> PathBuf {
        self.folder.join(name.to_string())
    }

    fn remove_others(&self, progress: &Progress) {
        let mut names = self.names();
        names.truncate(names.len().saturating_sub(self.keep));
        let best = progress.best.map(Name::of_best);
        for name in names.into_iter().filter(|name| Some(*name) != best) {
            remove(&self.path(name));
        }
    }
}

/// The name of a state: its step, and whether the validation after it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Name {
    step: usize,
    validated: bool,
}

impl Name {
    const PREFIX: &str = "step-";
    const VALIDATED: &str = "-validated";

    fn of(progress: &Progress) -> Self {
        Self {
            step: progress.step,
            validated: progress.step > 0 && progress.validated == progress.step,
        }
    }

    fn of_best(best: Best) -> Self {
        Self {
            step: best.step,
            validated: true,
        }
    }

    fn parse(name: &str) -> Option<Self> {
        let name = name.strip_prefix(Self::PREFIX)?;
        let number = name.strip_suffix(Self::VALIDATED);
        Some(Self {
            step: number.unwrap_or(name).parse().ok()?,
            validated: number.is_some(),
        })
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = if self.validated { Self::VALIDATED } else { "" };
        write!(f, "{}{:08}{end}", Self::PREFIX, self.step)
    }
}

/// A saved state.
pub struct Saved {
    folder: PathBuf,
    run: Value,
    /// The place of the run.
    pub progress: Progress,
    /// The points so far.
    pub points: Vec<Point>,
}

impl Saved {
    fn open(folder: PathBuf) -> anyhow::Result<Self> {
        digests::check(&folder, &FILES)?;
        const LIMIT: Limit = Limit::mib("a state", 64);
        const POINTS_LIMIT: Limit = Limit::mib("points of a run", 4096);
        let text = kernels_io::read_text(&folder.join(STATE), LIMIT)?;
        let stored: Stored = serde_json::from_str(&text).context(STATE)?;
        if stored.format != FORMAT {
            bail!(
                "{STATE} has the format {}, and this program reads {FORMAT}",
                stored.format
            );
        }
        let text = kernels_io::read_text(&folder.join(POINTS), POINTS_LIMIT)?;
        Ok(Self {
            points: metrics::parse(&text).context(POINTS)?,
            folder,
            run: stored.run,
            progress: stored.progress,
        })
    }

    /// Checks that the places in its files are those of a state with this name.
    fn checked(self, name: Name) -> anyhow::Result<Self> {
        let Progress {
            step,
            validated,
            since_best,
            ..
        } = self.progress;
        let last = self.points.last().map_or(0, |point| point.step);
        ensure!(
            Name::of(&self.progress) == name && last == step,
            "{STATE} says step {step}, {POINTS} ends with step {last}, and the folder's name is that of step {}",
            name.step
        );
        let best = self.progress.best.map_or(0, |best| best.step);
        ensure!(
            validated.max(since_best).max(best) <= step,
            "{STATE} has a validation after its step, {step}"
        );
        Ok(self)
    }

    /// Replaces the trained parameters and their optimiser's state by the saved ones.
    ///
    /// # Errors
    /// Returns an error if the file can't be read, or is not of this model.
    pub fn restore(&self, trainee: Trainee, device: &Device) -> anyhow::Result<Trainee> {
        let Trainee {
            model,
            mut optimiser,
        } = trainee;
        let path = self.folder.join(TENSORS);
        let model = tensors::read(&path, model, &mut optimiser, device);
        let model = model.with_context(|| unreadable(&self.folder))?;
        Ok(Trainee { model, optimiser })
    }
}

/// Returns what to do about a state that can't be read.
fn unreadable(folder: &Path) -> String {
    let shown = escape_path(folder);
    format!(
        "the checkpoint {shown} can't be read; remove it to go on from the one before, or from the beginning"
    )
}

/// Removes a folder if it exists. It first gets the name of an unfinished one, so that no part of it is taken for a
/// whole state. A failure is reported, because the folder takes room on the disk.
pub(super) fn remove(folder: &Path) {
    if !folder.exists() {
        return;
    }
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let aside = format!(".{name}.{}.removed.partial", std::process::id());
    let aside = folder.with_file_name(aside);
    let removed = fs::rename(folder, &aside).and_then(|()| fs::remove_dir_all(&aside));
    if let Err(error) = removed {
        let shown = escape_path(folder);
        output::note(format_args!("warning: cannot remove {shown}: {error}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_sort_by_time() {
        let before = Progress {
            step: 120,
            validated: 60,
            ..Progress::default()
        };
        let after = Progress {
            validated: 120,
            ..before.clone()
        };
        let (before, after) = (Name::of(&before), Name::of(&after));
        assert_eq!(before.to_string(), "step-00000120");
        assert_eq!(after.to_string(), "step-00000120-validated");
        assert!(before < after);
        assert!(after < Name::parse("step-00000121").unwrap());
        for name in [before, after] {
            assert_eq!(Name::parse(&name.to_string()), Some(name));
        }
        for name in ["step-", "step-x", ".step-00000120.1.a.partial", "other"] {
            assert_eq!(Name::parse(name), None, "{name}");
        }
        assert!(!Name::of(&Progress::default()).validated);
    }
}
