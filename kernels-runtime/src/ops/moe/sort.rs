//! Rows by expert.

/// The (token, choice) slots of a batch, sorted by expert; slots of one expert keep their order.
// The kernels need more of it than the reference.
#[cfg_attr(not(feature = "cpu"), allow(dead_code))]
#[derive(Debug)]
pub(crate) struct Groups {
    /// The slot of each row, `token · choices + choice`.
    slots: Vec<u32>,
    /// The row of each slot, [`Groups::SKIPPED`] if no expert takes it.
    rows: Vec<u32>,
    /// Where each expert's rows start, and the number of rows.
    starts: Vec<usize>,
}

#[cfg_attr(not(feature = "cpu"), allow(dead_code))]
impl Groups {
    /// The row of a slot that no expert takes.
    pub(crate) const SKIPPED: u32 = u32::MAX;

    /// Sorts slots by the expert that each names. Index `experts`, one past the last, means that
    /// none of these experts takes the slot: it lives on another device.
    ///
    /// # Panics
    /// An index is negative or above `experts`.
    #[track_caller]
    pub(crate) fn by_expert(indices: &[i64], experts: usize) -> Self {
        assert!(
            indices.len() < Self::SKIPPED as usize,
            "mixture of experts: {} routed tokens are more than {}",
            indices.len(),
            Self::SKIPPED,
        );
        let mut counts = vec![0_usize; experts + 1];
        for index in indices {
            match usize::try_from(*index) {
                Ok(expert) if expert <= experts => counts[expert] += 1,
                _ => panic!(
                    "mixture of experts: a token is routed to expert {index}, but there are \
                     {experts}; only {experts} itself may stand for an expert elsewhere"
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
            let expert = *index as usize;
            if expert < experts {
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

    /// The slots in the order of their rows.
    pub(crate) fn slots(&self) -> &[u32] {
        &self.slots
    }

    /// The rows in the order of their slots.
    pub(crate) fn rows(&self) -> &[u32] {
        &self.rows
    }

    /// The rows of an expert.
    pub(crate) fn of(&self, expert: usize) -> std::ops::Range<usize> {
        self.starts[expert]..self.starts[expert + 1]
    }

    /// How many experts there are.
    pub(crate) fn experts(&self) -> usize {
        self.starts.len() - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_keep_their_order_within_an_expert() {
        let groups = Groups::by_expert(&[2, 0, 3, 2, 0, 2], 3);
        assert_eq!(groups.slots(), [1, 4, 0, 3, 5]);
        assert_eq!(groups.rows(), [2, 0, Groups::SKIPPED, 3, 1, 4]);
        assert_eq!(
            [0, 1, 2].map(|expert| groups.of(expert)),
            [0..2, 2..2, 2..5]
        );
    }

    #[test]
    fn nothing_is_sorted_into_nothing() {
        let groups = Groups::by_expert(&[], 2);
        assert!(groups.slots().is_empty());
        assert_eq!(groups.of(1), 0..0);
        assert_eq!(groups.experts(), 2);
    }

    #[test]
    #[should_panic(expected = "routed to expert 4, but there are 3")]
    fn an_expert_that_does_not_exist_is_an_error() {
        Groups::by_expert(&[0, 4], 3);
    }
}
