//! Intervals of capabilities. The smallest interval that contains a device's capability applies.

use crate::registry::CapabilityRange;

/// A value for each interval of capabilities. Intervals may overlap and leave gaps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Intervals<T> {
    /// The entries, smallest interval first. Among intervals of equal size, the one of the newest devices comes first.
    entries: Vec<(CapabilityRange, T)>,
}

impl<T> Default for Intervals<T> {
    fn default() -> Self {
        Self {
            entries: Vec::new(),
        }
    }
}

impl<T: Default> Intervals<T> {
    /// Returns the value of exactly this interval, and adds it if it is missing.
    pub(super) fn entry(&mut self, range: CapabilityRange) -> &mut T {
        let order = |range: &CapabilityRange| (range.max - range.min, u16::MAX - range.min);
        let place = self
            .entries
            .binary_search_by_key(&order(&range), |(known, _)| order(known));
        let index = place.unwrap_or_else(|free| {
            self.entries.insert(free, (range, T::default()));
            free
        });
        &mut self.entries[index].1
    }

    /// Returns the value of the smallest interval that contains `capability`. Of two equally small ones, that of the
    /// newer devices.
    pub(super) fn smallest(&self, capability: u16) -> Option<&T> {
        let mut entries = self.entries.iter();
        entries
            .find(|(range, _)| range.contains(capability))
            .map(|(_, value)| value)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (CapabilityRange, &T)> {
        self.entries.iter().map(|(range, value)| (*range, value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(min: u16, max: u16) -> CapabilityRange {
        CapabilityRange { min, max }
    }

    fn of(ranges: &[CapabilityRange]) -> Intervals<String> {
        let mut intervals = Intervals::default();
        for range in ranges {
            *intervals.entry(*range) = range.to_string();
        }
        intervals
    }

    #[test]
    fn the_smallest_interval_counts() {
        let intervals = of(&[
            CapabilityRange::ANY,
            range(70, 90),
            range(80, 89),
            range(75, 75),
        ]);
        let at = |capability| intervals.smallest(capability).map(String::as_str);
        assert_eq!(at(0), Some("any"));
        assert_eq!(at(70), Some("70..=90"));
        assert_eq!(at(75), Some("75..=75"));
        assert_eq!(at(80), Some("80..=89"));
        assert_eq!(at(90), Some("70..=90"));
        assert_eq!(at(91), Some("any"));
    }

    #[test]
    fn gaps_are_gaps_and_equal_intervals_one() {
        let mut intervals = of(&[range(10, 20), range(30, 40), range(10, 20)]);
        assert_eq!(intervals.iter().count(), 2);
        assert_eq!(intervals.smallest(25), None);
        assert_eq!(intervals.smallest(9), None);
        intervals.entry(range(10, 20)).push('!');
        assert_eq!(intervals.smallest(10).unwrap(), "10..=20!");
    }

    #[test]
    fn of_overlapping_intervals_of_one_size_the_newer_counts() {
        for ranges in [
            [range(10, 20), range(15, 25)],
            [range(15, 25), range(10, 20)],
        ] {
            assert_eq!(of(&ranges).smallest(17).unwrap(), "15..=25");
            assert_eq!(of(&ranges).smallest(14).unwrap(), "10..=20");
        }
    }

    /// Compares the result with the definition, for many sets of intervals from a fixed generator.
    #[test]
    fn many_sets_agree_with_the_definition() {
        let mut state = 1_u32;
        let mut next = |below: u16| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            ((state >> 16) % u32::from(below)) as u16
        };
        for _ in 0..2_000 {
            let ranges: Vec<_> = (0..next(9))
                .map(|_| {
                    let (a, b) = (next(12), next(12));
                    range(a.min(b), a.max(b))
                })
                .collect();
            let intervals = of(&ranges);
            for capability in 0..13 {
                let containing = ranges.iter().filter(|range| range.contains(capability));
                let expected =
                    containing.min_by_key(|range| (range.max - range.min, u16::MAX - range.min));
                assert_eq!(
                    intervals.smallest(capability),
                    expected.map(ToString::to_string).as_ref(),
                    "{ranges:?} at {capability}"
                );
            }
        }
    }
}
