//! Measures where the time of a training step goes: the default model of `kernels train`, with the program's optimiser
//! and allocator.
//!
//! ```sh
//! CARGO_PROFILE_BENCH_DEBUG=line-tables-only cargo bench -p kernels-cli --bench profile
//! ```
//!
//! prints a table; `-- --json FILE` also writes it as JSON, `--stacks FILE` writes the samples by stack, as flame graphs
//! take them, and `--trace FILE` writes the spans of the sites for <https://ui.perfetto.dev>.
//!
//! A sampling profiler asks all threads where they are, so that Burn's operations, which have no spans, are seen too. A
//! sample counts for the innermost function that belongs to a part of the step ([`parts`]). Line tables show
//! inlined functions and the files of all. Times and page faults are those of steps without the profiler. It runs on Linux only.

#![cfg_attr(not(target_os = "linux"), allow(dead_code, unused_imports))]

#[allow(
    dead_code,
    unused_imports,
    reason = "without a test harness, of its tests only the imports and helpers are left"
)]
#[path = "../../src/training/optimiser.rs"]
mod optimiser;
mod parts;
#[path = "../../src/train/preset.rs"]
mod preset;
#[cfg(target_os = "linux")]
mod results;
#[cfg(target_os = "linux")]
mod sampler;
#[cfg(target_os = "linux")]
mod trace;
mod training;
#[cfg(target_os = "linux")]
mod usage;

use burn::tensor::FloatDType;
use clap::Parser;
use std::path::PathBuf;

/// The steps before the measurement: they create the optimiser's state and verify first calls.
const WARMUP: usize = 10;

/// The steps of a trace.
const TRACED: usize = 3;

/// Measure where the time of a training step goes
#[derive(Debug, Parser)]
struct Args {
    /// Write the results as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the samples: a line for each stack, outermost function first, and their number.
    #[arg(long, value_name = "FILE")]
    stacks: Option<PathBuf>,
    /// Write the spans of the sites in a few steps, for a viewer of Chrome traces.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// The number of measured steps.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..))]
    steps: u32,
    /// The dtype that losses and gradients are computed in: f32 or bf16.
    #[arg(long, default_value = "f32", value_parser = dtype)]
    dtype: FloatDType,
    /// `cargo bench` passes it.
    #[arg(long, hide = true)]
    bench: bool,
}

fn dtype(text: &str) -> Result<FloatDType, String> {
    match text {
        "f32" => Ok(FloatDType::F32),
        "bf16" => Ok(FloatDType::BF16),
        _ => Err("the program trains in f32 and bf16".to_owned()),
    }
}

fn main() -> anyhow::Result<()> {
    // The allocator has to be set up before there are threads.
    burn_kernels::memory::keep_freed();
    let args = Args::parse();
    burn_kernels::threads::on_pool(|| run(&args))
}

#[cfg(not(target_os = "linux"))]
fn run(_: &Args) -> anyhow::Result<()> {
    anyhow::bail!("the profiler runs on Linux only")
}

#[cfg(target_os = "linux")]
fn run(args: &Args) -> anyhow::Result<()> {
    use std::fmt::Write;
    // `cargo test` only checks that the benchmark runs.
    let (warmup, steps) = match args.bench {
        true => (WARMUP, usize::try_from(args.steps)?),
        false => (1, 1),
    };
    let mut training = training::Training::new(args.dtype)?;
    let mut take = |steps: usize| -> anyhow::Result<()> {
        for _ in 0..steps {
            let loss = training.step()?;
            anyhow::ensure!(loss.is_finite(), "the loss is {loss}");
        }
        Ok(())
    };
    take(warmup)?;
    let ((), usage) = usage::Usage::of(|| take(steps))?;
    let stacks = sampler::sample(|| take(steps))?;
    if let Some(path) = &args.trace {
        trace::record(path, || take(TRACED))?;
    }
    let threads = std::thread::available_parallelism()?.get();
    let results = results::Results::new(args.dtype, threads, steps, &usage, &stacks);
    print!("{results}");
    if let Some(path) = &args.json {
        let text = serde_json::to_string_pretty(&results)? + "\n";
        kernels_io::write_whole(path, text.as_bytes())?;
    }
    if let Some(path) = &args.stacks {
        let mut text = String::new();
        for (stack, samples) in &stacks {
            let outermost_first: Vec<&str> = stack.iter().rev().map(|at| &*at.name).collect();
            writeln!(text, "{} {samples}", outermost_first.join(";"))?;
        }
        kernels_io::write_whole(path, text.as_bytes())?;
    }
    Ok(())
}
