//! `kernels packages`: packages of kernels that others built. No code of a package runs.

mod bindings;
mod check;
mod list;
mod lock;
mod show;
mod source;

use clap::Subcommand;

/// Look at packages of kernels that others built, and lock them
///
/// A package is a folder, or a repository of Hugging Face's hub with a version, a branch, a tag or a commit, such as
/// org/name@v1. A folder that exists takes precedence. Files are read and checked. No code of a package runs.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    List(list::Args),
    Show(show::Args),
    Check(check::Args),
    Lock(lock::Args),
}

/// Runs the command.
///
/// # Errors
/// Returns the error of the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    match &args.command {
        Command::List(args) => list::run(args),
        Command::Show(args) => show::run(args),
        Command::Check(args) => check::run(args),
        Command::Lock(args) => lock::run(args),
    }
}
