//! The stream of an NPU for functions that don't take it as an argument.

use crate::error::Error;
use crate::runtime::{self, Runtime};
use crate::tensor::Device;
use std::ffi::c_void;

/// Runs calls with a stream as that of the device, for this thread: functions of TVM-FFI ask its environment for it.
/// The earlier stream is set again afterwards.
///
/// # Errors
/// Returns an error if `libtvm_ffi.so`, which has the environment, can't be opened, or refuses the device.
///
/// # Safety
/// The stream must be one of the device, and live while `run` runs. TVM-FFI's library, if it is not open yet, must be
/// sound.
pub unsafe fn on_stream<R>(
    device: Device,
    stream: *mut c_void,
    run: impl FnOnce() -> R,
) -> Result<R, Error> {
    // SAFETY: the caller's.
    unsafe { runtime::required()? };
    let device = device.code();
    let set =
        runtime::present().and_then(|runtime| Some((runtime, runtime.set_stream(device, stream)?)));
    let Some((runtime, stream)) = set else {
        return Err(Error::Setting(
            "TVM-FFI's library can't set the stream of the device".into(),
        ));
    };
    let _restore = Restore {
        runtime,
        device,
        stream,
    };
    Ok(run())
}

/// Sets the earlier stream again, also if a call panics.
struct Restore {
    runtime: Runtime,
    device: [i32; 2],
    stream: *mut c_void,
}

impl Drop for Restore {
    fn drop(&mut self) {
        self.runtime.set_stream(self.device, self.stream);
    }
}
