//! The keys that a query sees: always consecutive ones, whatever the mask.

use super::{Lengths, Settings, Sizes};
use crate::semantics::{AttentionKey, AttentionMask, AttentionWindow, SequenceLengths};
use std::ops::Range;

/// The visible keys of each query.
#[derive(Clone, Debug)]
pub(super) struct Visible {
    mask: AttentionMask,
    prefix: usize,
    window: AttentionWindow,
    size: usize,
    sequences: SequenceLengths,
    lengths: Lengths,
    /// The position of the first query, counted from the first key. It is negative if there are more queries than
    /// keys and the last query is at the last key.
    first: i64,
    keys: usize,
}

impl Visible {
    /// Takes lengths that were checked.
    pub(super) fn new(
        sizes: Sizes,
        settings: Settings,
        lengths: Lengths,
        key: AttentionKey,
    ) -> Self {
        Self {
            mask: key.mask,
            prefix: settings.prefix.unwrap_or(0),
            window: key.window,
            size: settings.window.unwrap_or(0),
            sequences: key.lengths,
            lengths,
            first: settings.first(sizes),
            keys: sizes.keys,
        }
    }

    /// Returns the keys that a query of a sequence sees. The range is empty if it sees none. Neither end decreases from
    /// one query to the next.
    pub(super) fn of(&self, sequence: usize, query: usize) -> Range<usize> {
        let own = self.lengths.of(self.sequences, sequence, query, self.keys);
        // Positions are counted from the first key that the query may see: chunks begin there.
        let begin = own.start as i64;
        // Sizes of tensors fit into `i64`; sums saturate because the window is any number.
        let position = (self.first - begin).saturating_add(query as i64);
        let size = i64::try_from(self.size).unwrap_or(i64::MAX).max(1);
        let (start, end) = match self.window {
            AttentionWindow::None => (0, i64::MAX),
            AttentionWindow::Sliding => (
                position.saturating_sub(size - 1),
                position.saturating_add(size),
            ),
            AttentionWindow::Chunked => {
                let start = position.div_euclid(size).saturating_mul(size);
                (start, start.saturating_add(size))
            }
        };
        let end = match self.mask {
            AttentionMask::Causal => end.min(position.saturating_add(1)),
            // A prefix and a window don't go together, so the keys between them are visible, too.
            AttentionMask::Prefix => {
                let prefix = i64::try_from(self.prefix).unwrap_or(i64::MAX);
                position.saturating_add(1).max(prefix)
            }
            AttentionMask::None => end,
        };
        let keys = own.len() as i64;
        let (start, end) = (start.clamp(0, keys), end.clamp(0, keys));
        own.start + start as usize..own.start + end.max(start) as usize
    }

    /// Returns true if every query sees all keys.
    pub(super) fn is_everything(&self) -> bool {
        self.mask == AttentionMask::None
            && self.window == AttentionWindow::None
            && self.sequences == SequenceLengths::None
    }

    /// Returns true if the queries of all sequences see the same keys.
    pub(super) fn is_one_for_all(&self) -> bool {
        self.sequences == SequenceLengths::None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn visible(
        mask: AttentionMask,
        window: AttentionWindow,
        size: usize,
        first: i64,
        keys: usize,
    ) -> Visible {
        Visible {
            mask,
            prefix: size,
            window,
            size,
            sequences: SequenceLengths::None,
            lengths: Lengths::default(),
            first,
            keys,
        }
    }

    /// The definition, one pair at a time.
    fn sees(visible: &Visible, query: i64, key: i64) -> bool {
        let position = visible.first + query;
        let size = visible.size as i64;
        let near = match visible.window {
            AttentionWindow::None => true,
            AttentionWindow::Sliding => (position - key).abs() < size,
            AttentionWindow::Chunked => position.div_euclid(size) == key.div_euclid(size),
        };
        let in_order = match visible.mask {
            AttentionMask::Causal => key <= position,
            AttentionMask::Prefix => key <= position || key < visible.prefix as i64,
            AttentionMask::None => true,
        };
        near && in_order
    }

    #[test]
    fn ranges_hold_the_visible_keys() {
        use AttentionMask::{Causal, None, Prefix};
        for mask in [Causal, Prefix, None] {
            for (window, size) in [
                (AttentionWindow::None, 0),
                (AttentionWindow::None, 4),
                (AttentionWindow::Sliding, 1),
                (AttentionWindow::Sliding, 4),
                (AttentionWindow::Chunked, 1),
                (AttentionWindow::Chunked, 3),
            ] {
                for (first, keys) in [(0, 7), (5, 12), (-3, 4), (0, 0), (20, 6)] {
                    if mask == Prefix && window != AttentionWindow::None {
                        continue;
                    }
                    let visible = visible(mask, window, size, first, keys);
                    let mut last = 0..0;
                    for query in 0..10 {
                        let range = visible.of(0, query);
                        for key in 0..keys {
                            assert_eq!(
                                range.contains(&key),
                                sees(&visible, query as i64, key as i64),
                                "{visible:?}: query {query}, key {key}"
                            );
                        }
                        assert!(range.start >= last.start && range.end >= last.end);
                        last = range;
                    }
                }
            }
        }
    }

    #[test]
    fn any_numbers_are_a_range() {
        for first in [i64::MIN, i64::MAX] {
            for window in [
                AttentionWindow::None,
                AttentionWindow::Sliding,
                AttentionWindow::Chunked,
            ] {
                for mask in [AttentionMask::Causal, AttentionMask::Prefix] {
                    let range = visible(mask, window, usize::MAX, first, 9).of(0, 5);
                    assert!(range.start <= range.end && range.end <= 9);
                }
            }
        }
    }
}
