//! Device memory: addresses that the host cannot read, and the bytes behind them.
//!
//! A range of addresses is reserved without access. So a host that reads a device address faults at once, and device
//! addresses differ from those of the host. The bytes are elsewhere, in one buffer per allocation. Addresses are given
//! out upwards and are used again only when the range is spent, so that a use after free finds nothing, not other
//! data.
//!
//! Addresses that a program reserves, and then maps physical memory to, are in a range of their own ([`reserved`]).

mod backing;
mod reserved;

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use cann_sys::errors::*;

use self::reserved::Reserved;
use crate::error::{Outcome, ensure, fail};

/// The largest number of devices.
pub(crate) const MAX_DEVICES: u32 = 16;

/// The size of a device's range of addresses. It is larger than the memory, so that few addresses are used twice.
const DEVICE_SPAN: usize = 64 << 30;

/// CANN's alignment of an allocation.
const ALIGNMENT: usize = 64;

/// The byte of new memory: NaN in every float type, and -1 in every integer type.
pub(crate) const POISON: u8 = 0xff;

/// The pages of reserved addresses and physical memory.
#[derive(Clone, Copy)]
pub(crate) enum Page {
    Normal,
    Huge,
    Huge1G,
}

impl Page {
    pub(crate) fn size(self) -> usize {
        match self {
            Self::Normal => 4 << 10,
            Self::Huge => reserved::HUGE,
            Self::Huge1G => 1 << 30,
        }
    }
}

struct Allocation {
    device: i32,
    /// The bytes of the requested size. Everything beyond them is out of bounds.
    bytes: Vec<u8>,
}

/// The use of a device's memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// The bytes in use.
    pub used: usize,
    /// The most bytes in use since `aclInit`.
    pub peak: usize,
    /// The number of allocations in use.
    pub allocations: usize,
}

/// The memory of all devices.
pub(crate) struct Memory {
    base: usize,
    allocations: BTreeMap<usize, Allocation>,
    next: [usize; MAX_DEVICES as usize],
    usage: [Usage; MAX_DEVICES as usize],
    reserved: Reserved,
}

/// The size of the ranges of all devices.
const DEVICES_SPAN: usize = DEVICE_SPAN * MAX_DEVICES as usize;

/// Locks the memory. Kernels hold this lock, so they run one at a time.
pub(crate) fn memory() -> MutexGuard<'static, Memory> {
    static MEMORY: OnceLock<Mutex<Memory>> = OnceLock::new();
    MEMORY
        .get_or_init(|| Mutex::new(Memory::reserve()))
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
}

impl Memory {
    fn reserve() -> Self {
        let length = DEVICES_SPAN + reserved::SPAN;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: this is a new private mapping of no existing object, and it is never unmapped or read.
        let address =
            unsafe { libc::mmap(std::ptr::null_mut(), length, libc::PROT_NONE, flags, -1, 0) };
        // Where addresses are limited (ulimit -v), none can be reserved. Zero makes every allocation fail.
        let base = if address == libc::MAP_FAILED {
            0
        } else {
            address as usize
        };
        Self {
            base,
            allocations: BTreeMap::new(),
            next: [0; MAX_DEVICES as usize],
            usage: [Usage::default(); MAX_DEVICES as usize],
            reserved: Reserved::new(base + DEVICES_SPAN),
        }
    }

    pub(crate) fn allocate(&mut self, device: i32, size: usize, limit: usize) -> Outcome<usize> {
        ensure!(size > 0, ACL_ERROR_INVALID_PARAM; "an allocation of 0 bytes; ask for at least 1");
        self.check_room(device, size, limit)?;
        let mut bytes = Vec::new();
        ensure!(bytes.try_reserve_exact(size).is_ok(), ACL_ERROR_RT_MEMORY_ALLOCATION;
            "out of memory: the host has no {size} bytes for device {device}");
        bytes.resize(size, POISON);
        let address = self.free_range(device, size)?;
        let made = Allocation { device, bytes };
        self.allocations.insert(address, made);
        self.count_in(device, size);
        Ok(address)
    }

    fn check_room(&self, device: i32, size: usize, limit: usize) -> Outcome<()> {
        self.check_addresses()?;
        let left = limit.saturating_sub(self.usage[device as usize].used);
        ensure!(size <= left, ACL_ERROR_RT_MEMORY_ALLOCATION;
            "out of memory: {size} bytes on device {device}, which has {left} of {limit} left");
        Ok(())
    }

    fn check_addresses(&self) -> Outcome<()> {
        ensure!(self.base != 0, ACL_ERROR_RT_MEMORY_ALLOCATION;
            "the host refused to reserve addresses for the device; raise `ulimit -v`");
        Ok(())
    }

    fn count_in(&mut self, device: i32, size: usize) {
        let usage = &mut self.usage[device as usize];
        usage.used += size;
        usage.allocations += 1;
        usage.peak = usage.peak.max(usage.used);
    }

    fn count_out(&mut self, device: i32, size: usize) {
        let usage = &mut self.usage[device as usize];
        usage.used -= size;
        usage.allocations -= 1;
    }

    /// Returns free addresses for `size` bytes. CANN adds 32 bytes to the size rounded up to 32, for reads past the
    /// end.
    fn free_range(&mut self, device: i32, size: usize) -> Outcome<usize> {
        ensure!(size < DEVICE_SPAN, ACL_ERROR_RT_MEMORY_ALLOCATION;
            "{size} bytes are more than device {device} has addresses for");
        let room = (size.next_multiple_of(32) + 32).next_multiple_of(ALIGNMENT);
        let start = self.base + device as usize * DEVICE_SPAN;
        let end = start + DEVICE_SPAN;
        for from in [start + self.next[device as usize], start] {
            let mut address = from;
            for (other, allocation) in self.allocations.range(from..end) {
                if address + room <= *other {
                    break;
                }
                address = (*other + allocation.bytes.len() + 32).next_multiple_of(ALIGNMENT);
            }
            if address + room <= end {
                self.next[device as usize] = address + room - start;
                return Ok(address);
            }
        }
        fail!(ACL_ERROR_RT_MEMORY_ALLOCATION;
            "out of memory: no {size} bytes on device {device} lie together")
    }

    /// Returns addresses of a device without memory that a copy could use.
    pub(crate) fn unbacked(&mut self, device: i32, size: usize) -> Outcome<usize> {
        self.free_range(device, size)
    }

    pub(crate) fn free(&mut self, address: usize) -> Outcome<()> {
        ensure!(address != 0, ACL_ERROR_INVALID_PARAM; "aclrtFree(NULL) is an error in CANN");
        let Some(allocation) = self.allocations.remove(&address) else {
            fail!(ACL_ERROR_INVALID_PARAM;
                "{address:#x} is not the start of an allocation on a device: freed twice, or \
                 never made")
        };
        self.count_out(allocation.device, allocation.bytes.len());
        Ok(())
    }

    /// Reserves addresses, which have no memory.
    pub(crate) fn reserve_addresses(&mut self, size: usize) -> Outcome<usize> {
        self.check_addresses()?;
        self.reserved.reserve(size)
    }

    pub(crate) fn release_addresses(&mut self, address: usize) -> Outcome<()> {
        self.reserved.release(address)
    }

    /// Releases all reserved addresses, once the memory of all devices is cleared. Returns a description of each range.
    pub(crate) fn release_all_addresses(&mut self) -> Vec<String> {
        self.reserved.release_all()
    }

    /// Makes physical memory, which has no addresses, under a new handle.
    pub(crate) fn allocate_physical(
        &mut self,
        handle: usize,
        device: i32,
        size: usize,
        page: Page,
        limit: usize,
    ) -> Outcome<()> {
        self.check_room(device, size, limit)?;
        self.reserved.add(handle, device, size, page.size())?;
        self.count_in(device, size);
        Ok(())
    }

    pub(crate) fn free_physical(&mut self, handle: usize) -> Outcome<()> {
        let (device, size) = self.reserved.remove(handle)?;
        self.count_out(device, size);
        Ok(())
    }

    /// Maps the whole physical memory of a handle to reserved addresses.
    pub(crate) fn map(&mut self, address: usize, size: usize, handle: usize) -> Outcome<()> {
        self.reserved.map(address, size, handle)
    }

    pub(crate) fn unmap(&mut self, address: usize) -> Outcome<()> {
        self.reserved.unmap(address)
    }

    pub(crate) fn usage(&self, device: i32) -> Usage {
        self.usage[device as usize]
    }

    /// Frees all memory of a device.
    pub(crate) fn clear(&mut self, device: i32) {
        self.allocations
            .retain(|_, allocation| allocation.device != device);
        self.reserved.clear(device);
        let usage = &mut self.usage[device as usize];
        (usage.used, usage.allocations) = (0, 0);
    }

    /// Resets the peaks of memory in use.
    pub(crate) fn forget_peaks(&mut self) {
        for usage in &mut self.usage {
            usage.peak = usage.used;
        }
    }

    /// Returns the devices and descriptions of what was not given back.
    pub(crate) fn live(&self) -> Vec<(i32, String)> {
        let live = self.allocations.iter().map(|(address, found)| {
            let (size, device) = (found.bytes.len(), found.device);
            let text = format!("{size} bytes at {address:#x} on device {device} were never freed");
            (device, text)
        });
        live.chain(self.reserved.live()).collect()
    }

    /// Returns `true` if `address` is in the devices' range, allocated or not.
    pub(crate) fn is_device(&self, address: usize) -> bool {
        let length = DEVICES_SPAN + reserved::SPAN;
        self.base != 0 && (self.base..self.base + length).contains(&address)
    }

    /// Returns `true` if `address` is in the range of addresses that programs reserve.
    pub(crate) fn is_reserved(&self, address: usize) -> bool {
        self.is_device(address) && address - self.base >= DEVICES_SPAN
    }

    /// Returns the device of an address that has memory.
    pub(crate) fn device_of(&self, address: usize) -> Option<i32> {
        if self.is_reserved(address) {
            return self.reserved.device_of(address);
        }
        let (start, found) = self.allocations.range(..=address).next_back()?;
        (address - start < found.bytes.len()).then_some(found.device)
    }

    fn find(&self, address: usize, count: usize) -> Outcome<(usize, usize)> {
        ensure!(self.is_device(address), ACL_ERROR_RT_PARAM_INVALID;
            "{address:#x} is not a device address: memory of the host was given where the \
             device's is needed");
        let found = self.allocations.range(..=address).next_back();
        let Some((start, allocation)) =
            found.filter(|(start, allocation)| address - *start < allocation.bytes.len())
        else {
            fail!(ACL_ERROR_RT_PARAM_INVALID;
                "{address:#x} is not allocated: used after it was freed, or out of bounds")
        };
        let offset = address - start;
        ensure!(count <= allocation.bytes.len() - offset, ACL_ERROR_RT_PARAM_INVALID;
            "{count} bytes at {address:#x} go past the end of an allocation of {} bytes",
            allocation.bytes.len());
        Ok((*start, offset))
    }

    /// Returns `count` bytes at a device address.
    pub(crate) fn bytes(&self, address: usize, count: usize) -> Outcome<&[u8]> {
        if count == 0 {
            return Ok(&[]);
        }
        if self.is_reserved(address) {
            let bytes = self.reserved.find(address, count)?;
            // SAFETY: as many bytes are mapped, and stay so while this memory is borrowed.
            return Ok(unsafe { std::slice::from_raw_parts(bytes, count) });
        }
        let (start, offset) = self.find(address, count)?;
        Ok(&self.allocations[&start].bytes[offset..offset + count])
    }

    /// Returns `count` bytes at a device address, for writing.
    pub(crate) fn bytes_mut(&mut self, address: usize, count: usize) -> Outcome<&mut [u8]> {
        if count == 0 {
            return Ok(&mut []);
        }
        if self.is_reserved(address) {
            let bytes = self.reserved.find(address, count)?;
            // SAFETY: as many bytes are mapped, and stay so while this memory is borrowed. No other slice of it is
            // there, of the same physical memory at other addresses either.
            return Ok(unsafe { std::slice::from_raw_parts_mut(bytes, count) });
        }
        let (start, offset) = self.find(address, count)?;
        match self.allocations.get_mut(&start) {
            Some(allocation) => Ok(&mut allocation.bytes[offset..offset + count]),
            None => fail!(ACL_ERROR_RT_INTERNAL_ERROR; "the allocation at {start:#x} is gone"),
        }
    }
}
