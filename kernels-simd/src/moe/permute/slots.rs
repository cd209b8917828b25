//! Slots and rows as plain integers: the row map and its inverse.

use crate::moe::Groups;

/// Returns the row of every slot, or the number of slots if it has none.
pub fn row_map(groups: &Groups) -> Vec<i64> {
    let none = groups.rows().len() as i64;
    let rows = groups.rows().iter();
    rows.map(|row| match *row {
        Groups::SKIPPED => none,
        row => i64::from(row),
    })
    .collect()
}

/// Returns the number of rows of each expert among the first `rows` rows.
pub fn counts(groups: &Groups, rows: usize) -> Vec<i64> {
    let count = |expert| {
        let of = groups.of(expert);
        (of.end.min(rows) - of.start.min(rows)) as i64
    };
    (0..groups.experts()).map(count).collect()
}

/// Returns the row of an entry of a row map, if it is below `rows`.
#[inline(always)]
pub(super) fn row(entry: i64, rows: usize) -> Option<usize> {
    usize::try_from(entry).ok().filter(|row| *row < rows)
}

/// Returns the slot of every row.
///
/// # Panics
/// Panics if two slots have the same row. The map is then not from `moe_permute`.
pub(super) fn invert(row_map: &[i64], rows: usize) -> Vec<Option<usize>> {
    let mut slots = vec![None; rows];
    for (slot, entry) in row_map.iter().enumerate() {
        if let Some(row) = row(*entry, rows) {
            let other = slots[row].replace(slot);
            assert!(
                other.is_none(),
                "moe_unpermute: the row map has row {row} for two slots; give it the map that \
                 moe_permute made"
            );
        }
    }
    slots
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::moe::Integers;

    fn sort(indices: &[i64], experts: usize, rows: usize) -> (Vec<i64>, Vec<i64>) {
        let groups = Groups::by_expert(Integers::I64(indices), 1, experts);
        (row_map(&groups), counts(&groups, rows))
    }

    #[test]
    fn slots_are_sorted_by_expert_and_keep_their_order() {
        let indices = [2, 0, 2, 1, 0, 2];
        let (row_map, counts) = sort(&indices, 4, 6);
        assert_eq!(row_map, [3, 0, 4, 2, 1, 5]);
        assert_eq!(counts, [2, 1, 3, 0]);
        let slots: Vec<_> = invert(&row_map, 6).into_iter().flatten().collect();
        assert_eq!(slots, [1, 4, 3, 0, 2, 5]);
    }

    #[test]
    fn experts_that_are_not_here_have_no_rows() {
        let (row_map, counts) = sort(&[1, 2, 2, 0, 2, 1], 2, 6);
        assert_eq!(row_map, [1, 6, 6, 0, 6, 2]);
        assert_eq!(counts, [1, 2]);
        assert_eq!(
            invert(&row_map, 6),
            [Some(3), Some(0), Some(5), None, None, None]
        );
    }

    #[test]
    fn rows_that_are_cut_off_are_not_counted() {
        let (row_map, counts) = sort(&[0, 1, 1, 2], 3, 2);
        assert_eq!(row_map, [0, 1, 2, 3]);
        assert_eq!(counts, [1, 1, 0]);
        assert_eq!(invert(&row_map, 2), [Some(0), Some(1)]);
    }

    #[test]
    #[should_panic(expected = "row 1 for two slots")]
    fn a_map_with_a_row_twice_is_refused() {
        invert(&[0, 1, 1], 3);
    }
}
