//! `kernels verify`: compares every kernel with its reference on this machine.

use crate::choice::DeviceChoice;
use crate::output;
use crate::screen::Width;
use anyhow::{bail, ensure};
use burn::tensor::Device;
use burn_kernels::ops::quantized_linear::{cost_of_rounding, measured_error, runs_on};
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
    let device = args.device.device()?;
    let report = verify::verify_all(&device, &Device::flex());
    let quantised = runs_on(&device).then(Quantised::measured);
    if args.json {
        output::json(&report)?;
    } else {
        let mut page = report.page(args.width.look(), args.all);
        if !args.all {
            page.line("`kernels verify --all` prints every case");
        }
        if let Some(quantised) = &quantised {
            page.line(quantised.line());
        }
        output::page(&page)?;
    }
    if !report.passed() {
        bail!("a kernel differs from its reference; switch it off with --kernels=all,-ID");
    }
    quantised.map_or(Ok(()), |quantised| quantised.check())
}

/// The errors of products with quantised weights, which no case has: root mean squares, relative to the size of results.
struct Quantised {
    exact: f64,
    rounded: f64,
}

impl Quantised {
    fn measured() -> Self {
        Self {
            exact: measured_error(),
            rounded: cost_of_rounding(),
        }
    }

    fn line(&self) -> String {
        format!(
            "products with quantised weights are {:.0e} off (root mean square), and {:.2} % with --activations int8 ({})",
            self.exact,
            100.0 * self.rounded,
            int8::IMPLEMENTATION
        )
    }

    /// Sums of a thousand terms in f32 are some 1e-7 off, and rows rounded to 8 bits some 5e-3.
    fn check(&self) -> anyhow::Result<()> {
        ensure!(
            self.exact < 1e-6,
            "products with quantised weights are {:e} off; run with --dequantize",
            self.exact
        );
        ensure!(
            (1e-3..1e-2).contains(&self.rounded),
            "products of {} are {:.2} % off, which rounding does not explain; leave out --activations int8",
            int8::IMPLEMENTATION,
            100.0 * self.rounded
        );
        Ok(())
    }
}
