//! A block of queries: one lane each, padded to whole vectors.

use super::QUERIES;
use super::view::{View, parts};
use crate::{Element, LANES};
use std::ops::Range;

/// The queries of a block, and the keys that each of them sees.
pub(super) struct Lanes {
    pub(super) batch: usize,
    /// The head and the query of each lane. Lanes of the padding repeat the last query, and their results are dropped.
    pub(super) queries: Vec<(usize, usize)>,
    keys: Vec<Range<usize>>,
    /// The number of keys of a block.
    keys_of_block: usize,
    /// The number of lanes that are not padding.
    pub(super) count: usize,
}

impl Lanes {
    /// Returns the lanes of some rows, of which there is at least one.
    pub(super) fn new<T: Element>(
        view: &View<'_, T>,
        (batch, kv_head): (usize, usize),
        rows: Range<usize>,
    ) -> Self {
        let (count, last) = (rows.len(), rows.end - 1);
        let padded = count.next_multiple_of(LANES);
        debug_assert!(padded <= QUERIES);
        let rows = (0..padded).map(|lane| last.min(rows.start + lane));
        let queries: Vec<_> = rows.map(|row| view.query(kv_head, row)).collect();
        let keys = queries.iter().map(|(_, query)| view.seen(batch, *query));
        Self {
            batch,
            keys: keys.collect(),
            keys_of_block: view.keys,
            queries,
            count,
        }
    }

    /// Returns the head and the query of each lane that is not padding.
    pub(super) fn queries(&self) -> &[(usize, usize)] {
        &self.queries[..self.count]
    }

    /// Returns the number of lanes, with the padding.
    pub(super) fn len(&self) -> usize {
        self.queries.len()
    }

    /// Returns the blocks of keys that have all keys that some query sees, and perhaps others. In tiles, a block begins where a
    /// stored one does.
    pub(super) fn blocks_of_keys(
        &self,
        in_tiles: bool,
    ) -> impl Iterator<Item = Range<usize>> + use<> {
        let (seen, size) = (self.all_keys(), self.keys_of_block);
        let start = match in_tiles {
            true => seen.start / size * size,
            false => seen.start,
        };
        parts(start..seen.end, size)
    }

    /// Returns the keys that some query sees, and perhaps others between them.
    pub(super) fn all_keys(&self) -> Range<usize> {
        let seen = self.keys.iter().filter(|keys| !keys.is_empty());
        let start = seen.clone().map(|keys| keys.start).min();
        let end = seen.map(|keys| keys.end).max();
        start.unwrap_or(0)..end.unwrap_or(0)
    }

    /// Returns whole vectors of lanes, which contain all that see one of the keys. The range is empty if none does.
    pub(super) fn that_see(&self, keys: &Range<usize>) -> Range<usize> {
        let sees = |lane: &Range<usize>| lane.start < keys.end && keys.start < lane.end;
        let Some(first) = self.keys.iter().position(sees) else {
            return 0..0;
        };
        let last = self.keys.iter().rposition(sees).unwrap_or(first);
        first / LANES * LANES..(last + 1).next_multiple_of(LANES)
    }

    /// Returns true if each of these lanes sees all the keys.
    pub(super) fn see_all(&self, lanes: Range<usize>, keys: &Range<usize>) -> bool {
        let mut seen = self.keys[lanes].iter();
        seen.all(|seen| seen.start <= keys.start && keys.end <= seen.end)
    }

    /// Returns the keys that a lane sees among those of a block, counted from the first of the block.
    pub(super) fn seen(&self, lane: usize, keys: &Range<usize>) -> Range<usize> {
        let seen = &self.keys[lane];
        let within = |key: usize| key.clamp(keys.start, keys.end) - keys.start;
        within(seen.start)..within(seen.end)
    }
}
