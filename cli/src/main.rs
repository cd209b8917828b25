//! The `kernels` program: train and run models whose layers dispatch to fused kernels, and see
//! which kernel runs where.
//!
//! Results go to standard output, everything else to standard error. The exit code is 0 on
//! success, 1 on a failure, 2 on wrong usage and 130 after Ctrl-C in `bisect`. One file holds one command.

mod bisect;
mod choice;
mod doctor;
mod inspect;
mod list;
mod new_kernel;
#[cfg(feature = "npu")]
mod npu;
mod output;
mod plan;
#[cfg(feature = "remote")]
mod remote;
mod run;
mod semantics;
#[cfg(feature = "remote")]
mod serve;
mod table;
mod train;
mod verify;

use anyhow::Context;
use choice::DeviceChoice;
use clap::{Parser, Subcommand};
use std::io::IsTerminal;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// Train and run models with fused kernels, and see which kernel runs where.
///
/// The environment variable BURN_KERNELS holds the policy for every command; `--kernels` wins
/// over it. A policy is a comma list, for example `all,-npu_fused_rope`, `none,+npu_fused_swiglu` or
/// `all,-llama::*`, or `@FILE.toml`.
#[derive(Debug, Parser)]
#[command(name = "kernels", version, propagate_version = true)]
struct Cli {
    /// Log more to standard error.
    #[arg(short, long, global = true)]
    verbose: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Train(train::Args),
    Run(run::Args),
    List(list::Args),
    Plan(plan::Args),
    Inspect(inspect::Args),
    Verify(verify::Args),
    Semantics(semantics::Args),
    Doctor(doctor::Args),
    Bisect(bisect::Args),
    NewKernel(new_kernel::Args),
    #[cfg(feature = "remote")]
    Serve(serve::Args),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    start_log(cli.verbose);
    say_panics_plainly();
    let device = cli.command.device();
    // Burn and a strict policy report by panic; to the user that is a failed command.
    let done = catch_unwind(AssertUnwindSafe(|| execute(cli.command)));
    if let Some(remark) = device.as_ref().and_then(DeviceChoice::remark) {
        output::note(remark);
    }
    match done {
        Ok(Ok(())) => return ExitCode::SUCCESS,
        Ok(Err(error)) if output::reader_went_away(&error) => return ExitCode::SUCCESS,
        Ok(Err(error)) => {
            output::note(format_args!("error: {}", chain(&error)));
            if let Some(interrupted) = error.downcast_ref::<bisect::Interrupted>() {
                return ExitCode::from(interrupted.exit_code());
            }
        }
        // The hook has said it.
        Err(_) => {}
    }
    // Last, since a server that is gone is waited for.
    if let Some(why) = device.as_ref().and_then(DeviceChoice::explain) {
        output::note(why);
    }
    ExitCode::FAILURE
}

impl Command {
    /// The device that the command computes on.
    fn device(&self) -> Option<DeviceChoice> {
        match self {
            Self::Train(args) => Some(args.device.clone()),
            Self::Run(args) => Some(args.device.clone()),
            Self::Verify(args) => Some(args.device.clone()),
            _ => None,
        }
    }
}

fn execute(command: Command) -> anyhow::Result<()> {
    burn_kernels::init().context("the kernels cannot start")?;
    match command {
        Command::Train(args) => train::run(&args),
        Command::Run(args) => run::run(&args),
        Command::List(args) => list::run(&args),
        Command::Plan(args) => plan::run(&args),
        Command::Inspect(args) => inspect::run(&args),
        Command::Verify(args) => verify::run(&args),
        Command::Semantics(args) => semantics::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Bisect(args) => bisect::run(&args),
        Command::NewKernel(args) => new_kernel::run(&args),
        #[cfg(feature = "remote")]
        Command::Serve(args) => serve::run(&args),
    }
}

/// The error and its causes in one line. Some errors already quote their cause; that is not repeated.
fn chain(error: &anyhow::Error) -> String {
    error.chain().fold(String::new(), |mut line, cause| {
        let cause = cause.to_string();
        if !line.ends_with(&cause) {
            if !line.is_empty() {
                line.push_str(": ");
            }
            line.push_str(&cause);
        }
        line
    })
}

fn start_log(verbose: bool) {
    let level = if verbose {
        LevelFilter::DEBUG
    } else {
        LevelFilter::WARN
    };
    // Of a lost session every operation that follows would be a line.
    let client = "burn_remote::client::service";
    let filter = Targets::new()
        .with_default(level)
        .with_target(client, level.min(LevelFilter::ERROR));
    // Without a terminal, colours would be noise in a file.
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(|| output::Log)
        .with_ansi(std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none());
    tracing_subscriber::registry()
        .with(lines)
        .with(filter)
        .init();
}

/// One line for a panic, like any other error, with the place for a bug report.
fn say_panics_plainly() {
    std::panic::set_hook(Box::new(|panic| {
        let message = panic.payload_as_str().unwrap_or("unknown panic");
        output::panicked(message, panic.location());
    }));
}
