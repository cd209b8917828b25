//! The time limit of an operator. It is kept and returned but never enforced, because emulated operators take the
//! host's time.

use std::sync::atomic::{AtomicU64, Ordering};

use super::runtime::{function, give};
use crate::error::Outcome;
use crate::state;

/// The step of the limit in microseconds. The value is the emulator's own, since processors differ.
const INTERVAL_US: u64 = 1_000_000;
/// The largest number of steps.
const MOST: u64 = 254;

static LIMIT_US: AtomicU64 = AtomicU64::new(MOST * INTERVAL_US);

/// Sets the limit, rounded up to whole steps. 0 stands for the longest.
fn set(microseconds: u64) -> Outcome<u64> {
    state::current_device()?;
    let steps = match microseconds.div_ceil(INTERVAL_US) {
        0 => MOST,
        steps => steps.min(MOST),
    };
    LIMIT_US.store(steps * INTERVAL_US, Ordering::Relaxed);
    Ok(steps * INTERVAL_US)
}

function!(aclrtSetOpExecuteTimeOut(seconds: u32) { set(u64::from(seconds) * 1_000_000).map(drop) });
function!(aclrtSetOpExecuteTimeOutWithMs(milliseconds: u32) { set(u64::from(milliseconds) * 1000).map(drop) });
function!(aclrtSetOpExecuteTimeOutV2(microseconds: u64, actual: *mut u64) {
    let found = set(microseconds)?;
    // SAFETY: the caller guarantees the place.
    unsafe { give(actual, found) }
});
function!(aclrtGetOpExecuteTimeout(milliseconds: *mut u32) {
    state::current_device()?;
    // SAFETY: the caller guarantees the place.
    unsafe { give(milliseconds, (LIMIT_US.load(Ordering::Relaxed) / 1000) as u32) }
});
function!(aclrtGetOpTimeOutInterval(microseconds: *mut u64) {
    state::current_device()?;
    // SAFETY: the caller guarantees the place.
    unsafe { give(microseconds, INTERVAL_US) }
});
