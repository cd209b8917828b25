//! Device memory: the caching allocator, its blocks, and pinned memory of the host.
//!
//! # Order of work on a block
//!
//! A block knows the stream that used it last. Work on another stream first waits for that one. This happens under the
//! device's lock `order`, which is held until the work is submitted, so the device works in the order in which the
//! host asked.
//!
//! A block has one last stream, not a set of readers and a writer. So streams that read the same block don't run side
//! by side, but freeing is simple: a freed block belongs to one stream. It is reused there at once, and goes to
//! another stream when an event behind its last use is complete (`pool`). Blocks have size classes and are never split
//! (`class`).
//!
//! # Lifetime on the device
//!
//! Blocks need no other care, since they are reused only behind their last use. Streams keep pinned buffers and events
//! until an event shows that they have passed them. Pinned memory then goes to the device's cache (`pinned`), so
//! everything in that cache is free.

mod block;
mod class;
mod host;
mod pinned;
mod pool;

pub use block::Memory;
pub use host::Pinned;
pub(crate) use host::Start;
pub(crate) use pinned::PinnedCache;
pub use pinned::PinnedStatistics;
pub use pool::Statistics;
pub(crate) use pool::{Backend, Pool, Refused, StreamId};

/// An address on a device. It is only a number here, because the host can't read it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Address(usize);

impl Address {
    pub(crate) fn new(pointer: *mut std::ffi::c_void) -> Self {
        Self(pointer.expose_provenance())
    }

    pub(crate) fn pointer(self) -> *mut std::ffi::c_void {
        std::ptr::with_exposed_provenance_mut(self.0)
    }
}
