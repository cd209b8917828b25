//! Sorting of slots by expert.

use std::fmt::Display;
use std::ops::Range;

/// Integers of a type that is known at run time. Indices are compared before they are converted: no index may wrap to the
/// number of an expert.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)] // The names say it.
pub enum Integers<'a> {
    I64(&'a [i64]),
    I32(&'a [i32]),
    I16(&'a [i16]),
    I8(&'a [i8]),
    U64(&'a [u64]),
    U32(&'a [u32]),
    U16(&'a [u16]),
    U8(&'a [u8]),
}

/// The slots (token, choice) of a batch, sorted by expert. Slots of one expert keep their order.
#[derive(Debug)]
pub struct Groups {
    /// The slot of each row, `token · choices + choice`.
    slots: Vec<u32>,
    /// The row of each slot, [`Groups::SKIPPED`] if it has no expert.
    rows: Vec<u32>,
    /// The first row of each expert, and finally the number of rows.
    starts: Vec<usize>,
}

/// The largest accepted number of experts, more than any model has. A number of experts from outside must not
/// decide how much memory is allocated.
pub const MOST_EXPERTS: usize = 1 << 20;

impl Groups {
    /// The row of a slot that has no expert.
    pub const SKIPPED: u32 = u32::MAX;

    /// Sorts slots by expert. `indices` has the expert of each slot, `choices` for each token. Index `experts`, one
    /// past the last, means that the expert is on another device.
    /// Takes two passes over the slots and one over the experts, without comparisons.
    ///
    /// # Panics
    /// Panics if an index is negative or above `experts`, if there are more than [`MOST_EXPERTS`], if there are
    /// `u32::MAX` slots or more, or if some tokens have fewer choices.
    #[track_caller]
    pub fn by_expert(indices: Integers<'_>, choices: usize, experts: usize) -> Self {
        match indices {
            Integers::I64(indices) => Self::sort(indices, choices, experts),
            Integers::I32(indices) => Self::sort(indices, choices, experts),
            Integers::I16(indices) => Self::sort(indices, choices, experts),
            Integers::I8(indices) => Self::sort(indices, choices, experts),
            Integers::U64(indices) => Self::sort(indices, choices, experts),
            Integers::U32(indices) => Self::sort(indices, choices, experts),
            Integers::U16(indices) => Self::sort(indices, choices, experts),
            Integers::U8(indices) => Self::sort(indices, choices, experts),
        }
    }

    #[track_caller]
    fn sort<I>(indices: &[I], choices: usize, experts: usize) -> Self
    where
        I: Copy + Display,
        usize: TryFrom<I>,
    {
        assert!(
            indices.len() < Self::SKIPPED as usize,
            "mixture of experts: {} routed tokens are more than {}",
            indices.len(),
            Self::SKIPPED,
        );
        assert!(
            experts <= MOST_EXPERTS,
            "mixture of experts: {experts} experts are more than {MOST_EXPERTS}"
        );
        assert!(
            indices.is_empty() || choices > 0 && indices.len().is_multiple_of(choices),
            "mixture of experts: {} indices are not {choices} of each token",
            indices.len()
        );
        let mut counts = vec![0_usize; experts + 1];
        for (slot, index) in indices.iter().enumerate() {
            match number(*index) {
                Some(expert) if expert <= experts => counts[expert] += 1,
                _ => panic!(
                    "mixture of experts: token {} is routed to expert {index}, but there are \
                     {experts}; only {experts} itself may stand for an expert elsewhere",
                    slot / choices,
                ),
            }
        }
        let starts: Vec<usize> = std::iter::once(0)
            .chain(counts[..experts].iter().scan(0, |sum, count| {
                *sum += count;
                Some(*sum)
            }))
            .collect();
        let mut next = starts.clone();
        let mut slots = vec![0; starts[experts]];
        let mut rows = vec![Self::SKIPPED; indices.len()];
        for (slot, index) in indices.iter().enumerate() {
            if let Some(expert) = number(*index).filter(|expert| *expert < experts) {
                let row = next[expert];
                next[expert] += 1;
                slots[row] = slot as u32;
                rows[slot] = row as u32;
            }
        }
        Self {
            slots,
            rows,
            starts,
        }
    }

    /// Returns the slots in the order of their rows.
    pub fn slots(&self) -> &[u32] {
        &self.slots
    }

    /// Returns the rows in the order of their slots.
    pub fn rows(&self) -> &[u32] {
        &self.rows
    }

    /// Returns the rows of an expert.
    pub fn of(&self, expert: usize) -> Range<usize> {
        self.starts[expert]..self.starts[expert + 1]
    }

    /// Returns the number of experts.
    pub fn experts(&self) -> usize {
        self.starts.len() - 1
    }
}

/// Returns an index as the number of an expert, if it is in the range of `usize`.
fn number<I>(index: I) -> Option<usize>
where
    usize: TryFrom<I>,
{
    usize::try_from(index).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_keep_their_order_within_an_expert() {
        let groups = Groups::by_expert(Integers::I64(&[2, 0, 3, 2, 0, 2]), 2, 3);
        assert_eq!(groups.slots(), [1, 4, 0, 3, 5]);
        assert_eq!(groups.rows(), [2, 0, Groups::SKIPPED, 3, 1, 4]);
        assert_eq!(
            [0, 1, 2].map(|expert| groups.of(expert)),
            [0..2, 2..2, 2..5]
        );
    }

    #[test]
    fn nothing_is_sorted_into_nothing() {
        let groups = Groups::by_expert(Integers::I64(&[]), 0, 2);
        assert!(groups.slots().is_empty());
        assert_eq!(groups.of(1), 0..0);
        assert_eq!(groups.experts(), 2);
    }

    #[test]
    #[should_panic(expected = "token 1 is routed to expert 4, but there are 3; only 3 itself")]
    fn an_expert_that_does_not_exist_is_an_error() {
        Groups::by_expert(Integers::U8(&[0, 3, 4, 1]), 2, 3);
    }

    #[test]
    #[should_panic(expected = "token 0 is routed to expert -1, but there are 3")]
    fn a_negative_expert_is_an_error() {
        Groups::by_expert(Integers::I8(&[-1]), 1, 3);
    }

    /// Checks more experts than the index type can count.
    #[test]
    fn more_experts_than_indices_can_name() {
        let groups = Groups::by_expert(Integers::I8(&[127, 0]), 1, 300);
        assert_eq!(groups.slots(), [1, 0]);
        assert_eq!(groups.of(127), 1..2);
    }

    #[test]
    #[should_panic(expected = "3 indices are not 2 of each token")]
    fn tokens_have_as_many_choices() {
        Groups::by_expert(Integers::U32(&[0, 0, 0]), 2, 1);
    }

    #[test]
    #[should_panic(expected = "1048577 experts are more than 1048576")]
    fn too_many_experts_are_refused() {
        Groups::by_expert(Integers::U16(&[]), 1, MOST_EXPERTS + 1);
    }
}
