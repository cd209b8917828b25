//! `kernels plan`: what each site would run, and why not something else.

use crate::choice::{self, DeviceChoice, DtypeChoice};
use crate::output;
use anyhow::ensure;
use burn_kernels::dispatch::{self, Mode};
use burn_kernels::policy::Policy;

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
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum ModeChoice {
    Training,
    Inference,
}

/// Runs the command.
///
/// # Errors
/// The policy asks for a kernel (`+ID`, `strict`) that can't run on this device with this dtype.
pub fn run(args: &Args) -> anyhow::Result<()> {
    choice::install(args.kernels.as_ref());
    let mode = match args.mode {
        ModeChoice::Training => Mode::Training,
        ModeChoice::Inference => Mode::Inference,
    };
    let plan = dispatch::plan(&args.device.device(), args.dtype.dtype(), mode)?;
    if args.json {
        output::json(&plan)?;
    } else {
        output::text(&plan)?;
    }
    ensure!(
        plan.is_met(),
        "the policy asks for a kernel that can't run there"
    );
    Ok(())
}
