//! Reserved addresses, and the physical memory that is mapped to them.

use std::collections::{BTreeMap, HashMap};

use cann_sys::errors::*;

use super::backing::{Pages, Window};
use crate::error::{Outcome, ensure, fail};

/// The size of the addresses that can be reserved. It is larger than the memory, because programs reserve more than they
/// map.
pub(super) const SPAN: usize = 512 << 30;

/// The alignment of reserved addresses: a huge page.
pub(super) const HUGE: usize = 2 << 20;

/// A part of a range with memory, of the whole physical memory of a handle.
struct Piece {
    size: usize,
    handle: usize,
    device: i32,
}

struct Range {
    size: usize,
    window: Window,
    /// By their offset.
    pieces: BTreeMap<usize, Piece>,
}

impl Range {
    fn piece(&self, offset: usize) -> Option<(usize, &Piece)> {
        let (start, piece) = self.pieces.range(..=offset).next_back()?;
        (offset - start < piece.size).then_some((*start, piece))
    }
}

struct Block {
    device: i32,
    /// The alignment of addresses for it.
    granule: usize,
    pages: Pages,
    /// The number of places where it is mapped.
    mapped: usize,
}

/// The reserved addresses of all devices, and the physical memory of all handles.
pub(super) struct Reserved {
    start: usize,
    next: usize,
    ranges: BTreeMap<usize, Range>,
    blocks: HashMap<usize, Block>,
}

impl Reserved {
    /// Takes `SPAN` addresses from `start` on, of which the first may be left out for the alignment.
    pub(super) fn new(start: usize) -> Self {
        Self {
            start: start.next_multiple_of(HUGE),
            next: 0,
            ranges: BTreeMap::new(),
            blocks: HashMap::new(),
        }
    }

    /// Reserves addresses, which have no memory.
    pub(super) fn reserve(&mut self, size: usize) -> Outcome<usize> {
        let address = self.free_addresses(size)?;
        let window = Window::new(size)?;
        let made = Range {
            size,
            window,
            pieces: BTreeMap::new(),
        };
        self.ranges.insert(address, made);
        Ok(address)
    }

    /// Returns free addresses. A huge page after them stays free, so that an access past the end finds nothing.
    fn free_addresses(&mut self, size: usize) -> Outcome<usize> {
        ensure!(size < SPAN, ACL_ERROR_RT_MEMORY_ALLOCATION;
            "{size} addresses are more than there are to reserve");
        let room = |size: usize| size.next_multiple_of(HUGE) + HUGE;
        let end = self.start + SPAN - HUGE;
        for from in [self.start + self.next, self.start] {
            let mut address = from;
            for (other, range) in self.ranges.range(from..) {
                if address + room(size) <= *other {
                    break;
                }
                address = other + room(range.size);
            }
            if address + room(size) <= end {
                self.next = address + room(size) - self.start;
                return Ok(address);
            }
        }
        fail!(ACL_ERROR_RT_MEMORY_ALLOCATION;
            "no {size} addresses that lie together are left to reserve")
    }

    pub(super) fn release(&mut self, address: usize) -> Outcome<()> {
        let Some(range) = self.ranges.get(&address) else {
            fail!(ACL_ERROR_RT_PARAM_INVALID;
                "{address:#x} is not the start of reserved addresses: released twice, or never \
                 reserved")
        };
        ensure!(range.pieces.is_empty(), ACL_ERROR_RT_PARAM_INVALID;
            "memory is mapped to the addresses from {address:#x} on; aclrtUnmapMem comes before \
             aclrtReleaseMemAddress");
        self.ranges.remove(&address);
        Ok(())
    }

    /// Adds physical memory under a new handle.
    pub(super) fn add(
        &mut self,
        handle: usize,
        device: i32,
        size: usize,
        granule: usize,
    ) -> Outcome<()> {
        let made = Block {
            device,
            granule,
            pages: Pages::new(size)?,
            mapped: 0,
        };
        self.blocks.insert(handle, made);
        Ok(())
    }

    /// Removes physical memory. Returns its device and size.
    pub(super) fn remove(&mut self, handle: usize) -> Outcome<(i32, usize)> {
        let block = self.block(handle)?;
        ensure!(block.mapped == 0, ACL_ERROR_RT_PARAM_INVALID;
            "the physical memory {handle:#x} is mapped; aclrtUnmapMem comes before \
             aclrtFreePhysical");
        let found = (block.device, block.pages.size);
        self.blocks.remove(&handle);
        Ok(found)
    }

    fn block(&self, handle: usize) -> Outcome<&Block> {
        match self.blocks.get(&handle) {
            Some(block) => Ok(block),
            None => fail!(ACL_ERROR_RT_INVALID_HANDLE;
                "{handle:#x} is not a handle of physical memory, or was freed"),
        }
    }

    /// Maps the whole memory of a handle to reserved addresses.
    pub(super) fn map(&mut self, address: usize, size: usize, handle: usize) -> Outcome<()> {
        let block = self.block(handle)?;
        let (device, granule, whole) = (block.device, block.granule, block.pages.size);
        ensure!(size == whole, ACL_ERROR_RT_PARAM_INVALID;
            "{size} bytes of physical memory of {whole}; all of it must be mapped");
        ensure!(address.is_multiple_of(granule), ACL_ERROR_RT_ADDR_UNALIGNED;
            "{address:#x} is not aligned to the {granule} bytes of a page");
        let (start, range) = self.range(address)?;
        let offset = address - start;
        ensure!(size <= range.size - offset, ACL_ERROR_RT_PARAM_INVALID;
            "{size} bytes at {address:#x} go past the end of {} reserved addresses", range.size);
        let taken = range.pieces.range(..offset + size).next_back();
        ensure!(
            taken.is_none_or(|(start, piece)| start + piece.size <= offset),
            ACL_ERROR_RT_PARAM_INVALID;
            "memory is mapped to some of the {size} addresses from {address:#x} on"
        );
        let other = range.pieces.values().find(|piece| piece.device != device);
        ensure!(other.is_none(), ACL_ERROR_RT_PARAM_INVALID;
            "memory of another device than {device} is mapped to these reserved addresses");
        // SAFETY: the range is in the window and has no pages, and slices of it borrow this memory.
        unsafe { range.window.map(offset, &self.blocks[&handle].pages) }?;
        let piece = Piece {
            size,
            handle,
            device,
        };
        if let Some(range) = self.ranges.get_mut(&start) {
            range.pieces.insert(offset, piece);
        }
        if let Some(block) = self.blocks.get_mut(&handle) {
            block.mapped += 1;
        }
        Ok(())
    }

    pub(super) fn unmap(&mut self, address: usize) -> Outcome<()> {
        let (start, range) = self.range(address)?;
        let Some(piece) = range.pieces.get(&(address - start)) else {
            fail!(ACL_ERROR_RT_PARAM_INVALID;
                "no memory was mapped at {address:#x}, or it was unmapped")
        };
        let handle = piece.handle;
        // SAFETY: the piece is in the window, and slices of it borrow this memory.
        unsafe { range.window.unmap(address - start, piece.size) }?;
        if let Some(range) = self.ranges.get_mut(&start) {
            range.pieces.remove(&(address - start));
        }
        if let Some(block) = self.blocks.get_mut(&handle) {
            block.mapped -= 1;
        }
        Ok(())
    }

    fn range(&self, address: usize) -> Outcome<(usize, &Range)> {
        let found = self.ranges.range(..=address).next_back();
        match found.filter(|(start, range)| address - *start < range.size) {
            Some((start, range)) => Ok((*start, range)),
            None => fail!(ACL_ERROR_RT_PARAM_INVALID;
                "{address:#x} is not a reserved address, or was released"),
        }
    }

    /// Returns where the host has `count` bytes. They are mapped until the next call that takes `&mut self`.
    pub(super) fn find(&self, address: usize, count: usize) -> Outcome<*mut u8> {
        let (start, range) = self.range(address)?;
        let first = address - start;
        ensure!(count <= range.size - first, ACL_ERROR_RT_PARAM_INVALID;
            "{count} bytes at {address:#x} go past the end of {} reserved addresses", range.size);
        let mut next = first;
        while next < first + count {
            let Some((at, piece)) = range.piece(next) else {
                fail!(ACL_ERROR_RT_PARAM_INVALID;
                    "{:#x} is reserved, but no memory is mapped there", start + next)
            };
            next = at + piece.size;
        }
        Ok(range.window.at(first))
    }

    /// Returns the device whose memory is mapped to an address.
    pub(super) fn device_of(&self, address: usize) -> Option<i32> {
        let (start, range) = self.range(address).ok()?;
        Some(range.piece(address - start)?.1.device)
    }

    /// Forgets the memory of a device. Its addresses stay reserved, without memory.
    pub(super) fn clear(&mut self, device: i32) {
        for range in self.ranges.values_mut() {
            let Range { window, pieces, .. } = range;
            pieces.retain(|offset, piece| {
                // SAFETY: the piece is in the window, and slices of it borrow this memory.
                piece.device != device || unsafe { window.unmap(*offset, piece.size) }.is_err()
            });
        }
        self.blocks.retain(|_, block| block.device != device);
        for (handle, block) in &mut self.blocks {
            let pieces = self.ranges.values().flat_map(|range| range.pieces.values());
            block.mapped = pieces.filter(|piece| piece.handle == *handle).count();
        }
    }

    /// Returns the devices and descriptions of physical memory that was not freed.
    pub(super) fn live(&self) -> impl Iterator<Item = (i32, String)> {
        self.blocks.iter().map(|(handle, block)| {
            let (size, device) = (block.pages.size, block.device);
            let text = format!(
                "{size} bytes of physical memory {handle:#x} on device {device} were never freed"
            );
            (device, text)
        })
    }

    /// Releases all addresses, to which no memory is mapped. Returns a description of each range.
    pub(super) fn release_all(&mut self) -> Vec<String> {
        let ranges = std::mem::take(&mut self.ranges).into_iter();
        ranges
            .map(|(address, range)| {
                let size = range.size;
                format!("{size} addresses reserved at {address:#x} were never released")
            })
            .collect()
    }
}
