//! The GPU of this machine, as given to `--device gpu`.

use crate::output;
use anyhow::anyhow;
use burn::tensor::Device;
use std::sync::OnceLock;

/// Returns the device that wgpu prefers. The first call opens it and prints what it is, so that a software GPU is not taken
/// for a real one.
///
/// # Errors
/// Returns an error if there is no GPU that wgpu can use.
pub fn device() -> anyhow::Result<Device> {
    static OPENED: OnceLock<Result<Device, String>> = OnceLock::new();
    let opened = OPENED.get_or_init(|| {
        let device = Device::wgpu_options().init();
        let device = device.map_err(|error| error.to_string())?;
        if let Some(known) = device.identity() {
            output::note(format_args!("gpu is {}", kernels_io::escape(&known.name)));
        }
        Ok(device)
    });
    let opened = opened.clone();
    opened.map_err(|error| anyhow!("no GPU can be used: {}", kernels_io::escape(&error)))
}
