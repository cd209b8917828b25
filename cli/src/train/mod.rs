//! `kernels train`: trains a small language model from scratch, with burn-train.
//!
//! The modules, in the order in which a run uses them: [`settings`] (the checked arguments), [`data`] (batches of
//! bytes), [`folder`] (the results' files), [`fit`] (the burn-train run, with its [`step`], [`optimiser`], [`schedule`],
//! [`metrics`], [`balance`] and [`progress`]), [`throughput`] (speed with and without kernels), [`sample`] (generated text),
//! [`plot`] and [`summary`].

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
mod schedule;
mod settings;
mod step;
mod summary;
mod throughput;

use crate::choice::{self, DeviceChoice, DtypeChoice};
use crate::{output, screen};
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

/// Train a small language model from scratch and measure the speed-up by kernels
///
/// The model reads bytes. It learns from two public-domain books that are part of this program, or from --corpus. The
/// last tenth of each text is held out for validation.
///
/// The run folder receives: train.json (settings, to repeat the run), metrics.jsonl (a line for each training step and
/// each validation), loss.svg (both losses), checkpoint/ (Hugging Face layout, for `kernels run --model`), sample.txt
/// (generated text) and summary.json (results, dispatch report). For a mixture of experts metrics.jsonl also has the
/// load-balancing loss, which is trained on but is not part of `loss`. The checkpoint appears complete or not at all: a
/// run that Ctrl-C or an error stops during training leaves the metrics so far and no checkpoint.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The run folder; it must be empty or not exist [default: runs/PRESET-TIME].
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// The model to train.
    #[arg(long, value_enum, default_value_t = Preset::Qwen3)]
    preset: Preset,
    /// Train on this file in place of the built-in books; it may hold any bytes.
    #[arg(long, value_name = "FILE")]
    corpus: Option<PathBuf>,
    /// The number of optimiser steps.
    #[arg(long, default_value_t = 720, value_parser = settings::at_least::<1>)]
    steps: usize,
    /// The number of sequences in each step.
    #[arg(long, default_value_t = 16, value_parser = settings::at_least::<1>)]
    batch: usize,
    /// The number of tokens (bytes) in each sequence.
    #[arg(long, default_value_t = 128, value_parser = settings::at_least::<2>)]
    seq: usize,
    /// The learning rate after warmup, above 0 and at most 1.
    #[arg(long, default_value_t = 3e-3, value_parser = settings::learning_rate)]
    lr: f64,
    /// The seed for initial weights, order of data and generated text.
    #[arg(long, default_value_t = 42)]
    seed: u64,
    /// The kernel policy, in place of BURN_KERNELS.
    #[arg(long, value_name = "POLICY")]
    kernels: Option<Policy>,
    /// The dtype to compute in: f32, or bf16 with parameters and optimiser in f32.
    #[arg(long, default_value = "f32", value_parser = settings::training_dtype)]
    dtype: DtypeChoice,
    /// The device to train on.
    #[arg(long, default_value = "cpu")]
    pub device: DeviceChoice,
    /// Print no progress and no summary.
    #[arg(short, long)]
    quiet: bool,
    /// Print the summary as JSON.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
///
/// # Errors
/// Returns an error if the corpus can't be read or is too short, if the run folder is not empty or can't be written, or
/// if the loss stops being a finite number.
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
        (false, false) => output::page(&summary.page(screen::stdout())),
        (false, true) => Ok(()),
    }
}

/// Measures the speed and generates a sample. The checkpoint is already written.
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
