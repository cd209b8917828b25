//! The state of the caching allocator: the free blocks of each stream.
//!
//! A block's last use is on one stream (see [`Memory`](super::Memory)). When the host frees a block, the device may
//! still work on it. So the block goes to the free blocks *of that stream*, which may reuse it at once, because later
//! work on the stream comes after. Another stream may take it only once an event, recorded behind its last use, is
//! complete.
//!
//! The device stands behind [`Backend`], so that tests need none.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use super::Address;
use super::class::class;

/// A stream's number, unique in the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct StreamId(pub(crate) u64);

/// The operations of a device that the allocator needs.
pub(crate) trait Backend {
    /// The device's handle of a stream.
    type Stream;
    /// A mark in a stream's work.
    type Event;
    /// The errors of the device.
    type Error;
    /// Allocates `bytes` of memory, or returns none if there is not enough.
    fn allocate(&self, bytes: usize) -> Result<Option<Address>, Self::Error>;
    /// Gives memory back at once, whatever the device does.
    fn release(&self, address: Address);
    /// Records a mark behind all work on the stream so far.
    fn mark(&self, stream: &Self::Stream) -> Result<Self::Event, Self::Error>;
    /// Returns `true` if the stream has passed the mark.
    fn passed(&self, mark: &Self::Event) -> Result<bool, Self::Error>;
    /// Waits for all streams.
    fn synchronise(&self) -> Result<(), Self::Error>;
    /// Waits for one stream.
    fn wait(&self, stream: &Self::Stream) -> Result<(), Self::Error>;
}

/// Figures of the allocator, in bytes of blocks, which are somewhat more than the requested bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// The bytes in use.
    pub in_use: usize,
    /// The most bytes in use at once since the start or [`Device::reset_peak`](crate::Device::reset_peak).
    pub peak: usize,
    /// The bytes that were freed and are kept for the next requests.
    pub cached: usize,
    /// The number of requests so far.
    pub requests: u64,
    /// The number of requests for which the device had to be asked.
    pub device_requests: u64,
    /// The number of times that the cache was emptied because memory was short.
    pub flushes: u64,
}

impl fmt::Display for Statistics {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            in_use,
            peak,
            cached,
            ..
        } = self;
        write!(
            out,
            "{in_use} bytes in use ({peak} at the peak), {cached} cached"
        )
    }
}

/// The reason why a request failed.
#[derive(Debug)]
pub(crate) enum Refused<E> {
    /// There is not enough memory, even with an empty cache.
    OutOfMemory,
    /// The device failed.
    Device(E),
}

impl<E> From<E> for Refused<E> {
    fn from(error: E) -> Self {
        Self::Device(error)
    }
}

/// A free block.
struct Free<Event> {
    address: Address,
    /// A mark behind its last use, recorded when another stream first looked for a block.
    mark: Option<Arc<Event>>,
}

/// The free blocks of a stream.
pub(crate) struct Lane<B: Backend> {
    stream: B::Stream,
    free: HashMap<usize, Vec<Free<B::Event>>>,
}

/// The state of a device's allocator.
pub(crate) struct Pool<B: Backend> {
    lanes: HashMap<StreamId, Lane<B>>,
    /// Free blocks that no stream works on.
    idle: HashMap<usize, Vec<Address>>,
    statistics: Statistics,
}

impl<B: Backend> Default for Pool<B> {
    fn default() -> Self {
        Self {
            lanes: HashMap::new(),
            idle: HashMap::new(),
            statistics: Statistics::default(),
        }
    }
}

impl<B: Backend> Pool<B> {
    pub(crate) fn statistics(&self) -> Statistics {
        self.statistics
    }

    pub(crate) fn reset_peak(&mut self) {
        self.statistics.peak = self.statistics.in_use;
    }

    pub(crate) fn stream_added(&mut self, id: StreamId, stream: B::Stream) {
        let free = HashMap::new();
        self.lanes.insert(id, Lane { stream, free });
    }

    /// Takes the free blocks of a stream that ends out of the pool.
    pub(crate) fn stream_gone(&mut self, id: StreamId) -> Option<Lane<B>> {
        self.lanes.remove(&id)
    }

    /// Makes the blocks of an idle stream free for all streams.
    pub(crate) fn lane_is_free(&mut self, lane: Lane<B>) {
        for (class, blocks) in lane.free {
            let addresses = blocks.into_iter().map(|block| block.address);
            self.idle.entry(class).or_default().extend(addresses);
        }
    }

    /// Gives up the blocks of a stream, because the device may still work on them.
    pub(crate) fn lane_is_lost(&mut self, lane: Lane<B>) {
        let lost: usize = lane
            .free
            .iter()
            .map(|(class, blocks)| class * blocks.len())
            .sum();
        self.statistics.cached -= lost;
    }

    /// Returns a block of at least `bytes` for use on `stream`, and its size.
    pub(crate) fn allocate(
        &mut self,
        backend: &B,
        bytes: usize,
        stream: StreamId,
    ) -> Result<(Address, usize), Refused<B::Error>> {
        let size = class(bytes).ok_or(Refused::OutOfMemory)?;
        self.statistics.requests += 1;
        let address = match self.take_cached(backend, size, stream) {
            Some(address) => {
                self.statistics.cached -= size;
                address
            }
            None => self.ask_device(backend, size)?,
        };
        self.statistics.in_use += size;
        self.statistics.peak = self.statistics.peak.max(self.statistics.in_use);
        Ok((address, size))
    }

    /// Frees a block whose last use is on `stream`.
    pub(crate) fn free(&mut self, address: Address, size: usize, stream: StreamId) {
        self.statistics.in_use -= size;
        self.statistics.cached += size;
        match self.lanes.get_mut(&stream) {
            Some(lane) => {
                let blocks = lane.free.entry(size).or_default();
                blocks.push(Free {
                    address,
                    mark: None,
                });
            }
            // The stream has ended, and waited for its work when it did.
            None => self.idle.entry(size).or_default().push(address),
        }
    }

    /// Gives all cached blocks back to the device once their work is done. Blocks of a stream whose work failed stay,
    /// so that its failure does not keep memory from the other streams.
    pub(crate) fn flush(&mut self, backend: &B) -> Result<(), B::Error> {
        let all = backend.synchronise();
        let mut any = all.is_ok();
        let lanes = self.lanes.values_mut();
        let waited = lanes.filter(|lane| {
            let waited = all.is_ok() || backend.wait(&lane.stream).is_ok();
            any |= waited;
            waited
        });
        let of_lanes: Vec<_> = waited.flat_map(|lane| lane.free.drain()).collect();
        if !any {
            return all;
        }
        let of_lanes = of_lanes.into_iter().flat_map(|(size, blocks)| {
            let addresses = blocks.into_iter().map(|block| block.address);
            addresses.map(move |address| (size, address))
        });
        let idle = self.idle.drain();
        let idle =
            idle.flat_map(|(size, blocks)| blocks.into_iter().map(move |block| (size, block)));
        for (size, address) in of_lanes.chain(idle) {
            backend.release(address);
            self.statistics.cached -= size;
        }
        Ok(())
    }

    fn take_cached(&mut self, backend: &B, size: usize, stream: StreamId) -> Option<Address> {
        let own = self.lanes.get_mut(&stream);
        if let Some(block) = own.and_then(|lane| lane.free.get_mut(&size)?.pop()) {
            return Some(block.address);
        }
        if let Some(address) = self.idle.get_mut(&size).and_then(Vec::pop) {
            return Some(address);
        }
        self.take_from_others(backend, size, stream)
    }

    /// Takes a block of another stream that has passed the block's mark. Blocks without a mark get one now, for the
    /// next time.
    fn take_from_others(&mut self, backend: &B, size: usize, stream: StreamId) -> Option<Address> {
        let others = self.lanes.iter_mut().filter(|(id, _)| **id != stream);
        for lane in others.map(|(_, lane)| lane) {
            let Some(blocks) = lane.free.get_mut(&size) else {
                continue;
            };
            // If marking fails, that stream may have failed, which does not concern this one.
            if mark_all(backend, &lane.stream, blocks).is_err() {
                continue;
            }
            // Marks are in the order of frees, so the oldest is passed first.
            if let Some(mark) = blocks.first().and_then(|block| block.mark.as_deref())
                && backend.passed(mark).unwrap_or(false)
            {
                return Some(blocks.remove(0).address);
            }
        }
        None
    }

    fn ask_device(&mut self, backend: &B, size: usize) -> Result<Address, Refused<B::Error>> {
        self.statistics.device_requests += 1;
        if let Some(address) = backend.allocate(size)? {
            return Ok(address);
        }
        self.statistics.flushes += 1;
        self.flush(backend)?;
        backend.allocate(size)?.ok_or(Refused::OutOfMemory)
    }
}

fn mark_all<B: Backend>(
    backend: &B,
    stream: &B::Stream,
    blocks: &mut [Free<B::Event>],
) -> Result<(), B::Error> {
    let mut unmarked = blocks
        .iter_mut()
        .filter(|block| block.mark.is_none())
        .peekable();
    if unmarked.peek().is_some() {
        let mark = Arc::new(backend.mark(stream)?);
        unmarked.for_each(|block| block.mark = Some(mark.clone()));
    }
    Ok(())
}

#[cfg(test)]
#[path = "pool_tests.rs"]
mod tests;
