//! `kernels bench`: works with the results of benchmarks.

mod compare;

use clap::Subcommand;

/// Compare the results of benchmarks
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Compare(compare::Args),
}

/// Runs the command.
///
/// # Errors
/// Returns an error as [`compare::run`] does.
pub fn run(args: &Args) -> anyhow::Result<()> {
    match &args.command {
        Command::Compare(args) => compare::run(args),
    }
}
