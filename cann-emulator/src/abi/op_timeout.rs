//! How long an operator may run. Kept and told, never enforced: emulated operators take the host's time.

use std::sync::atomic::{AtomicU64, Ordering};

use super::runtime::{function, give};
use crate::error::Outcome;
use crate::state;

/// The step of the figures, in microseconds: the emulator's own, since processors differ.
const INTERVAL_US: u64 = 1_000_000;
/// How many steps there are.
const MOST: u64 = 254;

static LIMIT_US: AtomicU64 = AtomicU64::new(MOST * INTERVAL_US);

/// Rounds up to whole steps; 0 is the longest.
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
    // SAFETY: the caller vouches for the place.
    unsafe { give(actual, found) }
});
function!(aclrtGetOpExecuteTimeout(milliseconds: *mut u32) {
    state::current_device()?;
    // SAFETY: the caller vouches for the place.
    unsafe { give(milliseconds, (LIMIT_US.load(Ordering::Relaxed) / 1000) as u32) }
});
function!(aclrtGetOpTimeOutInterval(microseconds: *mut u64) {
    state::current_device()?;
    // SAFETY: the caller vouches for the place.
    unsafe { give(microseconds, INTERVAL_US) }
});
