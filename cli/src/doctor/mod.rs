//! `kernels doctor`: what this build and this machine can do, and what is missing for an NPU.

mod build;
mod cpu;
mod npu;
mod operations;
mod report;

use crate::output;
use crate::screen::Width;
use anyhow::ensure;
use kernels_io::{Page, Tone};
use report::Report;

/// Show what this machine and this build can do, and what a device still needs
///
/// The exit code is 0 unless `--require` names a device that is not ready.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Fail unless this device is ready.
    #[arg(long, value_enum)]
    require: Option<Require>,
    /// Also list Burn's operations on an NPU, each with the place where it runs (NPU or host).
    #[arg(long)]
    ops: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    width: Width,
}

/// A kind of device that a script can require.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Require {
    /// A real Ascend NPU that CANN can use.
    Npu,
    /// An NPU of the CANN emulator.
    EmulatedNpu,
}

/// Runs the command.
///
/// # Errors
/// Returns an error if the required device is not ready, or if this build can't list operations on NPUs.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let mut report = Report::default();
    build::look(&mut report)?;
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
        let mut page = Page::new(args.width.look());
        page.table(&report.table());
        page.line("");
        let tone = match npu.is_real() || npu.is_emulated() {
            true => Tone::Good,
            false => Tone::Caution,
        };
        page.toned(tone, &npu);
        if let Some(operations) = &operations {
            page.line("");
            operations.show(&mut page);
        }
        output::page(&page)?;
    }
    match args.require {
        Some(Require::Npu) => ensure!(npu.is_real(), "no NPU is ready: {npu}"),
        Some(Require::EmulatedNpu) => ensure!(npu.is_emulated(), "no NPU is emulated: {npu}"),
        None => {}
    }
    Ok(())
}
