//! Devices, contexts and their options.

use std::time::Duration;

use cann_sys::errors::*;
use cann_sys::runtime::*;

use super::{function, give, timeout};
use crate::error::{Outcome, ensure};
use crate::loss;
use crate::state::{self, Scope};

function!(aclrtGetDeviceCount(count: *mut u32) {
    // SAFETY: the caller guarantees the place.
    unsafe { give(count, state::config()?.devices) }
});
function!(aclrtSetDevice(device: i32) { state::set_device(device) });
function!(aclrtResetDevice(device: i32) { state::reset_device(device, false) });
function!(aclrtResetDeviceForce(device: i32) { state::reset_device(device, true) });
function!(aclrtGetDevice(device: *mut i32) {
    // SAFETY: the caller guarantees the place.
    unsafe { give(device, state::current_device()?) }
});
function!(aclrtGetRunMode(mode: *mut aclrtRunMode) {
    // SAFETY: the caller guarantees the place.
    unsafe { give(mode, ACL_HOST) }
});
function!(aclrtQueryDeviceStatus(device: i32, status: *mut aclrtDeviceStatus) {
    let devices = 0..state::config()?.devices as i32;
    ensure!(devices.contains(&device), ACL_ERROR_RT_INVALID_DEVICEID; "device {device} does not exist");
    let found = match loss::check(device) {
        Ok(()) => ACL_RT_DEVICE_STATUS_NORMAL,
        Err(_) => ACL_RT_DEVICE_STATUS_ABNORMAL,
    };
    // SAFETY: the caller guarantees the place.
    unsafe { give(status, found) }
});

/// Checks that both devices exist and differ.
fn check_peers(device: i32, peer: i32) -> Outcome<()> {
    let devices = 0..state::config()?.devices as i32;
    ensure!(
        devices.contains(&device) && devices.contains(&peer) && device != peer,
        ACL_ERROR_RT_INVALID_DEVICEID;
        "devices {device} and {peer}: two different ones of {} are needed", devices.end
    );
    Ok(())
}

function!(aclrtDeviceCanAccessPeer(can: *mut i32, device: i32, peer: i32) {
    check_peers(device, peer)?;
    // SAFETY: the caller guarantees the place.
    unsafe { give(can, 1) }
});

// Copies between devices work with or without this: the emulator does not require what it cannot refuse.
function!(aclrtDeviceEnablePeerAccess(peer: i32, flags: u32) {
    ensure!(flags == 0, ACL_ERROR_INVALID_PARAM; "flags are reserved and must be 0");
    check_peers(state::current_device()?, peer)
});
function!(aclrtDeviceDisablePeerAccess(peer: i32) { check_peers(state::current_device()?, peer) });
function!(aclrtSetTsDevice(id: aclrtTsId) {
    state::current_device()?;
    ensure!(id.0 < ACL_TS_ID_RESERVED.0, ACL_ERROR_INVALID_PARAM; "unknown task scheduler {}", id.0);
    Ok(())
});

pub(super) fn synchronize_device(timeout: Option<Duration>) -> Outcome<()> {
    // All streams are waited for, even if one is broken. The first error is reported.
    let waited: Vec<_> = state::streams_of_device()?
        .iter()
        .map(|stream| stream.synchronize(timeout))
        .collect();
    waited.into_iter().collect()
}

function!(aclrtSynchronizeDevice() { synchronize_device(None) });
function!(aclrtSynchronizeDeviceWithTimeout(milliseconds: i32) {
    synchronize_device(timeout(milliseconds)?)
});

function!(aclrtCreateContext(context: *mut aclrtContext, device: i32) {
    ensure!(!context.is_null(), ACL_ERROR_INVALID_PARAM; "the place for the context is NULL");
    // SAFETY: the caller guarantees the place.
    unsafe { give(context, state::create_context(device)? as aclrtContext) }
});
function!(aclrtDestroyContext(context: aclrtContext) { state::destroy_context(context as usize) });
function!(aclrtSetCurrentContext(context: aclrtContext) { state::set_context(context as usize) });
function!(aclrtCtxGetCurrentDefaultStream(stream: *mut aclrtStream) {
    // SAFETY: the caller guarantees the place.
    unsafe { give(stream, state::default_stream()? as aclrtStream) }
});
function!(aclrtGetCurrentContext(context: *mut aclrtContext) {
    // SAFETY: the caller guarantees the place.
    unsafe { give(context, state::current_context()? as aclrtContext) }
});

fn check_option(option: aclSysParamOpt) -> Outcome<u32> {
    ensure!(option.0 <= ACL_OPT_STRONG_CONSISTENCY.0, ACL_ERROR_INVALID_PARAM; "no such option");
    Ok(option.0)
}

function!(aclrtCtxGetSysParamOpt(option: aclSysParamOpt, value: *mut i64) {
    // SAFETY: the caller guarantees the place.
    unsafe { give(value, state::option(Scope::Context, check_option(option)?)?) }
});
function!(aclrtCtxSetSysParamOpt(option: aclSysParamOpt, value: i64) {
    state::set_option(Scope::Context, check_option(option)?, value)
});
function!(aclrtGetSysParamOpt(option: aclSysParamOpt, value: *mut i64) {
    // SAFETY: the caller guarantees the place.
    unsafe { give(value, state::option(Scope::Process, check_option(option)?)?) }
});
function!(aclrtSetSysParamOpt(option: aclSysParamOpt, value: i64) {
    state::set_option(Scope::Process, check_option(option)?, value)
});
