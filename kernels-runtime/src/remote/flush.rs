//! Messages that Burn keeps back.
//!
//! Burn's client collects operations and sends some tens of them together, or what there is when something is read. A
//! reduction on one device waits for its parts on the others, which may still be kept back. Burn's `Learner` waits for ever
//! so under `ExecutionStrategy::ddp`: one worker's metrics read a loss behind a reduction, while the other worker, whose part
//! has not been sent, waits for the metrics.

use burn::tensor::Device;
use std::thread;
use std::time::Duration;

/// The longest time that a message is kept back.
const LONGEST: Duration = Duration::from_millis(5);

/// Sends what is kept back for a device, now and then, until its session ends.
pub(crate) fn keep_sending(device: &Device) {
    let device = device.clone();
    let send = move || {
        while device.flush().is_ok() {
            thread::sleep(LONGEST);
        }
    };
    let started = thread::Builder::new().name("flush".into()).spawn(send);
    started.expect("the system starts a thread");
}
