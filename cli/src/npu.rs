//! NPUs of this machine, as `--device npu` names them.

use crate::output;
use burn::tensor::Device;
use burn_kernels::{npu, remote};
use std::sync::Once;

/// The number in `npu` (the first) or `npu:N`; `None` for other devices.
pub fn index(name: &str) -> Option<Result<usize, String>> {
    let number = match name.strip_prefix("npu")? {
        "" => return Some(Ok(0)),
        rest => rest.strip_prefix(':')?,
    };
    let wrong = |_| format!("`{number}` is no device's number; the first is `npu:0`");
    Some(number.parse().map_err(wrong))
}

/// The device. What it is, the emulator above all, is said once.
///
/// # Errors
/// There is none of this number, or no CANN.
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

/// What ran on the host, of which the log names the first time only.
pub fn on_host() -> Option<String> {
    let counts = npu::fallbacks();
    let counts: Vec<_> = counts
        .iter()
        .map(|(operation, count)| format!("{operation} {count}"))
        .collect();
    let counts = (!counts.is_empty()).then(|| counts.join(", "))?;
    Some(format!(
        "operations that ran on the host in place of the NPU, and how often: {counts}"
    ))
}

/// Why the device's session ended, if it did.
pub fn failure(index: usize) -> Option<String> {
    let why = remote::failure(&npu::device(index).ok()?)?;
    Some(format!("the NPU said: {why}"))
}
