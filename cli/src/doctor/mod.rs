//! `kernels doctor`: what this build and this machine can do, and what an NPU still needs.

mod cpu;
mod npu;
mod operations;
mod report;

use crate::output;
use anyhow::ensure;
use report::Report;

/// Say what this machine and this build can do, and what a device still needs
///
/// The exit code is 0 unless `--require` names a device that is not ready.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Fail unless this device is ready.
    #[arg(long, value_enum)]
    require: Option<Require>,
    /// Also list Burn's operations on an NPU, each with where it runs: on the device, or on the host.
    #[arg(long)]
    ops: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// A kind of device that a script may insist on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Require {
    /// An Ascend NPU that CANN can use; not the emulator.
    Npu,
    /// An NPU that the emulator of CANN emulates.
    EmulatedNpu,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let mut report = Report::default();
    cpu::look(&mut report);
    let npu = npu::look(&mut report);
    let operations = args.ops.then(operations::list).transpose()?;
    if args.json {
        let mut json = report.json(&npu);
        if let Some(operations) = &operations {
            json["operations"] = operations.json();
        }
        output::json(&json)?;
    } else {
        output::text(format_args!("{report}\n\n{npu}"))?;
        if let Some(operations) = &operations {
            output::text(format_args!("\n{operations}"))?;
        }
    }
    match args.require {
        Some(Require::Npu) => ensure!(npu.is_real(), "no NPU is ready: {npu}"),
        Some(Require::EmulatedNpu) => ensure!(npu.is_emulated(), "no NPU is emulated: {npu}"),
        None => {}
    }
    Ok(())
}
