//! The loss of a device, as configured.

use std::sync::{Mutex, MutexGuard, PoisonError};

use cann_sys::errors::ACL_ERROR_RT_LOST_HEARTBEAT;

use crate::error::{Outcome, ensure};

struct Losses {
    /// The number of tasks of all streams so far.
    tasks: u64,
    devices: Vec<i32>,
}

static LOSSES: Mutex<Losses> = Mutex::new(Losses {
    tasks: 0,
    devices: Vec::new(),
});

fn losses() -> MutexGuard<'static, Losses> {
    LOSSES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Counts a task of a stream of `device`. The device is lost with task `at`.
///
/// # Errors
///
/// Returns an error if the device is lost, now or before.
pub(crate) fn task(device: i32, at: Option<u64>) -> Outcome<()> {
    let mut losses = losses();
    losses.tasks += 1;
    if at == Some(losses.tasks) {
        losses.devices.push(device);
    }
    drop(losses);
    check(device)
}

/// Fails if the device is lost.
pub(crate) fn check(device: i32) -> Outcome<()> {
    ensure!(!losses().devices.contains(&device), ACL_ERROR_RT_LOST_HEARTBEAT;
        "device {device} is lost, as the emulator was asked (device_lost_at)");
    Ok(())
}

/// Resets the losses: all devices work, and no task was counted.
pub(crate) fn forget() {
    let mut losses = losses();
    losses.tasks = 0;
    losses.devices.clear();
}
