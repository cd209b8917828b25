//! Reports for tests, besides CANN's own queries.

use std::sync::{Mutex, PoisonError};

use crate::memory::{MAX_DEVICES, Usage, memory};

static LAST: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Keeps the findings of `aclFinalize`, and writes them to stderr if there are any.
pub(crate) fn keep(report: Vec<String>) {
    if !report.is_empty() {
        eprintln!("cann-emulator: aclFinalize found what was not given back:");
        for line in &report {
            eprintln!("  {line}");
        }
    }
    *LAST.lock().unwrap_or_else(PoisonError::into_inner) = report;
}

/// Returns what the last `aclFinalize` found to be not given back, one line each.
pub fn last_report() -> Vec<String> {
    LAST.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Returns the use of a device's memory. It is zero for a device that cannot exist.
pub fn usage(device: u32) -> Usage {
    if device < MAX_DEVICES {
        memory().usage(device as i32)
    } else {
        Usage::default()
    }
}
