//! A block of device memory.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};

use super::Address;
use crate::cann::lock;
use crate::device::DeviceInner;
use crate::stream::Stream;

/// A block of device memory, shared by the views of it. Cheap to clone.
///
/// A block knows the stream that used it last. Work on another stream waits for that one first, so work on a block
/// runs in the order in which the program asks for it, on whatever streams. When the last view is dropped, the block
/// goes back to the allocator. That stream may reuse it at once, and others when that stream has passed its use.
#[derive(Clone)]
pub struct Memory(Arc<Block>);

struct Block {
    address: Address,
    size: usize,
    last: Mutex<Stream>,
    device: Arc<DeviceInner>,
}

impl Memory {
    pub(crate) fn new(
        device: Arc<DeviceInner>,
        address: Address,
        size: usize,
        stream: Stream,
    ) -> Self {
        let last = Mutex::new(stream);
        Self(Arc::new(Block {
            address,
            size,
            last,
            device,
        }))
    }

    /// Returns the block's size in bytes, which is at least the requested one.
    pub fn size(&self) -> usize {
        self.0.size
    }

    /// Returns a number that no other block has while this one exists.
    pub fn id(&self) -> usize {
        Arc::as_ptr(&self.0).addr()
    }

    /// Returns `true` if both are the same block.
    pub fn is_shared_with(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Returns `true` if this is the only handle, so that nobody else sees a write to the block.
    pub fn is_exclusive(&mut self) -> bool {
        Arc::get_mut(&mut self.0).is_some()
    }

    /// Returns `true` if no other handle exists now. Only the holder of this one could make another.
    #[cfg(feature = "backend")]
    pub(crate) fn is_sole(&self) -> bool {
        Arc::strong_count(&self.0) == 1 && Arc::weak_count(&self.0) == 0
    }

    pub(crate) fn device(&self) -> &Arc<DeviceInner> {
        &self.0.device
    }

    pub(crate) fn address(&self) -> Address {
        self.0.address
    }

    /// Returns the stream of the last use. It changes only while the device's `order` lock is held.
    pub(crate) fn last_stream(&self) -> MutexGuard<'_, Stream> {
        lock(&self.0.last)
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "{} bytes on device {}",
            self.0.size,
            self.0.device.id()
        )
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // This was the last handle, so no work on the block is being handed over: its last stream is final.
        let stream = lock(&self.last).id();
        lock(self.device.pool()).free(self.address, self.size, stream);
    }
}
