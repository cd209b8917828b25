//! The reference's log-probabilities of all answers, computed before training.

use super::Args;
use super::data::Batches;
use crate::output;
use crate::training::folder::RunFolder;
use crate::training::preference::Preference;
use anyhow::{Context, bail, ensure};
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

/// Log-probabilities of answers in order, with their origin.
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

/// The data and the weights that log-probabilities are computed from.
#[derive(Clone, Copy)]
pub struct Origin<'a> {
    /// The checksum of the data.
    pub data: &'a str,
    /// The checksum of the weights of the reference. `None` where a run that goes on does without them.
    pub reference: Option<&'a str>,
}

impl Origin<'_> {
    /// Reads the log-probabilities of a file, if it is there.
    fn read(self, path: &Path, count: usize) -> anyhow::Result<Option<Vec<f64>>> {
        if !is_there(path) {
            return Ok(None);
        }
        let text = kernels_io::read_text(path, LIMIT)?;
        let known: Precomputed = serde_json::from_str(&text).with_context(|| {
            format!(
                "{} has no log-probabilities of a reference; remove it to compute it again",
                escape_path(path)
            )
        })?;
        let both = known.reference.as_deref().zip(self.reference);
        for (what, is_same) in [
            ("data", known.fingerprint == self.data),
            ("data", known.log_probs.len() <= count),
            ("weights", both.is_none_or(|(known, own)| known == own)),
        ] {
            ensure!(
                is_same,
                "{} belongs to other {what}; remove it to compute it again",
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
/// Returns an error if the device fails, if a file can't be read or written, or if a log-probability is not finite.
pub fn precompute(
    preference: &mut Preference,
    batches: &mut Batches,
    (folder, origin): (&RunFolder, Origin<'_>),
) -> anyhow::Result<()> {
    let (reference, count) = (preference.reference.take(), batches.answers());
    let all = folder.path().join(ALL);
    if let Some(known) = origin.read(&all, count)? {
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
    let mut log_probs = origin.read(&part, count)?.unwrap_or_default();
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
        log_probs.extend(finite(preference.sums(&reference, &batch)?)?);
        if saved.elapsed() >= SAVE_EVERY {
            origin.write(folder, PART, &log_probs)?;
            saved = Instant::now();
        }
    }
    batches.refer_to(&log_probs);
    origin.write(folder, ALL, &log_probs)?;
    match std::fs::remove_file(&part) {
        Err(error) if part.exists() => {
            Err(error).with_context(|| format!("cannot remove {}", escape_path(&part)))
        }
        _ => Ok(()),
    }
}

/// Refuses infinity and NaN, with which no loss can compare, and which JSON does not have.
fn finite(sums: Vec<f64>) -> anyhow::Result<Vec<f64>> {
    let wrong = sums.iter().copied().find(|sum| !sum.is_finite());
    match wrong {
        None => Ok(sums),
        Some(sum) => bail!(
            "the log-probability of an answer by the reference is {sum}, and not a finite number; check its weights, \
             or compute with --dtype f32"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_something_else_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(PART);
        let origin = Origin {
            data: "a",
            reference: Some("b"),
        };
        assert!(origin.read(&path, 2).unwrap().is_none());
        let right = r#"{"fingerprint":"a","reference":"b","log_probs":[-1.0,-2.0]}"#;
        for (text, expected) in [
            (right.to_owned(), None),
            (right.replace("\"a\"", "\"c\""), Some("other data")),
            (right.replace("-1.0", "-1.0,-3.0"), Some("other data")),
            (right.replace("\"b\"", "\"c\""), Some("other weights")),
            (
                right[..40].to_owned(),
                Some("remove it to compute it again"),
            ),
            (
                right.replace("-1.0", "null"),
                Some("remove it to compute it again"),
            ),
        ] {
            std::fs::write(&path, &text).unwrap();
            match (origin.read(&path, 2), expected) {
                (Ok(found), None) => assert_eq!(found, Some(vec![-1.0, -2.0])),
                (Err(error), Some(expected)) => {
                    let said = format!("{error:#}");
                    assert!(said.contains(expected), "{text}: {said}");
                }
                (found, _) => panic!("{text}: {found:?}"),
            }
        }
    }

    #[test]
    fn infinite_log_probabilities_are_refused() {
        assert_eq!(finite(vec![-1.0, 0.0]).unwrap(), [-1.0, 0.0]);
        for wrong in [f64::NAN, f64::NEG_INFINITY] {
            assert!(finite(vec![-1.0, wrong]).is_err());
        }
    }
}
