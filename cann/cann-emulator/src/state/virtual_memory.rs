//! Reserved addresses and physical memory of devices.

use cann_sys::errors::*;

use super::process;
use crate::error::{Outcome, ensure, fail};
use crate::loss;
use crate::memory::{Page, memory};

/// Reserves addresses, which have no memory. The thread needs no context: programs try this before they set a device.
pub(crate) fn reserve_addresses(size: usize, page: Page) -> Outcome<usize> {
    process().config()?;
    ensure!(size > 0, ACL_ERROR_INVALID_PARAM; "0 addresses to reserve; ask for at least 1");
    let Some(size) = size.checked_next_multiple_of(page.size()) else {
        fail!(ACL_ERROR_RT_MEMORY_ALLOCATION; "{size} addresses are more than there are")
    };
    memory().reserve_addresses(size)
}

pub(crate) fn release_addresses(address: usize) -> Outcome<()> {
    process().config()?;
    memory().release_addresses(address)
}

/// Makes physical memory on a device. Returns its handle.
pub(crate) fn allocate_physical(device: u32, size: usize, page: Page) -> Outcome<usize> {
    let (device, handle, limit) = {
        let mut process = process();
        process.current()?;
        let device = i32::try_from(device).unwrap_or(-1);
        process.check_device(device)?;
        loss::check(device)?;
        (device, process.handle(), process.count_allocation()?)
    };
    ensure!(size > 0, ACL_ERROR_INVALID_PARAM;
        "0 bytes of physical memory; ask for at least a page");
    ensure!(size.is_multiple_of(page.size()), ACL_ERROR_RT_PARAM_INVALID;
        "{size} bytes of physical memory are not whole pages of {} bytes", page.size());
    memory().allocate_physical(handle, device, size, page, limit)?;
    Ok(handle)
}

pub(crate) fn free_physical(handle: usize) -> Outcome<()> {
    process().current()?;
    memory().free_physical(handle)
}

/// Maps the whole physical memory of a handle to reserved addresses.
pub(crate) fn map(address: usize, size: usize, handle: usize) -> Outcome<()> {
    process().current()?;
    memory().map(address, size, handle)
}

pub(crate) fn unmap(address: usize) -> Outcome<()> {
    process().current()?;
    memory().unmap(address)
}
