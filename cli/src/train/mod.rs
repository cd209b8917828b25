//! `kernels train`: a small language model from scratch, with burn-train.
//!
//! The pieces, in the order in which a run uses them: [`settings`] (what was asked for), [`data`]
//! (bytes to batches), [`folder`] (where results go), [`fit`] (the burn-train run, with its
//! [`step`], [`optimiser`], [`metrics`], [`balance`] and [`progress`]), [`throughput`] (with and without
//! kernels), [`sample`] (generated text), [`plot`] and [`summary`].

mod balance;
mod data;
mod fit;
mod folder;
mod metrics;
mod optimiser;
mod plot;
mod preset;
mod progress;
mod sample;
mod settings;
mod step;
mod summary;
mod throughput;

use crate::choice::{self, DeviceChoice, DtypeChoice};
use crate::output;
use burn_kernels::policy::Policy;
use burn_kernels::report;
use data::{Corpus, Splits};
use fit::Trained;
use folder::RunFolder;
use preset::Preset;
use settings::Settings;
use std::path::PathBuf;
use std::time::Instant;
use summary::Summary;

/// Train a small language model from scratch and measure what the kernels bring
///
/// The model reads bytes. It learns from two public-domain books that are part of this program,
/// or from --corpus; the last tenth of each text is held out for validation.
///
/// The run folder receives: train.json (settings, to repeat the run), metrics.jsonl (a line for
/// each training step and each validation; of a mixture of experts also its load-balancing loss,
/// which is trained on but not a part of `loss`), loss.svg (both losses), checkpoint/ (Hugging Face
/// layout, for `kernels run --model`), sample.txt (generated text) and summary.json (results,
/// dispatch report). The checkpoint appears complete or not at all: a run that is stopped by
/// Ctrl-C or by an error while it trains leaves the metrics so far and no checkpoint.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The run folder; it must be empty or not exist [default: runs/PRESET-TIME].
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// The model to train.
    #[arg(long, value_enum, default_value_t = Preset::Qwen3)]
    preset: Preset,
    /// Text to learn from, in place of the built-in books. Any bytes will do.
    #[arg(long, value_name = "FILE")]
    corpus: Option<PathBuf>,
    /// Optimiser steps.
    #[arg(long, default_value_t = 720, value_parser = settings::at_least::<1>)]
    steps: usize,
    /// Sequences in each step.
    #[arg(long, default_value_t = 16, value_parser = settings::at_least::<1>)]
    batch: usize,
    /// Tokens (bytes) in each sequence.
    #[arg(long, default_value_t = 128, value_parser = settings::at_least::<2>)]
    seq: usize,
    /// The learning rate after warmup, above 0 and at most 1.
    #[arg(long, default_value_t = 3e-3, value_parser = settings::learning_rate)]
    lr: f64,
    /// Decides the initial weights, the order of the data and the generated text.
    #[arg(long, default_value_t = 42)]
    seed: u64,
    /// The kernel policy, in place of BURN_KERNELS.
    #[arg(long, value_name = "POLICY")]
    kernels: Option<Policy>,
    /// The dtype to train in; only f32 for now.
    #[arg(long, default_value = "f32", value_parser = settings::training_dtype)]
    dtype: DtypeChoice,
    /// The device to train on.
    #[arg(long, default_value = "cpu")]
    pub device: DeviceChoice,
    /// No progress and no summary.
    #[arg(short, long)]
    quiet: bool,
    /// Print the summary as JSON.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
///
/// # Errors
/// The corpus can't be read or is too short, the run folder is in use or can't be written, or the
/// loss stops being a number.
pub fn run(args: &Args) -> anyhow::Result<()> {
    choice::install(args.kernels.as_ref());
    let started = Instant::now();
    let settings = Settings::new(args)?;
    let corpus = Corpus::load(args.corpus.as_deref())?;
    let splits = corpus.split(settings.seq)?;
    let folder = RunFolder::create(args.out.as_deref(), settings.preset)?;
    folder.write_settings(&settings, &splits)?;

    report::reset();
    let trained = fit::fit(&settings, &splits, &folder, args.quiet)?;
    let dispatch = report::report();
    folder.write_checkpoint(&trained.model, &settings.model)?;
    folder.write_plot(&plot::svg(&trained.points)?)?;

    let summary = finish(&settings, &splits, &folder, &trained, dispatch, started)?;
    folder.write_summary(&summary)?;
    match (args.json, args.quiet) {
        (true, _) => output::json(&summary),
        (false, false) => output::text(&summary),
        (false, true) => Ok(()),
    }
}

/// What is looked at once the model is safe on disk.
fn finish(
    settings: &Settings,
    splits: &Splits,
    folder: &RunFolder,
    trained: &Trained,
    dispatch: report::Report,
    started: Instant,
) -> anyhow::Result<Summary> {
    let throughput = throughput::measure(trained.model.clone(), settings, splits)?;
    let sample = sample::generate(&trained.model, settings, splits.prompt())?;
    folder.write_sample(&sample)?;
    Summary::new(
        settings,
        folder,
        trained,
        dispatch,
        throughput,
        sample,
        started.elapsed(),
    )
}
