//! Samples of the functions that all threads are in, by a signal of the processor's clock.

use crate::parts::Function;
use crate::usage::processor;
use anyhow::Context;
use pprof::ProfilerGuardBuilder;
use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::Duration;

/// The samples in a second of processor time. It is prime, so that it keeps no step with what it samples.
const FREQUENCY: i32 = 199;

/// Samples by stack: the functions from the innermost to the outermost.
pub type Stacks = BTreeMap<Vec<Function>, u64>;

/// Runs some work and returns its samples.
pub fn sample(work: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<Stacks> {
    let profiler = ProfilerGuardBuilder::default().frequency(FREQUENCY).build();
    let profiler = profiler.context("the profiler can't be started")?;
    take_first_sample()?;
    work()?;
    let report = profiler.report().build();
    let report = report.context("the samples can't be read")?;
    let mut stacks = Stacks::new();
    for (frames, samples) in report.data {
        let functions = frames.frames.iter().flatten();
        let function = |symbol: &pprof::Symbol| Function {
            name: symbol.name(),
            file: symbol
                .filename
                .as_ref()
                .map(|file| file.display().to_string()),
        };
        let stack: Vec<Function> = functions.map(function).collect();
        let is_first = |function: &Function| function.name.contains("take_first_sample");
        if !stack.iter().any(is_first) {
            *stacks.entry(stack).or_default() += u64::try_from(samples)?;
        }
    }
    Ok(stacks)
}

/// Waits for the first sample, in which the profiler allocates: a thread that is in the allocator would wait for itself.
#[inline(never)]
fn take_first_sample() -> anyhow::Result<()> {
    let start = processor()?;
    while processor()?.saturating_sub(start) < Duration::from_millis(100) {
        black_box(());
    }
    Ok(())
}
