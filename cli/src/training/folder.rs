//! The folder of a run.

use super::ranks::Ranks;
use super::{identity, state};
use crate::output;
use anyhow::{Context, bail};
use kernels_io::{Limit, clear_leftovers, escape_path};
use serde_json::Value;
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// The file with the results. A run that has it is finished.
pub const SUMMARY: &str = "summary.json";

/// The file with the options of the command.
pub const CONFIG: &str = "config.toml";

const SETTINGS_LIMIT: Limit = Limit::mib("a file of settings", 64);

/// The folder of one run. No other process can have it open for writing at the same time.
pub struct RunFolder {
    path: PathBuf,
    /// Marks the folder as in use. File systems without locks have none.
    _lock: Option<File>,
}

impl RunFolder {
    /// Creates `path`, or `runs/<name>-<time>` without one. `settings` is the file of a run's settings.
    ///
    /// # Errors
    /// Returns an error if the folder is not empty, is not a folder, or can't be created.
    pub fn create(path: Option<&Path>, name: &str, settings: &str) -> anyhow::Result<Self> {
        let path = path.map_or_else(|| default_path(name), Path::to_owned);
        let shown = escape_path(&path);
        fs::create_dir_all(&path).with_context(|| format!("cannot create the folder {shown}"))?;
        let lock = lock(&path)?;
        // The unfinished checkpoint of a killed run would make the folder non-empty.
        clear_leftovers(&path);
        let mut entries =
            fs::read_dir(&path).with_context(|| format!("cannot read the folder {shown}"))?;
        if entries.next().is_some() {
            let has = |name: &str| path.join(name).is_file();
            let way = match (has(settings), has(CONFIG)) {
                (true, _) => format!(", or go on with that run by --resume {shown}"),
                (false, true) => {
                    format!(", or remove it: it has no {settings}, so its run can't be resumed")
                }
                (false, false) => String::new(),
            };
            bail!(
                "the folder {shown} is not empty; a run never overwrites, choose another --out{way}"
            );
        }
        Ok(Self { path, _lock: lock })
    }

    /// Opens the folder of a run that did not finish. `settings` is the file of its settings. Removes the states of a run
    /// that was killed between its results and their removal.
    ///
    /// # Errors
    /// Returns an error if the folder has no run, if the run is finished, or if another process works on it.
    pub fn reopen(path: &Path, settings: &str) -> anyhow::Result<Self> {
        let shown = escape_path(path);
        if !path.join(settings).is_file() {
            // Only the beginning of a run is nothing to keep.
            let way = match (path.exists(), path.join(CONFIG).is_file()) {
                (true, true) => format!("remove it, and begin a run with --out {shown}"),
                (true, false) => "name the folder of a run, which --out made".to_owned(),
                (false, _) => format!("begin one with --out {shown}"),
            };
            bail!("the folder {shown} has no {settings}, so no run can be resumed from it; {way}");
        }
        let folder = Self {
            path: path.to_owned(),
            _lock: lock(path)?,
        };
        clear_leftovers(path);
        if path.join(SUMMARY).exists() {
            state::remove(&folder.states());
            bail!(
                "the run in {shown} is finished: {SUMMARY} has its results; {}",
                further(path)
            );
        }
        Ok(folder)
    }

    /// Opens the folder of a run to go on with, on the process that writes it.
    ///
    /// # Errors
    /// Returns an error as [`reopen`](Self::reopen) does.
    pub fn resumed(
        path: Option<&Path>,
        ranks: &Ranks,
        settings: &str,
    ) -> anyhow::Result<Option<Self>> {
        let path = path.filter(|_| ranks.leads());
        path.map(|path| Self::reopen(path, settings)).transpose()
    }

    /// Creates the folder of a new run with its options and its settings, or checks that a run to go on with has the same
    /// settings.
    ///
    /// # Errors
    /// Returns an error if the folder or a file can't be written, or if the settings differ.
    pub fn of_run(
        resumed: Option<Self>,
        (path, name): (Option<&Path>, &str),
        (file, settings): (&str, &Value),
        options: &impl serde::Serialize,
    ) -> anyhow::Result<Self> {
        if let Some(folder) = resumed {
            let what = format!("the run in {}", escape_path(folder.path()));
            identity::check(&what, &folder.read_json(file)?, settings)?;
            return Ok(folder);
        }
        let folder = Self::create(path, name, file)?;
        folder.write(CONFIG, toml::to_string(options)?)?;
        // The last file: a folder without it can't be resumed.
        folder.write_json(file, settings)?;
        Ok(folder)
    }

    /// Returns the path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path of the metrics.
    pub fn metrics(&self) -> PathBuf {
        self.path.join("metrics.jsonl")
    }

    /// Returns the path of the model.
    pub fn checkpoint(&self) -> PathBuf {
        self.path.join("checkpoint")
    }

    /// Returns the folder of the states to go on from.
    pub fn states(&self) -> PathBuf {
        self.path.join("resume")
    }

    /// Reads a JSON file.
    ///
    /// # Errors
    /// Returns an error if the file can't be read or holds no JSON.
    pub fn read_json(&self, name: &str) -> anyhow::Result<Value> {
        let path = self.path.join(name);
        let text = kernels_io::read_text(&path, SETTINGS_LIMIT)?;
        serde_json::from_str(&text).with_context(|| {
            let (file, folder) = (escape_path(&path), escape_path(&self.path));
            format!("{file} is not whole, so the run can't go on; remove the folder {folder} and begin it again")
        })
    }

    /// Reads the files that a run needs to go on. `settings` is the file of its settings.
    ///
    /// # Errors
    /// Returns an error if one can't be read.
    pub fn kept(&self, settings: &'static str) -> anyhow::Result<Kept> {
        let mut files = Vec::new();
        for name in [CONFIG, settings] {
            let path = self.path.join(name);
            if path.exists() {
                files.push((path.clone(), kernels_io::read(&path, SETTINGS_LIMIT)?));
            }
        }
        Ok(Kept(files))
    }

    /// Writes a file with text or bytes.
    ///
    /// # Errors
    /// Returns an error that names the file if it can't be written.
    pub fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> anyhow::Result<()> {
        output::write_file(&self.path.join(name), bytes.as_ref())
    }

    /// Writes a value as JSON.
    ///
    /// # Errors
    /// Returns an error that names the file if it can't be written.
    pub fn write_json(&self, name: &str, value: &impl serde::Serialize) -> anyhow::Result<()> {
        output::write_json(&self.path.join(name), value)
    }
}

/// The files that a run needs to go on, with their contents.
#[derive(Default)]
pub struct Kept(Vec<(PathBuf, Vec<u8>)>);

impl Kept {
    /// Writes missing files again, after the folder was moved or removed.
    ///
    /// # Errors
    /// Returns an error that names the first that can't be written.
    pub fn write_missing(&self) -> anyhow::Result<()> {
        for (path, bytes) in self.0.iter().filter(|(path, _)| !path.exists()) {
            let shown = escape_path(path);
            if let Some(folder) = path.parent() {
                fs::create_dir_all(folder).with_context(|| format!("cannot write {shown}"))?;
            }
            output::write_file(path, bytes)?;
            output::note(format_args!(
                "warning: {shown} was moved or removed, and is written again, with the run's next state beside it"
            ));
        }
        Ok(())
    }
}

/// Returns how to train further than a finished run.
fn further(path: &Path) -> String {
    let (adapter, checkpoint) = (path.join("adapter"), path.join("checkpoint"));
    let tuned = checkpoint.join("tokenizer.json").exists();
    if adapter.exists() {
        let shown = escape_path(&adapter);
        format!(
            "to train its adapters on, begin a run of its own with the same --model and --adapter {shown}"
        )
    } else if tuned {
        let shown = escape_path(&checkpoint);
        format!("to train its model on, begin a run of its own with --model {shown}")
    } else {
        let file = escape_path(&path.join(CONFIG));
        format!("to train longer, begin a run of its own with --config {file} and more --steps")
    }
}

fn lock(path: &Path) -> anyhow::Result<Option<File>> {
    // Some systems can't open folders, and some file systems have no locks. A run needs neither.
    let Ok(folder) = File::open(path) else {
        return Ok(None);
    };
    match folder.try_lock() {
        Ok(()) => Ok(Some(folder)),
        Err(TryLockError::WouldBlock) => bail!(
            "another process trains in the folder {}; wait until it ends",
            escape_path(path)
        ),
        Err(TryLockError::Error(_)) => Ok(None),
    }
}

fn default_path(name: &str) -> PathBuf {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let seconds = now.map_or(0, |since| since.as_secs());
    Path::new("runs").join(format!("{name}-{}", timestamp(seconds)))
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
        let create = || RunFolder::create(Some(folder.path()), "qwen3", "train.json");
        drop(create().unwrap());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        // Of a run that was killed before it began, it is said what to do.
        fs::write(folder.path().join(CONFIG), "").unwrap();
        let said = |result: anyhow::Result<RunFolder>| result.err().unwrap().to_string();
        let shown = said(create());
        assert!(shown.contains("remove it: it has no train.json"), "{shown}");
        let shown = said(RunFolder::reopen(folder.path(), "train.json"));
        assert!(
            shown.contains("remove it, and begin a run with --out"),
            "{shown}"
        );
        // Finished checkpoints stay.
        fs::write(folder.path().join("train.json"), "{}").unwrap();
        let shown = said(create());
        assert!(shown.contains("--resume"), "{shown}");
    }

    #[test]
    fn a_folder_has_one_run_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let run = RunFolder::create(Some(folder.path()), "qwen3", "train.json").unwrap();
        run.write_json("train.json", &1).unwrap();
        let again = |settings| RunFolder::reopen(folder.path(), settings).err();
        let said = again("train.json").unwrap().to_string();
        assert!(said.contains("another process"), "{said}");
        drop(run);
        assert!(again("train.json").is_none());
        let said = again("finetune.json").unwrap().to_string();
        assert!(said.contains("no finetune.json"), "{said}");
        fs::write(folder.path().join(SUMMARY), "{}").unwrap();
        let said = again("train.json").unwrap().to_string();
        assert!(
            said.contains("is finished") && said.contains("more --steps"),
            "{said}"
        );
        fs::create_dir(folder.path().join("adapter")).unwrap();
        let said = again("train.json").unwrap().to_string();
        assert!(said.contains("--adapter"), "{said}");
    }

    #[test]
    fn a_run_that_lost_its_folder_can_go_on() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("run");
        let run = RunFolder::create(Some(&path), "qwen3", "train.json").unwrap();
        run.write(CONFIG, "steps = 3").unwrap();
        run.write("train.json", "{}").unwrap();
        let kept = run.kept("train.json").unwrap();
        fs::rename(&path, place.path().join("moved")).unwrap();
        kept.write_missing().unwrap();
        assert_eq!(fs::read_to_string(path.join(CONFIG)).unwrap(), "steps = 3");
        assert!(RunFolder::reopen(&path, "train.json").is_ok());
    }

    #[test]
    fn settings_that_are_cut_off_say_what_to_remove() {
        let folder = tempfile::tempdir().unwrap();
        let run = RunFolder::create(Some(folder.path()), "qwen3", "train.json").unwrap();
        run.write("train.json", "{\"settings\": {").unwrap();
        let said = run.read_json("train.json").unwrap_err().to_string();
        assert!(
            said.contains("train.json is not whole") && said.contains("remove the folder"),
            "{said}"
        );
    }

    #[test]
    fn timestamps_are_calendar_dates() {
        assert_eq!(timestamp(0), "19700101-000000");
        assert_eq!(timestamp(951_782_400), "20000229-000000");
        assert_eq!(timestamp(1_709_251_199), "20240229-235959");
        assert_eq!(timestamp(1_767_225_599), "20251231-235959");
    }
}
