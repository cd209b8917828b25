//! Devices, memory, streams and events.

mod allocation;
mod device;
mod event;
mod host;
mod process;
mod stream;

pub use self::allocation::*;
pub use self::device::*;
pub use self::event::*;
pub use self::host::*;
pub use self::process::*;
pub use self::stream::*;

use std::time::Duration;

use cann_sys::errors::*;

use crate::error::{Outcome, ensure, fail};
use crate::state;

/// Writes to a place that the caller gave.
///
/// # Safety
///
/// `place` is NULL or valid for a write.
pub(super) unsafe fn give<T>(place: *mut T, value: T) -> Outcome<()> {
    ensure!(
        !place.is_null(),
        ACL_ERROR_INVALID_PARAM,
        "the place for the result is NULL"
    );
    // SAFETY: the caller vouches for it.
    unsafe { place.write(value) };
    Ok(())
}

/// Exports a function of the runtime and checks its prototype.
macro_rules! function {
    ($name:ident($($argument:ident: $type:ty),*) $body:block) => {
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $type),*) -> cann_sys::types::aclError {
            let work = || -> $crate::error::Outcome<()> { $body };
            $crate::error::status(stringify!($name), work)
        }
        $crate::abi::exports!(runtime: $name);
    };
}
pub(super) use function;

/// A time to wait for. Zero only looks, which CANN 9 documents.
pub(super) fn timeout(milliseconds: i32) -> Outcome<Option<Duration>> {
    match milliseconds {
        -1 => Ok(None),
        0 if state::config()?.major() >= 9 => Ok(Some(Duration::ZERO)),
        1.. => Ok(Some(Duration::from_millis(milliseconds as u64))),
        _ => fail!(
            ACL_ERROR_RT_PARAM_INVALID,
            "a time of {milliseconds} ms; -1 waits for ever"
        ),
    }
}
