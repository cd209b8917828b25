//! `kernels verify`: every kernel against its reference on this machine.

use crate::choice::DeviceChoice;
use crate::output;
use anyhow::bail;
use burn::tensor::Device;
use burn_kernels::verify;

/// Compare every kernel with its reference, forward and backward, on this machine
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The device to verify on.
    #[arg(long, default_value = "cpu")]
    pub device: DeviceChoice,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
///
/// # Errors
/// A kernel differs from its reference by more than its dtype allows.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let report = verify::verify_all(&args.device.device()?, &Device::flex());
    if args.json {
        output::json(&report)?;
    } else {
        output::text(&report)?;
    }
    if !report.passed() {
        bail!(
            "a kernel does not compute what its reference does; switch it off with --kernels=all,-ID"
        );
    }
    Ok(())
}
