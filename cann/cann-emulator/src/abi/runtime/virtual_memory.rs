//! Reserved addresses, and physical memory that is mapped to them.

use std::ffi::c_void;

use cann_sys::errors::*;
use cann_sys::runtime::*;

use super::{function, give};
use crate::error::{Outcome, ensure, fail};
use crate::memory::Page;
use crate::state;

// Memory of huge pages may be mapped to addresses that were reserved for normal ones. The documentation says that both
// must agree, but published programs that run on devices do this.
function!(aclrtReserveMemAddress(
    address: *mut *mut c_void, size: usize, alignment: usize, wish: *mut c_void, flags: u64
) {
    ensure!(!address.is_null(), ACL_ERROR_INVALID_PARAM; "the place for the address is NULL");
    ensure!(alignment == 0, ACL_ERROR_INVALID_PARAM; "the alignment is reserved and must be 0");
    ensure!(wish.is_null(), ACL_ERROR_RT_FEATURE_NOT_SUPPORT;
        "addresses that the program chooses are not emulated");
    let page = match flags {
        0 => Page::Normal,
        1 => Page::Huge,
        _ => fail!(ACL_ERROR_INVALID_PARAM; "unknown kind {flags} of pages"),
    };
    // SAFETY: checked above, and the caller guarantees the place.
    unsafe { give(address, state::reserve_addresses(size, page)? as *mut c_void) }
});
function!(aclrtReleaseMemAddress(address: *mut c_void) {
    ensure!(!address.is_null(), ACL_ERROR_INVALID_PARAM; "the address is NULL");
    state::release_addresses(address as usize)
});

/// Returns the device of physical memory and the size of its pages.
///
/// # Safety
///
/// `properties` must be NULL or valid for reads.
unsafe fn place_of(properties: *const aclrtPhysicalMemProp) -> Outcome<(u32, Page)> {
    // SAFETY: the caller guarantees it.
    let Some(properties) = (unsafe { properties.as_ref() }) else {
        fail!(ACL_ERROR_INVALID_PARAM; "the properties are NULL")
    };
    ensure!(
        properties.handleType == ACL_MEM_HANDLE_TYPE_NONE
            && properties.allocationType == ACL_MEM_ALLOCATION_TYPE_PINNED,
        ACL_ERROR_INVALID_PARAM;
        "the handle type {} and the allocation type {}; both must be 0",
        properties.handleType.0, properties.allocationType.0
    );
    ensure!(
        properties.location.type_ == ACL_MEM_LOCATION_TYPE_DEVICE, ACL_ERROR_RT_FEATURE_NOT_SUPPORT;
        "physical memory of a host is not emulated"
    );
    let page = match properties.memAttr {
        ACL_DDR_MEM_NORMAL
        | ACL_HBM_MEM_NORMAL
        | ACL_DDR_MEM_P2P_NORMAL
        | ACL_HBM_MEM_P2P_NORMAL => Page::Normal,
        ACL_DDR_MEM_HUGE | ACL_HBM_MEM_HUGE | ACL_DDR_MEM_P2P_HUGE | ACL_HBM_MEM_P2P_HUGE => {
            Page::Huge
        }
        ACL_HBM_MEM_HUGE1G | ACL_HBM_MEM_P2P_HUGE1G => Page::Huge1G,
        other => fail!(ACL_ERROR_INVALID_PARAM; "the attribute {} says no kind of pages", other.0),
    };
    Ok((properties.location.id, page))
}

function!(aclrtMallocPhysical(
    handle: *mut aclrtDrvMemHandle, size: usize, properties: *const aclrtPhysicalMemProp, flags: u64
) {
    ensure!(!handle.is_null(), ACL_ERROR_INVALID_PARAM; "the place for the handle is NULL");
    ensure!(flags == 0, ACL_ERROR_INVALID_PARAM; "flags are reserved and must be 0");
    // SAFETY: the caller guarantees the properties.
    let (device, page) = unsafe { place_of(properties) }?;
    // SAFETY: checked above, and the caller guarantees the place.
    unsafe { give(handle, state::allocate_physical(device, size, page)? as aclrtDrvMemHandle) }
});
function!(aclrtFreePhysical(handle: aclrtDrvMemHandle) {
    ensure!(!handle.is_null(), ACL_ERROR_INVALID_PARAM; "the handle is NULL");
    state::free_physical(handle as usize)
});
function!(aclrtMapMem(address: *mut c_void, size: usize, offset: usize, handle: aclrtDrvMemHandle, flags: u64) {
    ensure!(!address.is_null() && !handle.is_null(), ACL_ERROR_INVALID_PARAM;
        "the address or the handle is NULL");
    ensure!(offset == 0 && flags == 0, ACL_ERROR_INVALID_PARAM;
        "the offset and the flags are reserved and must be 0");
    state::map(address as usize, size, handle as usize)
});
function!(aclrtUnmapMem(address: *mut c_void) {
    ensure!(!address.is_null(), ACL_ERROR_INVALID_PARAM; "the address is NULL");
    state::unmap(address as usize)
});
function!(aclrtMemGetAllocationGranularity(
    properties: *mut aclrtPhysicalMemProp, option: aclrtMemGranularityOptions, granularity: *mut usize
) {
    state::config()?;
    // SAFETY: the caller guarantees the properties.
    let (_, page) = unsafe { place_of(properties) }?;
    ensure!(
        [ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM, ACL_RT_MEM_ALLOC_GRANULARITY_RECOMMENDED].contains(&option),
        ACL_ERROR_INVALID_PARAM;
        "unknown granularity {}", option.0
    );
    // SAFETY: the caller guarantees the place.
    unsafe { give(granularity, page.size()) }
});

/// Fails, as CANN does on a chip without shared memory.
fn not_shared() -> Outcome<()> {
    state::current_device()?;
    fail!(ACL_ERROR_RT_FEATURE_NOT_SUPPORT;
        "memory of devices that several processes share is not emulated")
}

function!(aclrtMemExportToShareableHandle(
    _handle: aclrtDrvMemHandle, _kind: aclrtMemHandleType, _flags: u64, _shareable: *mut u64
) { not_shared() });
function!(aclrtMemSetPidToShareableHandle(_shareable: u64, _processes: *mut i32, _count: usize) {
    not_shared()
});
function!(aclrtMemImportFromShareableHandle(_shareable: u64, _device: i32, _handle: *mut aclrtDrvMemHandle) {
    not_shared()
});
function!(aclrtDeviceGetBareTgid(process: *mut i32) {
    state::config()?;
    // SAFETY: the caller guarantees the place.
    unsafe { give(process, std::process::id() as i32) }
});
