//! The memory of a device that a session may hold.

use super::bounded::{Limits, Served};
use super::{Host, MemoryLimits};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SessionMemory {
    /// The backend's default share of the device's memory.
    Share,
    Bytes(u64),
    /// All memory, because the sessions belong to this process.
    #[cfg(feature = "npu")]
    All,
}

impl SessionMemory {
    /// Returns the device with its limits.
    pub(super) fn of<B: Host>(self, device: B::Device) -> Served<B::Device> {
        let memory = match self {
            #[cfg(feature = "npu")]
            Self::All => None,
            Self::Share | Self::Bytes(_) => B::memory(&device),
        };
        // Without a known size of the memory, nothing is limited.
        let (session, all) = (usize::MAX, usize::MAX);
        let MemoryLimits { session, all } = memory.unwrap_or(MemoryLimits { session, all });
        let session = match self {
            Self::Bytes(bytes) => usize::try_from(bytes).unwrap_or(usize::MAX),
            _ => session,
        };
        Served::new(device, Limits::new(session, all))
    }
}
