//! The function by which a program recognises the emulator. CANN does not export it.

use std::ffi::{CStr, c_char};

const VERSION: &CStr =
    match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
        Ok(version) => version,
        Err(_) => panic!("a version has no zero in it"),
    };

/// Returns the emulator's own version, as a string that lives as long as the process.
#[unsafe(no_mangle)]
pub extern "C" fn cannEmulatorVersion() -> *const c_char {
    VERSION.as_ptr()
}
