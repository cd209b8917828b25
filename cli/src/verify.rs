//! `kernels verify`: compares every kernel with its reference on this machine.

use crate::choice::DeviceChoice;
use crate::output;
use crate::screen::Width;
use anyhow::bail;
use burn::tensor::Device;
use burn_kernels::ops::quantized_linear_int8 as int8;
use burn_kernels::verify;

/// Compare every kernel with its reference, forward and backward, on this machine
///
/// Prints a summary for each kernel and every case that failed. The summary gives the number of cases, the number that
/// passed, and the largest error relative to the tolerance of its dtype. The exit code is 1 if a case failed.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The device to verify on.
    #[arg(long, default_value = "cpu")]
    pub device: DeviceChoice,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// Print every case, not only a summary and the failures.
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    width: Width,
}

/// Runs the command.
///
/// # Errors
/// Returns an error if a kernel differs from its reference by more than the tolerance of its dtype.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let report = verify::verify_all(&args.device.device()?, &Device::flex());
    if args.json {
        output::json(&report)?;
    } else {
        let mut page = report.page(args.width.look(), args.all);
        if !args.all {
            page.line("`kernels verify --all` prints every case");
        }
        page.line(of_int8());
        output::page(&page)?;
    }
    if !report.passed() {
        bail!("a kernel differs from its reference; switch it off with --kernels=all,-ID");
    }
    Ok(())
}

/// Returns the error of rounding to 8 bits. It is there by design, not by a mistake of a kernel.
fn of_int8() -> String {
    format!(
        "with --activations int8 ({}), products with quantised weights are {:.2} % off (root mean square)",
        int8::IMPLEMENTATION,
        100.0 * int8::measured_error()
    )
}
