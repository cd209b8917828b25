//! The commands of the program, its log, and how it ends.

use crate::choice::DeviceChoice;
#[cfg(feature = "packages")]
use crate::packages;
#[cfg(feature = "remote")]
use crate::serve;
use crate::{
    bench, bisect, doctor, export, feature, inspect, inspect_model, list, new_kernel, options,
    output, plan, quantize, run, semantics, train, training, tune, verify,
};
#[cfg(feature = "text")]
use crate::{finetune, generate, merge};
use anyhow::Context;
use burn_kernels::threads::on_pool;
use clap::{Parser, Subcommand};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// Train and run models with fused kernels, and see which kernel runs where.
///
/// The environment variable BURN_KERNELS sets the kernel policy of every command; `--kernels` overrides it. A policy is
/// a comma-separated list, for example `all,-npu_fused_rope`, `none,+npu_fused_swiglu` or `all,-llama::*`, or a TOML
/// file, as `@FILE.toml`.
#[derive(Debug, Parser)]
#[command(name = "kernels", version, propagate_version = true)]
struct Cli {
    /// Print a more detailed log to standard error.
    #[arg(short, long, global = true)]
    verbose: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Train(train::Args),
    Run(run::Args),
    // It is much larger than the others.
    #[cfg(feature = "text")]
    Generate(Box<generate::Args>),
    /// Continue prompts, or answer messages, with a checkpoint; not in this build
    #[cfg(not(feature = "text"))]
    #[command(hide = true, disable_help_flag = true, disable_version_flag = true)]
    Generate(feature::Ignored),
    List(list::Args),
    Plan(plan::Args),
    Inspect(inspect::Args),
    InspectModel(inspect_model::Args),
    Verify(verify::Args),
    Tune(tune::Args),
    #[cfg(feature = "text")]
    Finetune(Box<finetune::Args>),
    /// Train a checkpoint further; not in this build
    #[cfg(not(feature = "text"))]
    #[command(hide = true, disable_help_flag = true, disable_version_flag = true)]
    Finetune(feature::Ignored),
    #[cfg(feature = "text")]
    Merge(merge::Args),
    /// Add an adapter to its base; not in this build
    #[cfg(not(feature = "text"))]
    #[command(hide = true, disable_help_flag = true, disable_version_flag = true)]
    Merge(feature::Ignored),
    Quantize(quantize::Args),
    Semantics(semantics::Args),
    Doctor(doctor::Args),
    Bench(bench::Args),
    Bisect(bisect::Args),
    NewKernel(new_kernel::Args),
    Export(export::Args),
    #[cfg(feature = "packages")]
    Packages(packages::Args),
    /// Look at packages of kernels that others built, and lock them; not in this build
    #[cfg(not(feature = "packages"))]
    #[command(hide = true, disable_help_flag = true, disable_version_flag = true)]
    Packages(feature::Ignored),
    #[cfg(feature = "remote")]
    Serve(serve::Args),
    /// Serve this machine's devices; not in this build
    #[cfg(not(feature = "remote"))]
    #[command(hide = true, disable_help_flag = true, disable_version_flag = true)]
    Serve(feature::Ignored),
}

/// Runs the program with the arguments of the process. Returns its exit code.
pub fn main() -> ExitCode {
    #[cfg(feature = "text")]
    crate::text::isolate_templates();
    burn_kernels::memory::keep_freed();
    let cli: Cli = options::parse();
    start_log(cli.verbose);
    say_panics_plainly();
    let devices = cli.command.devices();
    // Burn and a strict policy report errors by panic. For the user, that is a failed command.
    let done = catch_unwind(AssertUnwindSafe(|| execute(cli.command)));
    if let Some(remark) = devices.first().and_then(DeviceChoice::remark) {
        output::note(remark);
    }
    match done {
        Ok(Ok(())) => return ExitCode::SUCCESS,
        Ok(Err(error)) if output::reader_went_away(&error) => return ExitCode::SUCCESS,
        Ok(Err(error)) => {
            let interrupted = error.downcast_ref::<training::session::Interrupted>();
            if interrupted.is_some_and(|interrupted| !interrupted.is_told()) {
                return ExitCode::SUCCESS;
            }
            output::error(output::chain(&error));
            if error.is::<feature::Missing>() {
                return ExitCode::from(2);
            }
            if let Some(interrupted) = error.downcast_ref::<bisect::Interrupted>() {
                return ExitCode::from(interrupted.exit_code());
            }
            if let Some(interrupted) = error.downcast_ref::<training::session::Interrupted>() {
                return ExitCode::from(interrupted.exit_code());
            }
            #[cfg(feature = "text")]
            if error.is::<generate::Interrupted>() {
                return ExitCode::from(generate::Interrupted::EXIT_CODE);
            }
        }
        // The panic hook has reported it.
        Err(_) => {}
    }
    // This comes last, because it can wait for a server that is gone.
    for device in &devices {
        match device.explain() {
            Some(why) if devices.len() > 1 => output::note(format_args!("{device}: {why}")),
            Some(why) => output::note(why),
            None => {}
        }
    }
    ExitCode::FAILURE
}

impl Command {
    /// Returns the devices that the command computes on.
    fn devices(&self) -> Vec<DeviceChoice> {
        match self {
            Self::Train(args) => args.devices.chosen().all().to_vec(),
            Self::Run(args) => vec![args.device.clone()],
            Self::Verify(args) => vec![args.device.clone()],
            Self::Tune(args) => vec![args.device.clone()],
            #[cfg(feature = "text")]
            Self::Generate(args) => vec![args.device.clone()],
            #[cfg(feature = "text")]
            Self::Finetune(args) => args.devices.chosen().all().to_vec(),
            _ => Vec::new(),
        }
    }
}

fn execute(command: Command) -> anyhow::Result<()> {
    burn_kernels::init().context("the kernels cannot start")?;
    match command {
        Command::Train(args) => on_pool(|| train::run(&args)),
        Command::Run(args) => on_pool(|| run::run(&args)),
        #[cfg(feature = "text")]
        Command::Generate(args) => on_pool(|| generate::run(&args)),
        #[cfg(not(feature = "text"))]
        Command::Generate(_) => Err(feature::Missing {
            what: "kernels generate",
            features: "`--features text`",
        }
        .into()),
        #[cfg(feature = "text")]
        Command::Finetune(args) => on_pool(|| finetune::run(&args)),
        #[cfg(not(feature = "text"))]
        Command::Finetune(_) => Err(feature::Missing {
            what: "kernels finetune",
            features: "`--features text`",
        }
        .into()),
        #[cfg(feature = "text")]
        Command::Merge(args) => on_pool(|| merge::run(&args)),
        #[cfg(not(feature = "text"))]
        Command::Merge(_) => Err(feature::Missing {
            what: "kernels merge",
            features: "`--features text`",
        }
        .into()),
        Command::Quantize(args) => on_pool(|| quantize::run(&args)),
        Command::List(args) => list::run(&args),
        Command::Plan(args) => plan::run(&args),
        Command::Inspect(args) => inspect::run(&args),
        Command::InspectModel(args) => inspect_model::run(&args),
        Command::Verify(args) => verify::run(&args),
        Command::Tune(args) => on_pool(|| tune::run(&args)),
        Command::Semantics(args) => semantics::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Bisect(args) => bisect::run(&args),
        Command::NewKernel(args) => new_kernel::run(&args),
        Command::Export(args) => export::run(&args),
        #[cfg(feature = "packages")]
        Command::Packages(args) => packages::run(&args),
        #[cfg(not(feature = "packages"))]
        Command::Packages(_) => Err(feature::Missing {
            what: "kernels packages",
            features: "`--features packages` (or `hub`, which also downloads)",
        }
        .into()),
        #[cfg(feature = "remote")]
        Command::Serve(args) => serve::run(&args),
        #[cfg(not(feature = "remote"))]
        Command::Serve(_) => Err(feature::Missing {
            what: "kernels serve",
            features: "`--features remote` (or `npu`)",
        }
        .into()),
    }
}

fn start_log(verbose: bool) {
    let level = if verbose {
        LevelFilter::DEBUG
    } else {
        LevelFilter::WARN
    };
    // After a lost session, every further operation would be logged.
    let client = "burn_remote::client::service";
    let filter = Targets::new()
        .with_default(level)
        .with_target(client, level.min(LevelFilter::ERROR));
    // The writer adds colours, after it has escaped the text.
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(|| output::Log)
        .with_ansi(false);
    tracing_subscriber::registry()
        .with(lines)
        .with(filter)
        .init();
}

/// Prints a panic like any other error, with its place in the source for a bug report.
fn say_panics_plainly() {
    std::panic::set_hook(Box::new(|panic| {
        #[cfg(feature = "text")]
        if crate::catching::is_catching() {
            return;
        }
        let message = panic.payload_as_str().unwrap_or("unknown panic");
        output::panicked(message, panic.location());
    }));
}
