//! Device memory: the caching allocator, its blocks, and pinned memory of the host.

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

/// An address on a device. The host can't read it, so it is only a number here.
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
