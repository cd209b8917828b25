//! What tests ask of the emulator besides CANN's own queries.

use std::sync::{Mutex, PoisonError};

use crate::memory::{MAX_DEVICES, Usage, memory};

static LAST: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Keeps what `aclFinalize` found, and writes it to stderr if it is anything.
pub(crate) fn keep(report: Vec<String>) {
    if !report.is_empty() {
        eprintln!("cann-emulator: aclFinalize found what was not given back:");
        for line in &report {
            eprintln!("  {line}");
        }
    }
    *LAST.lock().unwrap_or_else(PoisonError::into_inner) = report;
}

/// What the last `aclFinalize` found to be not given back, a line each.
pub fn last_report() -> Vec<String> {
    LAST.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// The memory of a device; nothing of one that cannot be.
pub fn usage(device: u32) -> Usage {
    if device < MAX_DEVICES {
        memory().usage(device as i32)
    } else {
        Usage::default()
    }
}
