//! Dumps of the data of operators. The emulator writes none, and says so.

use std::ffi::c_char;

use super::{function, text};
use crate::error::{Outcome, fail};
use crate::state;
use cann_sys::errors::*;

/// Fails, as CANN does on a chip without dumps.
fn refused() -> Outcome<()> {
    state::config()?;
    fail!(ACL_ERROR_FEATURE_UNSUPPORTED; "the emulator writes no dumps")
}

function!(aclmdlInitDump() { refused() });
function!(aclmdlSetDump(configuration: *const c_char) {
    // SAFETY: the caller guarantees a C string.
    unsafe { text("the path of the configuration", configuration) }?;
    refused()
});
function!(aclmdlFinalizeDump() { refused() });
