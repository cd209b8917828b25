//! The run folder, with all results of a run.
//!
//! ```text
//! train.json      the settings, enough to repeat the run
//! metrics.jsonl   a line for each training step and each validation
//! checkpoint/     config.json and model.safetensors, in Hugging Face layout
//! loss.svg        both losses over steps
//! sample.txt      generated text
//! summary.json    the results and the dispatch report
//! ```
//!
//! `metrics.jsonl` grows during the run. Everything else appears complete or not at all.

use super::data::Splits;
use super::preset::Preset;
use super::settings::Settings;
use super::summary::Summary;
use crate::output;
use anyhow::{Context, ensure};
use burn::data::dataset::Dataset;
use kernels_io::{clear_leftovers, escape_path};
use kernels_models::{CausalLm, ModelConfig};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// The file of the results, inside the run folder.
pub const SUMMARY: &str = "summary.json";

/// The folder of one run.
pub struct RunFolder(PathBuf);

impl RunFolder {
    /// Creates `path`, or `runs/<preset>-<time>` without one.
    ///
    /// # Errors
    /// Returns an error if the folder is not empty, is not a folder, or can't be created.
    pub fn create(path: Option<&Path>, preset: Preset) -> anyhow::Result<Self> {
        let path = path.map_or_else(|| default_path(preset), Path::to_owned);
        let name = escape_path(&path);
        fs::create_dir_all(&path).with_context(|| format!("cannot create the folder {name}"))?;
        // The unfinished checkpoint of a killed run would make the folder non-empty.
        clear_leftovers(&path);
        let mut entries =
            fs::read_dir(&path).with_context(|| format!("cannot read the folder {name}"))?;
        ensure!(
            entries.next().is_none(),
            "the folder {name} is not empty; a run never overwrites, choose another --out"
        );
        Ok(Self(path))
    }

    /// Returns the path of the folder.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Returns the path of the metrics.
    pub fn metrics(&self) -> PathBuf {
        self.0.join("metrics.jsonl")
    }

    /// Returns the path of the checkpoint.
    pub fn checkpoint(&self) -> PathBuf {
        self.0.join("checkpoint")
    }

    /// Writes `train.json`.
    pub fn write_settings(&self, settings: &Settings, splits: &Splits) -> anyhow::Result<()> {
        let model: Value = serde_json::from_str(&settings.model.to_json())?;
        let json = json!({
            "program": concat!("kernels ", env!("CARGO_PKG_VERSION")),
            "settings": settings,
            "model": model,
            "corpus": splits.corpus,
            "training_sequences": splits.train.len(),
            "validation_sequences": splits.valid.len(),
        });
        output::write_json(&self.0.join("train.json"), &json)
    }

    /// Writes `checkpoint/`.
    pub fn write_checkpoint(&self, model: &CausalLm, config: &ModelConfig) -> anyhow::Result<()> {
        Ok(kernels_models::save(
            model,
            config,
            &self.checkpoint(),
            None,
        )?)
    }

    /// Writes `loss.svg`.
    pub fn write_plot(&self, svg: &str) -> anyhow::Result<()> {
        output::write_file(&self.0.join("loss.svg"), svg.as_bytes())
    }

    /// Writes `sample.txt`.
    pub fn write_sample(&self, text: &str) -> anyhow::Result<()> {
        output::write_file(&self.0.join("sample.txt"), text.as_bytes())
    }

    /// Writes `summary.json`.
    pub fn write_summary(&self, summary: &Summary) -> anyhow::Result<()> {
        output::write_json(&self.0.join(SUMMARY), summary)
    }
}

fn default_path(preset: Preset) -> PathBuf {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let seconds = now.map_or(0, |since| since.as_secs());
    Path::new("runs").join(format!("{preset}-{}", timestamp(seconds)))
}

/// Formats seconds since 1970 as `YYYYMMDD-HHMMSS` in UTC, which sorts by time.
fn timestamp(seconds: u64) -> String {
    let (year, month, day) = date(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year:04}{month:02}{day:02}-{hour:02}{minute:02}{second:02}")
}

/// Returns the Gregorian date of a day since 1970. It counts years from March, so that the leap day is the last of a
/// year.
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468; // from 1 March of year 0
    let era = days / 146_097; // 400 years
    let day_of_era = days % 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12 + 1;
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_run_was_writing_is_not_in_the_way() {
        let folder = tempfile::tempdir().unwrap();
        let left = folder.path().join(".checkpoint.4711.aB3xYz.partial");
        fs::create_dir(&left).unwrap();
        fs::write(left.join("model.safetensors"), "half").unwrap();
        fs::write(folder.path().join(".loss.svg.4711.aB3xYz.partial"), "half").unwrap();
        RunFolder::create(Some(folder.path()), Preset::Qwen3).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        // Finished checkpoints stay.
        fs::write(folder.path().join("train.json"), "{}").unwrap();
        assert!(RunFolder::create(Some(folder.path()), Preset::Qwen3).is_err());
    }

    #[test]
    fn timestamps_are_calendar_dates() {
        assert_eq!(timestamp(0), "19700101-000000");
        assert_eq!(timestamp(951_782_400), "20000229-000000");
        assert_eq!(timestamp(1_709_251_199), "20240229-235959");
        assert_eq!(timestamp(1_767_225_599), "20251231-235959");
    }
}
