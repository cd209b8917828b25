//! The time of a run, and the paths of its sites.

use super::groups::Run;
use burn_kernels::report;
use serde::Serialize;
use std::time::{Duration, Instant};

/// The time that the runs of a row take at least. `compare_torch.py` has the same numbers.
const TIME: Duration = Duration::from_millis(500);
/// The smallest number of runs.
const FEWEST: usize = 5;
/// The largest number of runs.
const MOST: usize = 1000;

/// The measurement of a row.
#[derive(Serialize)]
pub struct Measured {
    /// The median time of a run.
    pub ms: f64,
    /// The number of runs.
    pub samples: usize,
    /// The path that ran: `fused`, the reasons of the references, or `no site` where no layer has the attribute.
    pub path: String,
    /// The kernel and path of each kind of call.
    pub sites: Vec<String>,
}

/// Measures a run after two that warm up: first calls are verified and fill caches.
pub fn measure(mut run: Run, quick: bool) -> Measured {
    run();
    report::reset();
    run();
    let calls = calls(&report::report());
    let (least, time) = match quick {
        true => (1, Duration::ZERO),
        false => (FEWEST, TIME),
    };
    let started = Instant::now();
    let mut times = Vec::new();
    while times.len() < least || (times.len() < MOST && started.elapsed() < time) {
        let begun = Instant::now();
        run();
        times.push(begun.elapsed().as_secs_f64() * 1e3);
    }
    Measured {
        samples: times.len(),
        ms: median(times),
        path: path(&calls),
        sites: calls.iter().map(Call::to_string).collect(),
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The path of a kind of call.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Call {
    kernel: &'static str,
    path: String,
    is_fused: bool,
}

impl std::fmt::Display for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.kernel, self.path)
    }
}

/// Returns the paths of the calls since the last reset, each once.
fn calls(report: &report::Report) -> Vec<Call> {
    let reached = report.rows.iter().filter_map(|row| {
        let call = row.call.as_ref()?;
        Some(Call {
            kernel: call.kernel.unwrap_or(row.kernel),
            path: call.path(),
            is_fused: call.implementation.is_some(),
        })
    });
    let mut calls: Vec<Call> = reached.collect();
    calls.sort();
    calls.dedup();
    calls
}

/// Returns the path of a whole row.
fn path(calls: &[Call]) -> String {
    let references: Vec<String> = calls
        .iter()
        .filter(|call| !call.is_fused)
        .map(Call::to_string)
        .collect();
    match (calls, references.as_slice()) {
        ([], _) => "no site".to_owned(),
        (_, []) => "fused".to_owned(),
        (_, references) => references.join("; "),
    }
}
