//! The order of tokens by their experts, with limits.
//!
//! Slot `t·K + k` is choice k of token t. Slots are sorted by expert, and those of one expert keep their order.

use std::ops::Range;

/// Returns the slots of the experts in a range, sorted.
pub(crate) fn sorted_slots(experts: &[i64], range: &Range<i64>) -> Vec<usize> {
    let mut slots: Vec<usize> = (0..experts.len())
        .filter(|slot| range.contains(&experts[*slot]))
        .collect();
    slots.sort_by_key(|slot| experts[*slot]);
    slots
}

/// Returns the row of each slot, and -1 for slots that are not among the sorted ones.
pub(crate) fn rows_in_order(sorted: &[usize], slots: usize) -> Vec<i64> {
    let mut rows = vec![-1; slots];
    for (row, slot) in sorted.iter().enumerate() {
        rows[*slot] = row as i64;
    }
    rows
}

/// Returns the row of each slot if every expert has `capacity` rows, and -1 for slots beyond the capacity.
pub(crate) fn rows_with_capacity(experts: &[i64], sorted: &[usize], capacity: usize) -> Vec<i64> {
    let mut rows = vec![-1; experts.len()];
    let (mut expert, mut taken) = (-1, 0);
    for slot in sorted {
        if experts[*slot] != expert {
            (expert, taken) = (experts[*slot], 0);
        }
        if taken < capacity {
            rows[*slot] = expert * capacity as i64 + taken as i64;
        }
        taken += 1;
    }
    rows
}

/// Returns the number of slots of each expert in a range.
pub(crate) fn counts(experts: &[i64], range: &Range<i64>) -> Vec<i64> {
    let mut counts = vec![0; (range.end - range.start).max(0) as usize];
    for expert in experts.iter().filter(|expert| range.contains(expert)) {
        counts[(expert - range.start) as usize] += 1;
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_beyond_the_capacity_or_the_range_have_no_row() {
        let experts = [2, 0, 2, 1, 2, 5];
        let sorted = sorted_slots(&experts, &(0..3));
        assert_eq!(sorted, [1, 3, 0, 2, 4]);
        assert_eq!(rows_in_order(&sorted, 6), [2, 0, 3, 1, 4, -1]);
        assert_eq!(
            rows_with_capacity(&experts, &sorted, 2),
            [4, 0, 5, 2, -1, -1]
        );
        assert_eq!(counts(&experts, &(1..4)), [1, 3, 0]);
    }
}
