//! `kernels train`: trains a small language model from scratch.
//!
//! The modules, in the order in which a run uses them: [`settings`] (the checked arguments), [`data`] (batches of
//! bytes), [`fit`] (the run itself, by [`crate::training`]), [`throughput`] (speed with and without kernels), [`sample`]
//! (generated text), and [`summary`].

mod data;
mod fit;
#[cfg(all(test, feature = "distributed"))]
mod of_ranks;
mod preset;
mod sample;
mod settings;
mod summary;
mod throughput;

use crate::choice::{self, DtypeChoice};
use crate::training::folder::{RunFolder, SUMMARY};
use crate::training::ranks::{self, Ranks};
use crate::training::{metrics, plot, rescue, saving, signals, state::States};
use crate::{devices, options, output, screen};
use burn_kernels::report::{self, Report};
use data::{Corpus, Splits};
use fit::Trained;
pub use preset::Preset;
use serde::Serialize;
use settings::Settings;
#[cfg(feature = "text")]
pub use settings::learning_rate;
pub use settings::{at_least, training_dtype};
use std::path::{Path, PathBuf};
use std::time::Instant;
use summary::Summary;

/// The file of the settings, inside the run folder.
const SETTINGS: &str = "train.json";

/// Train a small language model from scratch and measure the speed-up by kernels
///
/// The model reads bytes. It learns from two public-domain books that are part of this program, or from --corpus. The
/// last tenth of each text is held out for validation.
///
/// The run folder receives: train.json (settings, to repeat the run), config.toml (the options, for --config),
/// metrics.jsonl (a line for each training step and each validation), metrics.csv (the same as a table), loss.svg (both
/// losses), checkpoint/ (Hugging Face layout, for `kernels run --model`), sample.txt (generated text) and summary.json
/// (results, dispatch report). For a mixture of experts metrics.jsonl also has the load-balancing loss, which is trained
/// on but is not part of `loss`.
///
/// While it trains, the run saves checkpoints in resume/: at the times of --save-steps and --save-minutes, after a
/// validation with the lowest loss so far, and when Ctrl-C or SIGTERM asks it to end. A second signal ends it at once.
/// `--resume DIR` goes on from the last one, with the losses of an uninterrupted run. Each checkpoint, and each file but
/// metrics.jsonl, appears complete or not at all. A finished run removes resume/.
#[derive(Clone, Debug, clap::Args, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Args {
    /// The run folder; it must be empty or not exist [default: runs/PRESET-TIME].
    #[arg(long, value_name = "DIR")]
    #[serde(skip)]
    out: Option<PathBuf>,
    /// Go on with the run in this folder, with its own options.
    #[arg(long, value_name = "DIR", conflicts_with = "out")]
    #[serde(skip)]
    resume: Option<PathBuf>,
    /// Take options from a TOML file, by their names; those on the command line come first.
    #[arg(long, value_name = "FILE", conflicts_with = "resume")]
    #[serde(skip)]
    config: Option<PathBuf>,
    /// The model to train.
    #[arg(long, value_enum, default_value_t = Preset::Qwen3)]
    preset: Preset,
    /// Train on this file in place of the built-in books; it may hold any bytes.
    #[arg(long, value_name = "FILE")]
    #[serde(serialize_with = "options::as_absolute")]
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
    #[arg(long, default_value_t = 42, value_parser = options::whole::<u64>)]
    #[serde(serialize_with = "options::as_number")]
    seed: u64,
    #[command(flatten)]
    #[serde(flatten)]
    policy: choice::PolicyArgs,
    /// The dtype to compute in: f32, or bf16 with parameters and optimiser in f32.
    #[arg(long, default_value = "f32", value_parser = settings::training_dtype)]
    dtype: DtypeChoice,
    /// Keep the inputs of layers and compute each layer twice, in place of keeping all activations: slower, in less memory.
    #[arg(long)]
    gradient_checkpointing: bool,
    #[command(flatten)]
    #[serde(flatten)]
    pub devices: devices::Args,
    #[command(flatten)]
    #[serde(flatten)]
    saving: saving::Args,
    #[command(flatten)]
    #[serde(flatten)]
    ranks: ranks::Args,
    /// Print no progress and no summary.
    #[arg(short, long)]
    #[serde(skip)]
    quiet: bool,
    /// Print the summary as JSON.
    #[arg(long)]
    #[serde(skip)]
    json: bool,
}

/// Runs the command.
///
/// # Errors
/// Returns an error if the corpus can't be read or is too short, if the run folder can't be written or is not that of the
/// run to go on with, or if the loss stops being a finite number. Returns
/// [`Interrupted`](crate::training::session::Interrupted) after a signal.
pub fn run(args: &Args) -> anyhow::Result<()> {
    args.policy.install()?;
    signals::survive_limits()?;
    let started = Instant::now();
    // The other processes end here, and the first goes on alone.
    let Some(run) = args.ranks.run(|ranks| train(args, ranks))? else {
        return Ok(());
    };
    let Run {
        settings,
        splits,
        folder,
        states,
        trained,
        dispatch,
    } = run;
    save(&trained, &settings, &folder.checkpoint())?;
    folder.write("metrics.csv", metrics::csv(&trained.points))?;
    folder.write("loss.svg", plot::svg(&trained.points, "in nats per byte")?)?;

    let summary = finish(&settings, &splits, &folder, &trained, dispatch, started)?;
    folder.write_json(SUMMARY, &summary)?;
    states.clear();
    match (args.json, args.quiet) {
        (true, _) => output::json(&summary),
        (false, false) => output::page(&summary.page(screen::stdout())),
        (false, true) => Ok(()),
    }
}

/// A run that came to its end, on the process that writes its results.
struct Run {
    settings: Settings,
    splits: Splits,
    folder: RunFolder,
    states: States,
    trained: Trained,
    /// What ran on all processes.
    dispatch: Report,
}

/// Trains. Returns `None` on a process that does not write.
fn train(args: &Args, ranks: &Ranks) -> anyhow::Result<Option<Run>> {
    // This comes first, because reading the rest can take a while.
    let resumed = RunFolder::resumed(args.resume.as_deref(), ranks, SETTINGS)?;
    let settings = Settings::new(args)?;
    ranks.check(settings.batch, &settings.devices)?;
    let corpus = Corpus::load(args.corpus.as_deref())?;
    let splits = corpus.split(settings.seq)?;
    let description = settings.describe(&splits)?;
    ranks.agree_on_settings(&description)?;
    if !ranks.leads() {
        report::reset();
        fit::fit(&settings, &splits, (None, &States::none()), ranks, true)?;
        ranks.report()?;
        return Ok(None);
    }
    let options = Args {
        policy: choice::PolicyArgs::of(&settings.kernels),
        ..args.clone()
    };
    let name = settings.preset.to_string();
    let place = (args.out.as_deref(), name.as_str());
    let folder = RunFolder::of_run(resumed, place, (SETTINGS, &description), &options)?;
    let kept = folder.kept(SETTINGS)?;
    let states = States::new(&folder, args.saving.keep, description, kept);

    report::reset();
    let trained = fit::fit(
        &settings,
        &splits,
        (Some(&folder), &states),
        ranks,
        args.quiet,
    )?;
    let dispatch = ranks.report()?;
    Ok(Some(Run {
        settings,
        splits,
        folder,
        states,
        trained,
        dispatch,
    }))
}

/// Writes the model, unless a run that was interrupted after it has done so.
fn save(trained: &Trained, settings: &Settings, checkpoint: &Path) -> anyhow::Result<()> {
    if checkpoint.join("config.json").exists() {
        return Ok(());
    }
    rescue::save(checkpoint, |path| {
        Ok(kernels_models::save(
            &trained.model,
            &settings.model,
            path,
            None,
        )?)
    })
}

/// Measures the speed and generates a sample. The checkpoint is already written.
fn finish(
    settings: &Settings,
    splits: &Splits,
    folder: &RunFolder,
    trained: &Trained,
    dispatch: Report,
    started: Instant,
) -> anyhow::Result<Summary> {
    let throughput = throughput::measure(trained.model.clone(), settings, splits)?;
    let sample = sample::generate(&trained.model, settings, splits.prompt())?;
    folder.write("sample.txt", &sample)?;
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
