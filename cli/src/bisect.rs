//! `kernels bisect`: finds the annotated sites that make a command fail when they run fused.

mod ddmin;
pub(crate) mod interrupt;
mod runs;

pub use interrupt::Interrupted;

use crate::output;
use anyhow::bail;
use runs::{Outcome, Runs};
use serde_json::json;
use std::ffi::OsString;
use std::time::Duration;

/// Find the sites that make a command fail when they run fused
///
/// Runs COMMAND with all kernels, where it must fail, and without kernels, where it must succeed. Then it switches off
/// parts of the sites until the failure needs every site that is left. COMMAND fails if its exit code is not 0. It may
/// be a wrapper such as `cargo test` or a script, because the lists of sites are passed in environment variables
/// (BURN_KERNELS_TRACE_SITES, BURN_KERNELS_SITES_OFF). If BURN_KERNELS is set, its policy is used in place of "all
/// kernels".
///
/// The first run may compile, so it shows the messages of COMMAND. To keep compilation out of the runs, build first,
/// for example with `cargo test --no-run`.
///
/// Ctrl-C is passed on to COMMAND, which has five seconds to end. A second Ctrl-C ends it at once.
///
/// Exit code: 0 if sites are found, 1 if kernels are not the cause or COMMAND can't be run, 2 on wrong usage, 130 after
/// Ctrl-C.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// End a run that takes longer and count it as failed.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    timeout: Option<Duration>,
    /// Show the command's output in every run.
    #[arg(long)]
    show: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// The command and its arguments.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text
        .parse()
        .map_err(|_| format!("`{text}` is not a number"))?;
    Duration::try_from_secs_f64(seconds)
        .ok()
        .filter(|timeout| !timeout.is_zero())
        .ok_or_else(|| "a timeout is a positive number of seconds".to_owned())
}

/// Runs the command.
///
/// # Errors
/// Returns an error if the command can't be run, succeeds with all kernels or fails without any. Returns
/// [`Interrupted`] after a signal.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let mut runs = Runs::new(&args.command, args.timeout, args.show)?;
    let suspects = suspects(&mut runs)?;
    let found = ddmin::minimise(suspects, |on| runs.only(on).map(Outcome::failed))?;
    let rest_passes = !runs.without(&found)?.failed();
    report(args, &runs, &found, rest_passes)
}

/// Returns the sites that ran fused when the command failed.
fn suspects(runs: &mut Runs<'_>) -> anyhow::Result<Vec<String>> {
    let all = runs.all()?;
    if let Outcome::Succeeded = all {
        bail!("the command succeeds with all kernels: there is nothing to find");
    }
    if runs.sites().is_empty() {
        bail!(
            "the command {all} with all kernels, but no annotated site ran fused: kernels are not \
             the cause"
        );
    }
    let suspects = runs.sites().iter().cloned().collect();
    let none = runs.none()?;
    if none.failed() {
        bail!("the command {none} without any kernel too: kernels are not the cause");
    }
    Ok(suspects)
}

fn report(args: &Args, runs: &Runs<'_>, found: &[String], rest_passes: bool) -> anyhow::Result<()> {
    let policy = runs.policy_without(found);
    if args.json {
        return output::json(&json!({
            "sites": found,
            "runs": runs.count(),
            "policy": policy,
            "succeeds_without_them": rest_passes,
        }));
    }
    let names = found.join("\n  ");
    let together = match found.len() {
        1 => "This site makes the command fail when it runs fused:",
        _ => "These sites together make the command fail when they run fused:",
    };
    let rest = match rest_passes {
        true => "With all others fused, the command succeeds:",
        false => {
            "With all others fused, the command still fails, so there are more. Continue with:"
        }
    };
    output::text(format_args!(
        "{together}\n  {names}\n{rest}\n  BURN_KERNELS={policy}"
    ))
}
