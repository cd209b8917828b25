//! Memory of devices: allocating, querying and filling it.

use std::ffi::c_void;

use cann_sys::errors::*;
use cann_sys::runtime::*;

use super::device::synchronize_device;
use super::{function, give};
use crate::error::{Outcome, ensure, fail};
use crate::memory::{Memory, memory};
use crate::state;
use crate::stream::Task;

fn allocate(address: *mut *mut c_void, size: usize) -> Outcome<()> {
    ensure!(!address.is_null(), ACL_ERROR_INVALID_PARAM; "the place for the address is NULL");
    let made = state::allocate(size)?;
    // SAFETY: checked above, and the caller guarantees the place.
    unsafe { give(address, made as *mut c_void) }
}

/// Returns the attributes of an allocation. Without a configuration it has none.
///
/// # Safety
///
/// `config` must be NULL or valid, with an array of as many attributes as it says.
pub(super) unsafe fn attributes<'a>(
    config: *mut aclrtMallocConfig,
) -> Outcome<&'a [aclrtMallocAttribute]> {
    // SAFETY: the caller guarantees it.
    let Some(config) = (unsafe { config.as_ref() }) else {
        return Ok(&[]);
    };
    if config.numAttrs == 0 {
        return Ok(&[]);
    }
    ensure!(!config.attrs.is_null(), ACL_ERROR_INVALID_PARAM;
        "{} attributes at NULL", config.numAttrs);
    // SAFETY: as above.
    Ok(unsafe { std::slice::from_raw_parts(config.attrs, config.numAttrs) })
}

/// Checks the attributes. The module that the memory is for does not matter here. Device memory must belong to the
/// thread's device.
pub(super) fn check_config(attributes: &[aclrtMallocAttribute], on_device: bool) -> Outcome<()> {
    for attribute in attributes {
        match attribute.attr {
            ACL_RT_MEM_ATTR_RSV | ACL_RT_MEM_ATTR_MODULE_ID => {}
            ACL_RT_MEM_ATTR_DEVICE_ID => {
                // SAFETY: every field of the union is a plain number, and the attribute names the field.
                let device = unsafe { attribute.value.deviceId };
                ensure!(
                    !on_device || i64::from(device) == i64::from(state::current_device()?),
                    ACL_ERROR_RT_FEATURE_NOT_SUPPORT;
                    "memory of device {device} from a thread of another device is not emulated"
                );
            }
            other => fail!(ACL_ERROR_RT_FEATURE_NOT_SUPPORT;
                "the attribute {} of an allocation is not emulated", other.0),
        }
    }
    Ok(())
}

function!(aclrtMalloc(address: *mut *mut c_void, size: usize, _policy: aclrtMemMallocPolicy) {
    allocate(address, size)
});
function!(aclrtMallocAlign32(address: *mut *mut c_void, size: usize, _policy: aclrtMemMallocPolicy) {
    allocate(address, size)
});
function!(aclrtMallocCached(address: *mut *mut c_void, size: usize, _policy: aclrtMemMallocPolicy) {
    allocate(address, size)
});
function!(aclrtMallocWithCfg(
    address: *mut *mut c_void, size: usize, _policy: aclrtMemMallocPolicy, config: *mut aclrtMallocConfig
) {
    // SAFETY: the caller guarantees the configuration.
    check_config(unsafe { attributes(config) }?, true)?;
    allocate(address, size)
});
function!(aclrtFree(address: *mut c_void) { state::free(address as usize) });
function!(aclrtFreeWithDevSync(address: *mut c_void) {
    synchronize_device(None)?;
    state::free(address as usize)
});
function!(aclrtGetMemInfo(_attribute: aclrtMemAttr, free: *mut usize, total: *mut usize) {
    let limit = state::config()?.memory;
    let device = state::current_device()?;
    let used = memory().usage(device).used;
    // SAFETY: the caller guarantees the places.
    unsafe { give(free, limit - used).and(give(total, limit)) }
});
function!(aclrtPointerGetAttributes(address: *const c_void, attributes: *mut aclrtPtrAttributes) {
    state::config()?;
    let device = memory().device_of(address as usize);
    let location = aclrtMemLocation {
        id: device.unwrap_or(0) as u32,
        type_: if device.is_some() { ACL_MEM_LOCATION_TYPE_DEVICE } else { ACL_MEM_LOCATION_TYPE_HOST },
    };
    // SAFETY: the caller guarantees the place.
    unsafe { give(attributes, aclrtPtrAttributes { location, pageSize: 4096, rsv: [0; 4] }) }
});
// The emulator has only one kind of device memory.
function!(aclrtCheckMemType(
    addresses: *mut *mut c_void, size: u32, what: u32, matches: *mut u32, reserved: u32
) {
    state::config()?;
    let known = ACL_RT_MEM_TYPE_DEV | ACL_RT_MEM_TYPE_DVPP | ACL_RT_MEM_TYPE_RSVD;
    ensure!(!addresses.is_null() && size > 0, ACL_ERROR_RT_PARAM_INVALID; "addresses are missing");
    ensure!(what != 0 && what & !known == 0, ACL_ERROR_RT_PARAM_INVALID;
        "unknown kind of memory {what:#x}");
    ensure!(reserved == 0, ACL_ERROR_RT_PARAM_INVALID; "the reserved argument must be 0");
    // SAFETY: checked above, and the caller guarantees the list.
    let addresses = unsafe { std::slice::from_raw_parts(addresses, size as usize) };
    let memory = memory();
    let all = addresses.iter().all(|&address| memory.device_of(address as usize).is_some());
    // SAFETY: the caller guarantees the place.
    unsafe { give(matches, u32::from(all && what & ACL_RT_MEM_TYPE_DEV != 0)) }
});
fn check_fill(address: *mut c_void, size: usize, count: usize) -> Outcome<usize> {
    ensure!(!address.is_null(), ACL_ERROR_INVALID_PARAM; "the address is NULL");
    ensure!(count <= size, ACL_ERROR_RT_PARAM_INVALID; "{count} bytes in a target of {size}");
    Ok(address as usize)
}

/// Fills now.
///
/// # Safety
///
/// An address on the host must be valid for the bytes.
unsafe fn fill_memory(memory: &mut Memory, address: usize, value: u8, count: usize) -> Outcome<()> {
    if memory.is_device(address) {
        memory.bytes_mut(address, count)?.fill(value);
    } else {
        // SAFETY: the caller guarantees it.
        unsafe { std::ptr::write_bytes(address as *mut u8, value, count) };
    }
    Ok(())
}

function!(aclrtMemset(address: *mut c_void, size: usize, value: i32, count: usize) {
    let address = check_fill(address, size, count)?;
    state::current_device()?;
    // SAFETY: the caller guarantees its memory on the host.
    unsafe { fill_memory(&mut memory(), address, value as u8, count) }
});
function!(aclrtMemsetAsync(address: *mut c_void, size: usize, value: i32, count: usize, stream: aclrtStream) {
    let address = check_fill(address, size, count)?;
    let stream = state::stream(stream as usize)?;
    if !memory().is_device(address) {
        // This is documented as synchronous.
        stream.synchronize(None)?;
    } else {
        return stream.enqueue(Task::Kernel(Box::new(move |memory| {
            memory.bytes_mut(address, count)?.fill(value as u8);
            Ok(())
        })));
    }
    // SAFETY: the caller guarantees its memory on the host.
    unsafe { fill_memory(&mut memory(), address, value as u8, count) }
});
