//! Host memory that devices reach: pinned and registered.

use std::ffi::c_void;

use cann_sys::errors::*;
use cann_sys::runtime::*;

use super::allocation::{attributes, check_config};
use super::device::synchronize_device;
use super::{function, give};
use crate::error::ensure;
use crate::state;

function!(aclrtMallocHost(address: *mut *mut c_void, size: usize) {
    ensure!(!address.is_null(), ACL_ERROR_INVALID_PARAM; "the place for the address is NULL");
    // SAFETY: the caller guarantees the place.
    unsafe { give(address, state::pin(size)? as *mut c_void) }
});
function!(aclrtMallocHostWithCfg(address: *mut *mut c_void, size: u64, config: *mut aclrtMallocConfig) {
    ensure!(!address.is_null(), ACL_ERROR_INVALID_PARAM; "the place for the address is NULL");
    // SAFETY: the caller guarantees the configuration.
    check_config(unsafe { attributes(config) }?, false)?;
    // SAFETY: the caller guarantees the place.
    unsafe { give(address, state::pin(size as usize)? as *mut c_void) }
});
function!(aclrtFreeHost(address: *mut c_void) { state::unpin(address as usize) });
function!(aclrtFreeHostWithDevSync(address: *mut c_void) {
    synchronize_device(None)?;
    state::unpin(address as usize)
});

function!(aclrtHostRegister(
    address: *mut c_void, size: u64, kind: aclrtHostRegisterType, device_address: *mut *mut c_void
) {
    ensure!(!device_address.is_null(), ACL_ERROR_INVALID_PARAM; "the place for the address is NULL");
    ensure!(kind == ACL_HOST_REGISTER_MAPPED, ACL_ERROR_RT_FEATURE_NOT_SUPPORT; "the kind {} is not emulated", kind.0);
    let mapped = state::register(address as usize, size as usize, true)?;
    // SAFETY: the caller guarantees the place.
    unsafe { give(device_address, mapped.unwrap_or(0) as *mut c_void) }
});
function!(aclrtHostRegisterV2(address: *mut c_void, size: u64, flags: u32) {
    let known = ACL_HOST_REG_MAPPED | ACL_HOST_REG_PINNED;
    ensure!(flags != 0 && flags & !known == 0, ACL_ERROR_RT_FEATURE_NOT_SUPPORT;
        "the flags {flags:#x} are not ACL_HOST_REG_MAPPED and ACL_HOST_REG_PINNED");
    state::register(address as usize, size as usize, flags & ACL_HOST_REG_MAPPED != 0).map(drop)
});
function!(aclrtHostGetDevicePointer(address: *mut c_void, device_address: *mut *mut c_void, flags: u32) {
    ensure!(flags == 0, ACL_ERROR_INVALID_PARAM; "flags are reserved and must be 0");
    // SAFETY: the caller guarantees the place.
    unsafe { give(device_address, state::mapped(address as usize)? as *mut c_void) }
});
function!(aclrtHostUnregister(address: *mut c_void) { state::unregister(address as usize) });
