//! Messages that Burn keeps back.
//!
//! Burn's client collects operations and sends some tens of them together, or what there is when something is read. A
//! reduction on one device waits for its parts on the others, which may still be kept back. Burn's `Learner` waits for ever
//! so under `ExecutionStrategy::ddp`: one worker's metrics read a loss behind a reduction, while the other worker, whose part
//! has not been sent, waits for the metrics.
//!
//! In a build with a GPU's feature, Burn's fusion collects operations before its client does, for each thread by itself. No
//! other thread can send those.

use burn::tensor::Device;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

/// The longest time that a message is kept back.
const LONGEST: Duration = Duration::from_millis(5);

/// Sends what is kept back for devices, now and then, until it is dropped.
#[derive(Default)]
pub(crate) struct Sending(Arc<AtomicBool>);

impl Sending {
    /// Adds a device.
    ///
    /// # Errors
    /// Returns an error if the system starts no thread.
    pub(crate) fn add(&self, device: &Device) -> io::Result<()> {
        let (device, ended) = (device.clone(), self.0.clone());
        let send = move || {
            while !ended.load(Relaxed) && device.flush().is_ok() {
                thread::sleep(LONGEST);
            }
        };
        let thread = thread::Builder::new().name("flush".into());
        thread.spawn(send).map(drop)
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}
