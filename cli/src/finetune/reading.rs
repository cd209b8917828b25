//! The data of a run: read, encoded, and divided into those to train on and those to validate on.

use super::Args;
use super::answers;
use super::data::{self, Encoded, Encoder, Example, Group, Groups, Kind, Prompts};
use super::rollouts;
use crate::output;
use crate::training::progress::Display;
use crate::training::random::SplitMix64;
use anyhow::ensure;
use kernels_models::ModelConfig;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The data of a run, to train on and to validate on.
pub enum Data {
    /// Examples of texts, prompts and conversations.
    Tokens(Encoded, Vec<Example>),
    /// Answers that are compared or judged.
    Answers(Groups, Vec<Group>),
    /// Prompts that the model completes itself.
    Prompts(Prompts),
}

impl Data {
    /// Returns `true` if an example has pictures.
    pub fn has_pictures(&self) -> bool {
        let Self::Tokens(train, valid) = self else {
            return false;
        };
        let mut all = train.examples.iter().chain(valid);
        all.any(|example| !example.pictures.list.is_empty())
    }

    /// Returns `true` if all records have log-probabilities of a reference.
    ///
    /// # Errors
    /// Returns an error if only some have them.
    pub fn reference_is_known(&self) -> anyhow::Result<bool> {
        let Self::Answers(train, valid) = self else {
            return Ok(false);
        };
        let all = || train.groups.iter().chain(valid);
        let known = all().filter(|group| group.reference.is_some()).count();
        ensure!(
            known == 0 || known == all().count(),
            "{known} of {} records have the log-probabilities of a reference; give them in all or in none",
            all().count()
        );
        Ok(known > 0)
    }
}

/// Returns the data to train on and to validate on, and the encoder of the first ones.
///
/// # Errors
/// Returns an error that lists the problems of the records.
pub fn read(args: &Args, folder: &Path, config: &ModelConfig) -> anyhow::Result<(Data, Encoder)> {
    let kind = args.loss.kind();
    let read_from = |files: &[PathBuf], examples: &str| -> anyhow::Result<(Data, Encoder)> {
        let records = data::read(files, kind)?;
        let limits = (args.seq, args.all_tokens);
        let encoder = Encoder::open(folder, config.vocab_size, &records, limits)?
            .dated(args.date)
            .seeing(&records, (folder, config), args.loss.is_distillation())?;
        let mut display = Display::new(0, args.quiet);
        let began = Instant::now();
        let progress = |done| {
            if began.elapsed() >= SILENT {
                display.preparing(done, records.len());
            }
        };
        let data = match kind {
            None => {
                let encoded = encoder.encode(&records, progress)?;
                tell_lost(&encoded, args.seq, examples);
                Data::Tokens(encoded, Vec::new())
            }
            Some(Kind::Prompts) => {
                let room = args.loss.rollouts.max_new_tokens();
                let prompts = encoder.encode_prompts(&records, room, progress)?;
                data::check_alike(&prompts.rows)?;
                rollouts::tell_lost(&prompts, args.seq);
                Data::Prompts(prompts)
            }
            Some(kind) => {
                let groups = encoder.encode_answers(&records, kind, progress)?;
                answers::tell_lost(&groups, args.seq);
                Data::Answers(groups, Vec::new())
            }
        };
        Ok((data, encoder))
    };
    let (mut train, encoder) = read_from(&args.data, "examples")?;
    let given = match args.eval_data.is_empty() {
        false => Some(read_from(&args.eval_data, "examples of --eval-data")?.0),
        true => None,
    };
    match (&mut train, given) {
        (Data::Tokens(_, valid), Some(Data::Tokens(given, _))) => *valid = given.examples,
        (Data::Answers(_, valid), Some(Data::Answers(given, _))) => *valid = given.groups,
        (Data::Tokens(train, valid), _) => {
            *valid = hold_out(&mut train.examples, args.held_out, args.seed);
        }
        (Data::Answers(train, valid), _) => {
            *valid = hold_out(&mut train.groups, args.held_out, args.seed);
        }
        // Prompts are not held out, because their loss would not measure the model.
        (Data::Prompts(_), _) => {}
    }
    Ok((train, encoder))
}

/// The time before the preparation of records shows its progress.
const SILENT: Duration = Duration::from_secs(1);

/// Warns of examples that are cut off or left out because of the limit of their tokens.
fn tell_lost(encoded: &Encoded, seq: usize, examples: &str) {
    if encoded.cut > 0 {
        output::note(format_args!(
            "{} {examples} are longer than {seq} tokens, and their ends are cut off; a larger --seq keeps more",
            encoded.cut
        ));
    }
    if encoded.left_out > 0 {
        output::note(format_args!(
            "{} {examples} have no token to learn within {seq} tokens, and are left out",
            encoded.left_out
        ));
    }
}

/// Takes a part of the examples away, at least one of two or more. They are chosen at random.
fn hold_out<T>(examples: &mut Vec<T>, part: f64, seed: u64) -> Vec<T> {
    if part == 0.0 || examples.len() < 2 {
        return Vec::new();
    }
    let count = (examples.len() as f64 * part).round() as usize;
    let count = count.clamp(1, examples.len() - 1);
    let mut random = SplitMix64::of(seed, u64::MAX);
    (0..count)
        .map(|_| examples.swap_remove(random.below(examples.len())))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_least_one_example_is_held_out_and_one_stays() {
        let examples = |count: u32| -> Vec<Example> {
            let example = |id| Example::new(vec![id], Vec::new());
            (0..count).map(example).collect()
        };
        for (count, part, expected) in [
            (1, 0.5, 0),
            (2, 0.01, 1),
            (2, 0.99, 1),
            (100, 0.05, 5),
            (9, 0.0, 0),
        ] {
            let mut all = examples(count);
            let held = hold_out(&mut all, part, 7);
            assert_eq!(held.len(), expected, "{part} of {count}");
            let mut ids: Vec<u32> = all
                .iter()
                .chain(&held)
                .map(|example| example.ids[0])
                .collect();
            ids.sort_unstable();
            assert_eq!(ids, (0..count).collect::<Vec<_>>());
        }
    }
}
