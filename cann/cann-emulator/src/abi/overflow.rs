//! Overflow: the results beyond a dtype, and whether streams report them.
//!
//! The emulator computes as chips do in the mode of infinities and NaN, which is the default from the 910B on. It can't
//! saturate, and an overflow is not an error of a stream.

use cann_sys::errors::*;
use cann_sys::runtime::*;

use super::runtime::{function, give};
use crate::error::{ensure, fail};
use crate::state;

function!(aclrtSetDeviceSatMode(mode: aclrtFloatOverflowMode) {
    state::current_device()?;
    match mode {
        ACL_RT_OVERFLOW_MODE_INFNAN => Ok(()),
        ACL_RT_OVERFLOW_MODE_SATURATION => fail!(ACL_ERROR_RT_FEATURE_NOT_SUPPORT;
            "the emulator does not saturate: results beyond a dtype are infinite"),
        other => fail!(ACL_ERROR_RT_PARAM_INVALID; "unknown mode {}", other.0),
    }
});
function!(aclrtGetDeviceSatMode(mode: *mut aclrtFloatOverflowMode) {
    state::current_device()?;
    // SAFETY: the caller guarantees the place.
    unsafe { give(mode, ACL_RT_OVERFLOW_MODE_INFNAN) }
});
function!(aclrtSetStreamOverflowSwitch(stream: aclrtStream, on: u32) {
    state::stream(stream as usize)?;
    ensure!(on == 0, ACL_ERROR_RT_FEATURE_NOT_SUPPORT; "the emulator's streams do not look for overflows");
    Ok(())
});
function!(aclrtGetStreamOverflowSwitch(stream: aclrtStream, on: *mut u32) {
    state::stream(stream as usize)?;
    // SAFETY: the caller guarantees the place.
    unsafe { give(on, 0) }
});
