//! Memory of devices, and host memory that devices reach.

use cann_sys::errors::*;

use super::{Process, Registered, process};
use crate::error::{Outcome, ensure, fail};
use crate::memory::memory;

pub(crate) fn allocate(size: usize) -> Outcome<usize> {
    let (device, limit) = {
        let mut process = process();
        let device = process.current()?.1.device;
        (device, process.count_allocation()?)
    };
    memory().allocate(device, size, limit)
}

impl Process {
    /// Counts an allocation on a device. Fails if it is the one that shall find no memory. Returns the memory of a
    /// device.
    pub(super) fn count_allocation(&mut self) -> Outcome<usize> {
        self.allocations += 1;
        let number = self.allocations;
        let config = self.config()?;
        ensure!(config.out_of_memory_at != Some(number), ACL_ERROR_RT_MEMORY_ALLOCATION;
            "out of memory at allocation {number}, as the emulator was asked (out_of_memory_at)");
        Ok(config.memory)
    }
}

pub(crate) fn free(address: usize) -> Outcome<()> {
    process().current()?;
    memory().free(address)
}

pub(crate) fn pin(size: usize) -> Outcome<usize> {
    let mut process = process();
    process.current()?;
    ensure!(size > 0, ACL_ERROR_INVALID_PARAM; "0 bytes of host memory; ask for at least 1");
    let count = size.div_ceil(8);
    let mut words = Vec::new();
    ensure!(words.try_reserve_exact(count).is_ok(), ACL_ERROR_RT_MEMORY_ALLOCATION;
        "the host has no {size} bytes");
    words.resize(count, u64::MAX);
    let mut words = words.into_boxed_slice();
    let address = words.as_mut_ptr() as usize;
    process.pinned.insert(address, words);
    Ok(address)
}

pub(crate) fn unpin(address: usize) -> Outcome<()> {
    // No kernel copies from or to the memory meanwhile.
    let _memory = memory();
    let mut process = process();
    process.config()?;
    ensure!(process.pinned.remove(&address).is_some(), ACL_ERROR_INVALID_PARAM;
        "{address:#x} is not from aclrtMallocHost, or was freed before");
    Ok(())
}

/// Returns `true` if all bytes are in memory from `aclrtMallocHost` or in registered memory.
pub(crate) fn is_pinned(address: usize, count: usize) -> bool {
    let process = process();
    let pinned = process
        .pinned
        .iter()
        .map(|(start, words)| (*start, words.len() * 8));
    let registered = process
        .registered
        .iter()
        .map(|(start, found)| (*start, found.size));
    pinned
        .chain(registered)
        .filter(|(start, size)| address >= *start && count <= *size)
        .any(|(start, size)| address - start <= size - count)
}

/// The page size of the host, in which memory is registered.
const PAGE: usize = 4096;

/// Registers host memory. If `mapped`, returns the device's address of it.
pub(crate) fn register(address: usize, size: usize, mapped: bool) -> Outcome<Option<usize>> {
    let mut memory = memory();
    let mut process = process();
    let device = process.current()?.1.device;
    ensure!(address != 0 && size > 0, ACL_ERROR_INVALID_PARAM; "no memory to register");
    ensure!(address.checked_add(size).is_some(), ACL_ERROR_RT_PARAM_INVALID;
        "{size} bytes at {address:#x} go past the last address");
    ensure!(address.is_multiple_of(PAGE), ACL_ERROR_RT_PARAM_INVALID;
        "{address:#x} is not aligned to a page of {PAGE} bytes");
    ensure!(!memory.is_device(address), ACL_ERROR_RT_PARAM_INVALID;
        "{address:#x} is an address of a device; only host memory is registered");
    let overlaps = process
        .registered
        .iter()
        .any(|(start, found)| address < start + found.size && *start < address + size);
    ensure!(!overlaps, ACL_ERROR_RT_PARAM_INVALID;
        "some of the {size} bytes at {address:#x} are registered already");
    let mapped = mapped.then(|| memory.unbacked(device, size)).transpose()?;
    process
        .registered
        .insert(address, Registered { size, mapped });
    Ok(mapped)
}

pub(crate) fn unregister(address: usize) -> Outcome<()> {
    // No kernel copies from or to the memory meanwhile.
    let _memory = memory();
    let mut process = process();
    process.current()?;
    ensure!(process.registered.remove(&address).is_some(), ACL_ERROR_RT_PARAM_INVALID;
        "{address:#x} is not registered, or was unregistered before");
    Ok(())
}

/// Returns the device's address of registered host memory.
pub(crate) fn mapped(address: usize) -> Outcome<usize> {
    let process = process();
    process.current()?;
    match process
        .registered
        .get(&address)
        .and_then(|found| found.mapped)
    {
        Some(mapped) => Ok(mapped),
        None => fail!(ACL_ERROR_RT_PARAM_INVALID;
            "{address:#x} is not host memory that was registered and mapped"),
    }
}
