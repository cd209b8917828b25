//! `kernels plan`: what each site would run, and why not something else.

use crate::choice::{self, DeviceChoice, DtypeChoice};
use crate::output;
use anyhow::{Context, ensure};
use burn_kernels::dispatch::{self, Mode, Plan};
use burn_kernels::policy::Policy;
use kernels_io::Limit;
use std::path::{Path, PathBuf};

/// Show which implementation each site would run on a device, and why others are left out
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The device to plan for.
    #[arg(long, default_value = "cpu")]
    device: DeviceChoice,
    /// The dtype of the tensors.
    #[arg(long, value_enum, default_value_t = DtypeChoice::F32)]
    dtype: DtypeChoice,
    /// Whether gradients are wanted.
    #[arg(long, value_enum, default_value_t = ModeChoice::Training)]
    mode: ModeChoice,
    /// The policy to plan under, in place of BURN_KERNELS.
    #[arg(long, value_name = "POLICY")]
    kernels: Option<Policy>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// Write the plan to a TOML file, for `--check`.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Compare with a plan that `--out` wrote; any change is a failure that lists what changed.
    #[arg(long, value_name = "FILE", conflicts_with = "out")]
    check: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum ModeChoice {
    Training,
    Inference,
}

/// Runs the command.
///
/// # Errors
/// The policy asks for a kernel (`+ID`, `strict`) that can't run on this device with this dtype,
/// or the plan differs from the one in the file, or a file can't be read or written.
pub fn run(args: &Args) -> anyhow::Result<()> {
    choice::install(args.kernels.as_ref());
    let mode = match args.mode {
        ModeChoice::Training => Mode::Training,
        ModeChoice::Inference => Mode::Inference,
    };
    let plan = dispatch::plan(&args.device.device()?, args.dtype.dtype(), mode)?;
    if args.json {
        output::json(&plan)?;
    } else {
        output::text(&plan)?;
    }
    let unmet: Vec<_> = plan
        .sites
        .iter()
        .filter_map(|row| row.unmet.as_deref())
        .collect();
    ensure!(unmet.is_empty(), "{}", unmet.join("\n"));
    if let Some(path) = &args.out {
        output::write_file(path, plan.to_toml().as_bytes())?;
    }
    match &args.check {
        Some(path) => check(&plan, path),
        None => Ok(()),
    }
}

fn check(plan: &Plan, path: &Path) -> anyhow::Result<()> {
    const LIMIT: Limit = Limit::mib("a plan", 16);
    let toml = kernels_io::read_text(path, LIMIT)?;
    plan.check(&toml)
        .with_context(|| kernels_io::escape_path(path))
}
