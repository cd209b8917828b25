//! `kernels tune`: measures kernels and references on a model of given sizes, and writes the choices to a file.

use crate::choice::{self, DeviceChoice, DtypeChoice, ModeChoice};
use crate::screen::Width;
use crate::train::{Preset, at_least, training_dtype};
use crate::training::batch::Batch;
use crate::training::optimiser::{AdamW, Optimiser};
use crate::training::random::SplitMix64;
use crate::training::state::Trainee;
use crate::training::step::Method;
use crate::{loading, output};
use anyhow::{Context, bail, ensure};
use burn::tensor::Device;
use burn_kernels::dispatch::Mode;
use burn_kernels::live::{self, Sampling};
use burn_kernels::optim::rounded;
use burn_kernels::policy;
use burn_kernels::tune::{self, Machine, TuneReport};
use clap::ValueEnum;
use kernels_io::{Page, escape_path};
use kernels_models::{CausalLm, ModelConfig};
use std::path::PathBuf;

/// Measure kernels and references at the sizes of a model, and write which one is faster to a file
///
/// The model has random weights. Each site runs its kernel and its reference a few times, forward and, in training,
/// backward, under the policy with `tune` added. `BURN_KERNELS=tune:FILE` reads the file, on devices of the same name.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The model to measure.
    #[arg(long, value_enum, default_value_t = Preset::Qwen3)]
    preset: Preset,
    /// Measure a model of the kind and sizes of this checkpoint, a folder or a GGUF file, in place of a preset. Only its
    /// configuration is read.
    #[arg(long, value_name = "DIR|FILE", conflicts_with = "preset")]
    model: Option<PathBuf>,
    /// The device to measure on.
    #[arg(long, default_value = "cpu")]
    pub device: DeviceChoice,
    /// The dtype to compute in.
    #[arg(long, value_enum, default_value_t = DtypeChoice::F32)]
    dtype: DtypeChoice,
    /// The mode: training steps, or prompts with a few tokens after them.
    #[arg(long, value_enum, default_value_t = ModeChoice::Training)]
    mode: ModeChoice,
    /// The number of sequences in each step.
    #[arg(long, default_value_t = 16, value_parser = at_least::<1>)]
    batch: usize,
    /// The number of tokens in each sequence.
    #[arg(long, default_value_t = 128, value_parser = at_least::<2>)]
    tokens: usize,
    /// The file to write. It appears complete or not at all.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    policy: choice::PolicyArgs,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    width: Width,
}

/// The maximum number of tuning steps; undecided classes then stay undecided. Each step measures every class at least once.
const MOST_STEPS: usize = 12;

/// The tokens that follow a prompt in inference.
const DECODED: usize = 4;

/// Runs the command.
///
/// # Errors
/// Returns an error if the sizes, the configuration or the path are invalid, if no site of the model can run a kernel or be
/// measured, or if the device fails.
pub fn run(args: &Args) -> anyhow::Result<()> {
    args.policy.install()?;
    let policy = policy::current().context("the kernel policy")?;
    policy::install(match policy.is_tuning() {
        true => policy,
        false => policy.tune(),
    });
    if let Some(path) = &args.out {
        output::refuse_unwritable(path, "--out")?;
    }
    let config = config(args)?;
    let report = measure(args, &config)?;
    ensure!(
        !report.rows.is_empty(),
        "no site of the model can run a kernel here, so there is nothing to choose: see `kernels plan`"
    );
    if let Some(why) = nothing_chosen(&report) {
        bail!("nothing was chosen, because no class of calls can be measured: {why}");
    }
    if let Some(path) = &args.out {
        report.write(path)?;
    }
    match args.json {
        true => output::json(&report),
        false => output::page(&page(args, &report)),
    }
}

/// Returns the first reason why nothing was chosen, or `None` if there is a choice.
fn nothing_chosen(report: &TuneReport) -> Option<&str> {
    let has_choice = report.rows.iter().any(|row| row.choice.is_some());
    let mut reasons = report.rows.iter().filter_map(|row| row.kept.as_deref());
    reasons.next().filter(|_| !has_choice)
}

fn page(args: &Args, report: &TuneReport) -> Page {
    let mut page = report.page(args.width.look());
    if report.open() > 0 {
        page.paragraph(format_args!(
            "{} classes of calls are not decided after {MOST_STEPS} steps",
            report.open()
        ));
    }
    page.paragraph(match &args.out {
        Some(path) => {
            let path = escape_path(path);
            format!("{path} is written; BURN_KERNELS=tune:{path} reads it")
        }
        None => "Nothing is written; `--out FILE` writes the choices".to_owned(),
    });
    page
}

/// Returns the configuration of the model, whose sequences may have the tokens.
fn config(args: &Args) -> anyhow::Result<ModelConfig> {
    let needed = match args.mode.mode() {
        Mode::Training => args.tokens,
        Mode::Inference => args.tokens.saturating_add(DECODED),
    };
    args.batch
        .checked_mul(needed)
        .context("--batch times --tokens is more than a tensor holds")?;
    let Some(folder) = &args.model else {
        return Ok(args.preset.config(needed)?);
    };
    let config = ModelConfig::of_checkpoint(folder)?;
    let most = config.max_position_embeddings;
    ensure!(
        needed <= most,
        "{}: max_position_embeddings is {most}, less than the {needed} tokens that are measured; choose a smaller --tokens",
        escape_path(folder)
    );
    Ok(config)
}

fn measure(args: &Args, config: &ModelConfig) -> anyhow::Result<TuneReport> {
    if args.mode.mode() == Mode::Training {
        let name = args.dtype.to_possible_value();
        let name = name.as_ref().map_or("", |value| value.get_name());
        training_dtype(name).map_err(anyhow::Error::msg)?;
    }
    let device = args.device.device()?;
    if !device.supports_dtype(args.dtype.dtype()) {
        bail!(
            "{} does not compute in {}",
            args.device,
            args.dtype.dtype().name()
        );
    }
    ensure!(
        args.out.is_none() || Machine::of(&device).name.is_some(),
        "{} has no name by which a later run would know it, so --out would write choices that nobody reads",
        args.device
    );
    // A verified call is not measured, and the weights are random.
    let _unverified = live::scope(Sampling::off());
    match args.mode.mode() {
        Mode::Training => train(args, config, &device.autodiff())?,
        Mode::Inference => infer(args, config, &device)?,
    }
    Ok(tune::report())
}

/// Takes steps of training until every class is decided.
fn train(args: &Args, config: &ModelConfig, device: &Device) -> anyhow::Result<()> {
    let mut trainee = Trainee {
        model: loading::random(config, SEED, device),
        optimiser: Optimiser::new(AdamW::FROM_SCRATCH),
    };
    let batch = batch(args, config);
    let method = Method {
        dtype: args.dtype.float_dtype(),
        device,
        recompute: None,
        preference: None,
        teacher: None,
    };
    for _ in 0..MOST_STEPS {
        (trainee, ..) = trainee.step(std::slice::from_ref(&batch), method, RATE)?;
        if tune::report().open() == 0 {
            break;
        }
    }
    Ok(())
}

/// Continues prompts until every class is decided.
fn infer(args: &Args, config: &ModelConfig, device: &Device) -> anyhow::Result<()> {
    let model: CausalLm = loading::random(config, SEED, device);
    let model = rounded(&model, args.dtype.float_dtype());
    let prompts = batch(args, config).input_ids(device);
    for _ in 0..MOST_STEPS {
        let mut cache = config.cache();
        model.next(prompts.clone(), &mut cache)?;
        for _ in 0..DECODED {
            model.next(prompts.clone().narrow(1, 0, 1), &mut cache)?;
        }
        device.sync()?;
        if tune::report().open() == 0 {
            break;
        }
    }
    Ok(())
}

const SEED: u64 = 42;

/// A learning rate that keeps random weights small.
const RATE: f64 = 1e-4;

/// Returns random token ids.
fn batch(args: &Args, config: &ModelConfig) -> Batch {
    let mut random = SplitMix64::new(SEED);
    let shape = [args.batch, args.tokens];
    let ids = (0..args.batch * args.tokens).map(|_| random.below(config.vocab_size) as i64);
    Batch {
        shape,
        ids: ids.collect(),
        #[cfg(feature = "text")]
        labels: None,
    }
}
