//! The reference's log-probabilities of all answers, computed before training.

use super::Args;
use super::data::Batches;
use crate::output;
use crate::training::folder::RunFolder;
use crate::training::preference::Preference;
use anyhow::{Context, ensure};
use kernels_io::{Limit, escape_path, is_there};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::time::{Duration, Instant};

/// The file of all log-probabilities, inside the run folder.
const ALL: &str = "reference.json";

/// The file of the first log-probabilities, while others are computed.
const PART: &str = "reference.part.json";

/// The time between two writes of [`PART`].
const SAVE_EVERY: Duration = Duration::from_secs(60);

const LIMIT: Limit = Limit::mib("log-probabilities of a reference", 1024);

/// Log-probabilities of answers in order, and the checksums of their data and weights.
#[derive(Serialize, Deserialize)]
struct Precomputed {
    /// The checksum of the data.
    fingerprint: String,
    /// The checksum of the weights of the reference.
    #[serde(default)]
    reference: Option<String>,
    log_probs: Vec<f64>,
}

/// Returns `true` if a run that goes on has the reference's log-probabilities in its folder.
pub fn is_precomputed(args: &Args) -> bool {
    let run = args.resume.as_ref();
    let run = run.filter(|_| args.loss.precompute_reference);
    run.is_some_and(|run| is_there(&run.join(ALL)))
}

/// The checksums that tell log-probabilities apart.
#[derive(Clone, Copy)]
pub struct Of<'a> {
    /// The checksum of the data.
    pub data: &'a str,
    /// The checksum of the weights of the reference. `None` if a run goes on without them.
    pub reference: Option<&'a str>,
}

impl Of<'_> {
    /// Reads the log-probabilities of a file, if it is there.
    fn read(self, path: &Path, count: usize) -> anyhow::Result<Option<Vec<f64>>> {
        if !is_there(path) {
            return Ok(None);
        }
        let text = kernels_io::read_text(path, LIMIT)?;
        let known: Precomputed = serde_json::from_str(&text).with_context(|| escape_path(path))?;
        let both = known.reference.as_deref().zip(self.reference);
        for (what, is_same) in [
            ("data", known.fingerprint == self.data),
            ("data", known.log_probs.len() <= count),
            ("weights", both.is_none_or(|(known, own)| known == own)),
        ] {
            ensure!(
                is_same,
                "{} is of other {what}; remove it to compute it again",
                escape_path(path)
            );
        }
        Ok(Some(known.log_probs))
    }

    fn write(self, folder: &RunFolder, name: &str, log_probs: &[f64]) -> anyhow::Result<()> {
        let all = Precomputed {
            fingerprint: self.data.to_owned(),
            reference: self.reference.map(str::to_owned),
            log_probs: log_probs.to_vec(),
        };
        folder.write_json(name, &all)
    }
}

/// Gives all answers their log-probabilities by the reference, and frees it. A run that goes on reads the file of its
/// folder.
///
/// # Errors
/// Returns an error if the device fails, or if a file can't be read or written.
pub fn precompute(
    preference: &mut Preference,
    batches: &mut Batches,
    (folder, of): (&RunFolder, Of<'_>),
) -> anyhow::Result<()> {
    let (reference, count) = (preference.reference.take(), batches.answers());
    let all = folder.path().join(ALL);
    if let Some(known) = of.read(&all, count)? {
        ensure!(
            known.len() == count,
            "{} has the log-probabilities of {} answers of {count}; remove it to compute it again",
            escape_path(&all),
            known.len()
        );
        batches.refer_to(&known);
        return Ok(());
    }
    let reference = reference.context("the reference model is missing")?;
    let part = folder.path().join(PART);
    let mut log_probs = of.read(&part, count)?.unwrap_or_default();
    output::note(format_args!(
        "the reference's log-probabilities of {} answers are computed before the first step",
        count - log_probs.len()
    ));
    let mut saved = Instant::now();
    for (numbers, batch) in batches.in_parts() {
        let (Some(first), Some(last)) = (numbers.first(), numbers.last()) else {
            continue;
        };
        if *last < log_probs.len() {
            continue;
        }
        log_probs.truncate(*first);
        log_probs.extend(preference.sums(&reference, &batch)?);
        if saved.elapsed() >= SAVE_EVERY {
            of.write(folder, PART, &log_probs)?;
            saved = Instant::now();
        }
    }
    batches.refer_to(&log_probs);
    of.write(folder, ALL, &log_probs)?;
    match std::fs::remove_file(&part) {
        Err(error) if part.exists() => {
            Err(error).with_context(|| format!("cannot remove {}", escape_path(&part)))
        }
        _ => Ok(()),
    }
}
