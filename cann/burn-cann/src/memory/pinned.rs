//! Unused pinned host memory, kept for the next buffer of about its size.
//!
//! Pinning takes the driver longer than most copies. A buffer comes here when its last holder drops it, and streams
//! hold what their copies use until they have passed them. So everything here is free.

use std::collections::HashMap;

/// The size up to which buffers are kept. Few programs use two larger ones in a row.
const LARGEST: usize = 16 << 20;

/// The default limit of kept bytes.
const LIMIT: usize = 64 << 20;

/// Figures of a device's pinned memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PinnedStatistics {
    /// The bytes kept for the next buffers.
    pub cached: usize,
    /// The number of buffers that reused kept memory.
    pub hits: u64,
    /// The number of buffers for which the host had to be asked.
    pub misses: u64,
}

/// Free buffers by their size.
#[derive(Debug)]
pub(crate) struct PinnedCache<T> {
    free: HashMap<usize, Vec<T>>,
    limit: usize,
    figures: PinnedStatistics,
}

impl<T> Default for PinnedCache<T> {
    fn default() -> Self {
        Self {
            free: HashMap::new(),
            limit: LIMIT,
            figures: PinnedStatistics::default(),
        }
    }
}

impl<T> PinnedCache<T> {
    pub(crate) fn take(&mut self, size: usize) -> Option<T> {
        let found = self.free.get_mut(&size).and_then(Vec::pop);
        match found {
            Some(_) => {
                self.figures.hits += 1;
                self.figures.cached -= size;
            }
            None => self.figures.misses += 1,
        }
        found
    }

    /// Keeps a buffer, or returns it without room.
    #[must_use]
    pub(crate) fn give_back(&mut self, size: usize, buffer: T) -> Option<T> {
        if size > LARGEST || self.figures.cached + size > self.limit {
            return Some(buffer);
        }
        self.figures.cached += size;
        self.free.entry(size).or_default().push(buffer);
        None
    }

    /// Takes all buffers out.
    #[must_use]
    pub(crate) fn drain(&mut self) -> Vec<T> {
        self.figures.cached = 0;
        self.free.drain().flat_map(|(_, buffers)| buffers).collect()
    }

    /// Sets how many bytes are kept. If more are kept already, all of them are returned.
    #[must_use]
    pub(crate) fn set_limit(&mut self, limit: usize) -> Vec<T> {
        self.limit = limit;
        if self.figures.cached > limit {
            self.drain()
        } else {
            Vec::new()
        }
    }

    pub(crate) fn statistics(&self) -> PinnedStatistics {
        self.figures
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_found_again_by_its_size() {
        let mut cache = PinnedCache::default();
        assert_eq!(cache.take(512), None);
        assert_eq!(cache.give_back(512, 'a'), None);
        assert_eq!(cache.take(1024), None);
        assert_eq!(cache.take(512), Some('a'));
        assert_eq!(cache.take(512), None);
        let figures = cache.statistics();
        assert_eq!((figures.cached, figures.hits, figures.misses), (0, 1, 3));
    }

    #[test]
    fn little_is_kept_and_nothing_large() {
        let mut cache = PinnedCache::default();
        assert_eq!(cache.give_back(LARGEST + 1, 'a'), Some('a'));
        for kept in 0..4 {
            assert_eq!(cache.give_back(LARGEST, 'b'), None, "{kept}");
        }
        assert_eq!(cache.give_back(512, 'c'), Some('c'));
        assert_eq!(cache.set_limit(LARGEST).len(), 4);
        assert_eq!(cache.give_back(512, 'd'), None);
        assert_eq!(cache.statistics().cached, 512);
        assert_eq!(cache.drain(), ['d']);
        assert_eq!(cache.statistics().cached, 0);
    }
}
