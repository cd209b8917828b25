//! Devices, memory, streams and events.

mod allocation;
mod device;
mod event;
mod host;
mod process;
mod stream;
mod virtual_memory;

pub use self::allocation::*;
pub use self::device::*;
pub use self::event::*;
pub use self::host::*;
pub use self::process::*;
pub use self::stream::*;
pub use self::virtual_memory::*;

use std::time::Duration;

use cann_sys::errors::*;

use crate::error::{Outcome, fail};
use crate::state;

/// Writes to a place of the caller.
///
/// # Safety
///
/// `place` must be NULL or valid for a write.
pub(super) unsafe fn give<T>(place: *mut T, value: T) -> Outcome<()> {
    // SAFETY: the caller guarantees it.
    unsafe { super::write(place, value, ACL_ERROR_INVALID_PARAM) }
}

/// Exports a function of the runtime and checks its prototype.
macro_rules! function {
    ($($function:tt)*) => {
        $crate::abi::exported!(
            runtime, cann_sys::types::aclError, $crate::error::status; $($function)*
        );
    };
}
pub(super) use function;

/// Converts a time to wait for. Zero only checks, as CANN 9 documents.
pub(super) fn timeout(milliseconds: i32) -> Outcome<Option<Duration>> {
    match milliseconds {
        -1 => Ok(None),
        0 if state::config()?.major() >= 9 => Ok(Some(Duration::ZERO)),
        1.. => Ok(Some(Duration::from_millis(milliseconds as u64))),
        _ => fail!(ACL_ERROR_RT_PARAM_INVALID; "a time of {milliseconds} ms; -1 waits for ever"),
    }
}
