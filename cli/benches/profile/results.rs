//! The table, and the same numbers as JSON.

use crate::parts::Part;
use crate::sampler::Stacks;
use crate::training::BATCH;
use crate::usage::Usage;
use burn::tensor::FloatDType;
use serde::Serialize;
use std::fmt;

/// The results of a run.
#[derive(Debug, Serialize)]
pub struct Results {
    dtype: String,
    batch: [usize; 2],
    threads: usize,
    steps: usize,
    samples: u64,
    step_ms: f64,
    processor_ms: f64,
    system_ms: f64,
    page_faults: f64,
    parts: Vec<Row>,
}

/// The share of a part.
#[derive(Debug, Serialize)]
struct Row {
    part: &'static str,
    samples: u64,
    share: f64,
}

impl Results {
    /// Takes what the steps used, and the samples of as many other steps.
    pub fn new(
        dtype: FloatDType,
        threads: usize,
        steps: usize,
        usage: &Usage,
        stacks: &Stacks,
    ) -> Self {
        let samples: u64 = stacks.values().sum();
        let of_step = |time: std::time::Duration| time.as_secs_f64() * 1e3 / steps as f64;
        let row = |part: Part| {
            let own = stacks.iter().filter(|(stack, _)| Part::of(*stack) == part);
            let own: u64 = own.map(|(_, samples)| *samples).sum();
            Row {
                part: part.name(),
                samples: own,
                share: own as f64 / samples.max(1) as f64,
            }
        };
        Self {
            dtype: format!("{dtype:?}").to_lowercase(),
            batch: BATCH,
            threads,
            steps,
            samples,
            step_ms: of_step(usage.wall),
            processor_ms: of_step(usage.processor()),
            system_ms: of_step(usage.system),
            page_faults: usage.faults as f64 / steps as f64,
            parts: Part::ALL.map(row).into(),
        }
    }
}

impl fmt::Display for Results {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "| part | of the processor's time | of a step |")?;
        writeln!(f, "|---|---|---|")?;
        for Row { part, share, .. } in &self.parts {
            let time = share * self.processor_ms;
            writeln!(f, "| {part} | {:.1} % | {time:.1} ms |", 100.0 * share)?;
        }
        let busy = self.processor_ms / self.step_ms;
        let waiting = 1.0 - busy / self.threads as f64;
        writeln!(f)?;
        writeln!(
            f,
            "A step takes {:.1} ms and {:.1} ms of processor time, {:.1} ms of it in the system ({:.1} %), with {:.0} \
             page faults. It keeps {busy:.2} of {} cores busy and waits on them for {:.1} % of the time.",
            self.step_ms,
            self.processor_ms,
            self.system_ms,
            100.0 * self.system_ms / self.processor_ms,
            self.page_faults,
            self.threads,
            100.0 * waiting,
        )?;
        writeln!(
            f,
            "({} steps without the profiler, {} samples of as many others)",
            self.steps, self.samples
        )
    }
}
