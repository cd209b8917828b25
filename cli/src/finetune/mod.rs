//! `kernels finetune`: trains a checkpoint further, as a whole or by low-rank adapters.
//!
//! The modules, in the order in which a run uses them: [`settings`] (the checked arguments) and [`loss`] with [`grpo`] and
//! [`distill`], [`data`] (examples and batches) and [`answers`] (those of losses of answers), [`rollouts`] (completions
//! with rewards, by a [`writer`] and a [`judge`]), [`model`] (the checkpoint, adapters, and saved files) and [`reward`]
//! (reward models), [`crate::training`] (the run itself), [`summary`].

mod answers;
#[cfg(test)]
mod compared;
mod data;
mod distill;
mod grpo;
mod judge;
mod loss;
mod model;
mod parse;
#[cfg(test)]
mod pipeline;
#[cfg(test)]
mod pipeline_of_rewards;
mod precomputed;
mod prepare;
mod reading;
mod reward;
mod rollouts;
mod sample;
mod settings;
mod summary;
mod sums;
mod writer;

use crate::choice;
use crate::text::Date;
use crate::training::batch::Source;
use crate::training::fit::fit;
use crate::training::folder::{RunFolder, SUMMARY};
use crate::training::metrics;
use crate::training::plan::Plan;
use crate::training::ranks::{self, Ranks};
use crate::training::schedule::Decay;
use crate::training::session::Trained;
use crate::training::state::States;
use crate::training::{plot, rescue, saving, signals};
use crate::{devices, options, output, screen};
use anyhow::ensure;
use burn_kernels::live::{self, Sampling};
use burn_kernels::report::{self, Report};
use prepare::Prepared;
use serde::Serialize;
use settings::Settings;
use std::path::{Path, PathBuf};
use std::time::Instant;
use summary::Summary;

/// The file of the settings, inside the run folder.
const SETTINGS: &str = "finetune.json";

/// Train a checkpoint further on texts, prompts or conversations, as a whole or by LoRA
///
/// The folder of --model holds a checkpoint in Hugging Face layout and its tokenizer.json; adapters can also begin with
/// a GGUF file. Each --data FILE is a text, if its name ends in .txt or .md or has no end, or JSON lines (.jsonl), or
/// one JSON list (.json). A record has `text`, or `prompt` and `completion`, or `messages` with `role` and `content`,
/// or `conversations` with `from` and `value` (ShareGPT), or `instruction`, `input` and `output` (Alpaca).
/// Conversations are rendered by the checkpoint's chat template. In a build with the feature `images`, they can have
/// pictures, in `images` and `<image>` (LLaMA-Factory) or in parts of `content` (OpenAI). The model learns texts,
/// completions and the assistant's turns; --all-tokens also prompts. All records are checked before the first step.
///
/// With --loss dpo and others, the model learns from answers that are compared or judged: records with `prompt`, `chosen` and
/// `rejected`, or with `prompt`, `completion` and `label`, as TRL and LLaMA-Factory write them. A batch then has --batch pairs or
/// single answers. The reference is the model as the run begins.
///
/// --loss reward trains a reward model on pairs. With --loss grpo, the model completes prompts itself, and learns from the
/// rewards that --reward-program or --reward-regex gives. --loss distill learns the probabilities of a --teacher.
///
/// Several examples are packed into one sequence, in which none sees another. Without --lora-rank all parameters are
/// trained. With it, only adapters of that rank are, and adapter/ receives them in PEFT's layout; --merge also writes the
/// merged model.
///
/// The run folder receives finetune.json (settings), config.toml (the options, for --config), metrics.jsonl (a line for
/// each step and each validation), metrics.csv (the same as a table), loss.svg, rewards.svg for losses that have some,
/// checkpoint/ or adapter/, and summary.json.
/// The saved model is that of the validation with the lowest loss. Checkpoints, --resume and signals are those of
/// `kernels train`.
#[derive(Clone, Debug, clap::Args, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Args {
    /// The folder of the checkpoint to begin with, or, for adapters, a GGUF file.
    #[arg(long, value_name = "DIR|FILE")]
    #[serde(serialize_with = "options::as_absolute")]
    model: Option<PathBuf>,
    /// A file to train on. Can be given several times.
    #[arg(long, value_name = "FILE")]
    #[serde(serialize_with = "options::all_absolute")]
    data: Vec<PathBuf>,
    /// A file to validate on, in place of a part of --data. Can be given several times.
    #[arg(long, value_name = "FILE")]
    #[serde(serialize_with = "options::all_absolute")]
    eval_data: Vec<PathBuf>,
    /// The part of the examples that is held out for validation; 0 for none.
    #[arg(long, value_name = "PART", default_value_t = 0.05, value_parser = parse::part)]
    held_out: f64,
    /// The run folder; it must be empty or not exist [default: runs/finetune-TIME].
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
    /// The number of times that every sequence is trained on.
    #[arg(long, default_value_t = 1.0, value_parser = parse::above_zero)]
    epochs: f64,
    /// The number of optimiser steps, in place of --epochs.
    #[arg(long, value_parser = parse::count)]
    steps: Option<usize>,
    /// The number of sequences in a batch.
    #[arg(long, default_value_t = 4, value_parser = parse::count)]
    batch: usize,
    /// The number of batches whose gradients are added up for a step.
    #[arg(long, default_value_t = 1, value_parser = parse::count)]
    accumulate: usize,
    /// The largest number of tokens in a sequence.
    #[arg(long, default_value_t = 512, value_parser = parse::count)]
    seq: usize,
    /// Give each example a sequence of its own.
    #[arg(long)]
    no_packing: bool,
    /// Learn prompts and the user's turns too.
    #[arg(long)]
    all_tokens: bool,
    /// The date that the chat template writes, if it writes one, in place of today's: a run has the same losses on every
    /// day.
    #[arg(long, value_name = "DATE", default_value = "2024-07-26", value_parser = parse::date)]
    #[serde(serialize_with = "options::shown")]
    date: Date,
    /// The highest learning rate [default: 2e-4 for adapters, otherwise 2e-5].
    #[arg(long, value_parser = crate::train::learning_rate)]
    lr: Option<f64>,
    /// The number of steps in which the learning rate rises [default: 3 in 100].
    #[arg(long, value_name = "STEPS", value_parser = options::whole::<usize>)]
    warmup: Option<usize>,
    /// The course of the learning rate after that.
    #[arg(long, value_enum, default_value_t = Decay::Cosine)]
    schedule: Decay,
    /// The decay of matrices by AdamW; norms and biases have none.
    #[arg(long, default_value_t = 0.01, value_parser = parse::decay)]
    weight_decay: f32,
    /// The largest norm of all gradients together; 0 for no limit.
    #[arg(long, value_name = "NORM", default_value_t = 1.0, value_parser = parse::from_zero)]
    clip: f64,
    /// The number of steps between validations [default: a quarter of all].
    #[arg(long, value_name = "STEPS", value_parser = parse::count)]
    validate_steps: Option<usize>,
    /// Stop after this number of validations without a lower loss.
    #[arg(long, value_name = "VALIDATIONS", value_parser = parse::count)]
    patience: Option<usize>,
    /// Train without the dropout that config.json asks for.
    #[arg(long)]
    no_dropout: bool,
    #[command(flatten)]
    #[serde(flatten)]
    loss: loss::LossArgs,
    #[command(flatten)]
    #[serde(flatten)]
    lora: model::LoraArgs,
    /// The seed of adapters, held-out examples, order and dropout.
    #[arg(long, default_value_t = 42, value_parser = options::whole::<u64>)]
    #[serde(serialize_with = "options::as_number")]
    seed: u64,
    #[command(flatten)]
    #[serde(flatten)]
    policy: choice::PolicyArgs,
    /// The dtype to compute in: f32, or bf16 with trained parameters and optimiser in f32.
    #[arg(long, default_value = "f32", value_parser = crate::train::training_dtype)]
    dtype: choice::DtypeChoice,
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
    /// Check everything, show the plan of the run and an example with what is learned of it, and end.
    #[arg(long)]
    #[serde(skip)]
    dry_run: bool,
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
/// Returns an error if the checkpoint or a file can't be read, if a record can't be trained on, if the run folder can't be
/// written or is not that of the run to go on with, or if the loss stops being a finite number. Returns
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
        facts,
        folder,
        states,
        parameters,
        trained: (trained, saved_step),
        dispatch,
    } = run;
    // The model comes first, because a full disk may have room for nothing else.
    let saved = save(&settings, &facts.new_ends, &folder, &trained)?;
    folder.write("metrics.csv", metrics::csv(&trained.points))?;
    folder.write("loss.svg", plot::svg(&trained.points, settings.unit())?)?;
    if let Some(rewards) = plot::rewards(&trained.points)? {
        folder.write("rewards.svg", rewards)?;
    }
    let summary = Summary::new(
        &settings,
        (&facts, parameters),
        &folder,
        (trained.points.as_slice(), &trained.progress),
        (saved, saved_step),
        dispatch,
        started.elapsed(),
    )?;
    folder.write_json(SUMMARY, &summary)?;
    states.clear();
    match (args.json, args.quiet) {
        (true, _) => output::json(&summary),
        (false, false) => output::page(&summary.page(screen::stdout())),
        (false, true) => Ok(()),
    }
}

/// Switches live verification off for adapters with dropout, unless the environment sets it up: a body that is computed again
/// for a comparison leaves out other inputs.
fn verify_without_dropout(settings: &Settings) {
    let drops = settings
        .adapters
        .as_ref()
        .is_some_and(|adapters| adapters.dropout > 0.0);
    if drops && std::env::var_os("BURN_KERNELS_VERIFY").is_none() {
        live::set(Sampling::off());
        output::note(
            "first calls of kernels are not verified, because dropout differs from call to call",
        );
    }
}

/// A run that came to its end, on the process that writes its results.
struct Run {
    settings: Settings,
    facts: prepare::Facts,
    folder: RunFolder,
    states: States,
    parameters: model::Parameters,
    trained: (Trained, usize),
    /// What ran on all processes.
    dispatch: Report,
}

/// Checks everything, and trains. Returns `None` after a dry run, and on a process that does not write.
fn train(args: &Args, ranks: &Ranks) -> anyhow::Result<Option<Run>> {
    check_ranks(args, ranks)?;
    // This comes first, because reading the rest can take a while.
    let resumed = RunFolder::resumed(args.resume.as_deref(), ranks, SETTINGS)?;
    let Prepared {
        settings,
        mut batches,
        rollouts,
        model,
        mut preference,
        teacher,
        facts,
        sample,
    } = prepare::prepare(args)?;
    if args.dry_run {
        let plan = summary::Plan::new(
            &settings,
            (&facts, &batches, &sample),
            (&model, teacher.as_ref()),
        );
        match (ranks.leads(), args.json) {
            (true, true) => output::json(&plan)?,
            (true, false) => {
                output::text(&plan)?;
                output::styled(&format!("\n{}", sample.show(screen::stdout())))?;
            }
            (false, _) => {}
        }
        return Ok(None);
    }
    let description = settings.describe(&facts)?;
    ranks.agree_on_settings(&description)?;
    if !ranks.leads() {
        verify_without_dropout(&settings);
        let plan = settings.plan(args, (None, None), ranks.clone(), Path::new("."))?;
        let nothing = (None, &States::none());
        report::reset();
        fit(&plan, &batches, nothing, (model, settings.optimiser), true)?;
        ranks.report()?;
        return Ok(None);
    }
    let options = Args {
        policy: choice::PolicyArgs::of(&settings.kernels),
        ..args.clone()
    };
    let place = (args.out.as_deref(), "finetune");
    let folder = RunFolder::of_run(resumed, place, (SETTINGS, &description), &options)?;
    let kept = folder.kept(SETTINGS)?;
    let states = States::new(&folder, args.saving.keep, description, kept);
    if let Some(preference) = preference
        .as_mut()
        .filter(|_| args.loss.precompute_reference)
    {
        let origin = precomputed::Origin {
            data: &facts.fingerprint,
            reference: settings.reference.as_deref().or(settings.base.as_deref()),
        };
        precomputed::precompute(preference, &mut batches, (&folder, origin))?;
    }
    let plan = settings.plan(args, (preference, teacher), ranks.clone(), folder.path())?;

    verify_without_dropout(&settings);
    report::reset();
    let parameters = model::Parameters::of(&model);
    let steps = rollouts.as_ref().map(|rollouts| rollouts.over(&batches));
    let source: &dyn Source = match &steps {
        Some(steps) => steps,
        None => &batches,
    };
    let writing = (Some(&folder), &states);
    let model = (model, settings.optimiser);
    let trained = fit(&plan, source, writing, model, args.quiet)?;
    let dispatch = ranks.report()?;
    let trained = best(trained, &plan, &states)?;
    Ok(Some(Run {
        settings,
        facts,
        folder,
        states,
        parameters,
        trained,
        dispatch,
    }))
}

/// Refuses losses and options that several processes can't share.
fn check_ranks(args: &Args, ranks: &Ranks) -> anyhow::Result<()> {
    let of_tokens = args.loss.kind().is_none() && !args.loss.is_distillation();
    ensure!(
        ranks.size() == 1 || of_tokens,
        "several ranks train with --loss sft only: other losses are of all answers of a step, or have a teacher; start \
         this run once"
    );
    let sequences = args.batch.saturating_mul(args.accumulate);
    ranks.check(sequences, &args.devices.chosen())
}

/// Returns the model of the best validation, with its step.
fn best(mut trained: Trained, plan: &Plan, states: &States) -> anyhow::Result<(Trained, usize)> {
    let mut step = trained.progress.step;
    let best = trained.progress.best.map(|best| best.step);
    if best.is_some_and(|best| best != step) {
        match states.best(&trained.progress)? {
            Some(saved) => {
                step = saved.progress.step;
                trained.trainee = saved.restore(trained.trainee, plan.device())?;
            }
            None => output::note(
                "warning: the checkpoint of the best validation could not be saved, so the last model is kept",
            ),
        }
    }
    Ok((trained, step))
}

/// Saves the trained model. Returns the folders.
fn save(
    settings: &Settings,
    new_ends: &[u32],
    folder: &RunFolder,
    trained: &Trained,
) -> anyhow::Result<Vec<PathBuf>> {
    let model = burn::module::Module::valid(&trained.trainee.model);
    let outputs = settings.outputs(folder.path());
    ensure!(!outputs.is_empty(), "a run has something to save");
    for output in &outputs {
        // A run that was interrupted after it wrote the model has it.
        if !output.is_written() {
            rescue::save(output.folder(), |path| {
                output.write(&model, settings, path)?;
                if path != output.folder() {
                    // A rescued model is worth having without these files.
                    let completed = output.complete(settings, new_ends, path);
                    completed.unwrap_or_else(|error| {
                        output::note(format_args!("warning: {}", output::chain(&error)));
                    });
                }
                Ok(())
            })?;
        }
        output.complete(settings, new_ends, output.folder())?;
    }
    Ok(outputs
        .iter()
        .map(|output| output.folder().to_owned())
        .collect())
}
