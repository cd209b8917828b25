//! NPUs of this machine, as given to `--device npu`.

use crate::output;
use burn::tensor::Device;
use burn_kernels::{npu, remote};
use std::sync::Once;

/// Returns the device. The first call prints what it is, so that an emulator is not taken for a real NPU.
///
/// # Errors
/// Returns an error if CANN is not installed, or if it has no device with this number.
pub fn device(index: usize) -> anyhow::Result<Device> {
    static SAID: Once = Once::new();
    let device = npu::device(index)?;
    SAID.call_once(|| {
        if let Some(known) = remote::describe(&device) {
            output::note(format_args!(
                "{}:{} is {}",
                known.kind, known.index, known.name
            ));
        }
    });
    Ok(device)
}

/// Returns a sentence with the number of calls of each operation that ran on the host. The log has only the first call
/// of each.
pub fn on_host() -> Option<String> {
    let counts = npu::fallbacks();
    let counts: Vec<_> = counts
        .iter()
        .map(|(operation, count)| format!("{operation} {count}"))
        .collect();
    let counts = (!counts.is_empty()).then(|| counts.join(", "))?;
    Some(format!(
        "operations that ran on the host instead of the NPU, with their counts: {counts}"
    ))
}

/// Returns the reason why the device's session ended, if it did.
pub fn failure(index: usize) -> Option<String> {
    let why = remote::failure(&npu::device(index).ok()?)?;
    Some(format!("the NPU reported: {why}"))
}
