//! Sorting of slots by expert.

use crate::ops::operands::{Mismatch, checked, require};
use burn::tensor::TensorData;
use std::fmt::Display;

/// Runs `$body` with `$I` bound to the integer type of `$dtype`. Indices are compared before they are converted:
/// no index may wrap to the number of an expert.
macro_rules! dispatch_integer {
    ($dtype:expr, $I:ident => $body:expr) => {{
        macro_rules! with {
            ($type:ty) => {{
                type $I = $type;
                $body
            }};
        }
        match $dtype {
            burn::tensor::DType::I64 => with!(i64),
            burn::tensor::DType::I32 => with!(i32),
            burn::tensor::DType::I16 => with!(i16),
            burn::tensor::DType::I8 => with!(i8),
            burn::tensor::DType::U64 => with!(u64),
            burn::tensor::DType::U32 => with!(u32),
            burn::tensor::DType::U16 => with!(u16),
            burn::tensor::DType::U8 => with!(u8),
            other => unreachable!("{other:?} is no integer"),
        }
    }};
}
#[cfg(feature = "cpu")]
pub(crate) use dispatch_integer;

/// The slots (token, choice) of a batch, sorted by expert. Slots of one expert keep their order.
#[derive(Debug)]
pub(crate) struct Groups {
    /// The slot of each row, `token · choices + choice`.
    slots: Vec<u32>,
    /// The row of each slot, [`Groups::SKIPPED`] if it has no expert.
    rows: Vec<u32>,
    /// The first row of each expert, and finally the number of rows.
    starts: Vec<usize>,
}

/// The largest accepted number of experts, more than any model has. A number of experts from outside must not
/// decide how much memory is allocated.
const MOST_EXPERTS: usize = 1 << 20;

/// Checks that there are at most [`MOST_EXPERTS`] experts.
pub(crate) fn few_experts(op: &str, experts: usize) -> Result<(), Mismatch> {
    require!(
        experts <= MOST_EXPERTS,
        "{op}: {experts} experts are more than {MOST_EXPERTS}"
    );
    Ok(())
}

impl Groups {
    /// The row of a slot that has no expert.
    pub(crate) const SKIPPED: u32 = u32::MAX;

    /// Sorts slots by expert. `indices` has the expert of each slot, `choices` for each token. Index `experts`, one
    /// past the last, means that the expert is on another device.
    /// Takes two passes over the slots and one over the experts, without comparisons.
    ///
    /// # Panics
    /// Panics if an index is negative or above `experts`, if there are more than [`MOST_EXPERTS`], or if there are
    /// `u32::MAX` slots or more.
    #[track_caller]
    pub(crate) fn by_expert<I>(indices: &[I], choices: usize, experts: usize) -> Self
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
        checked(few_experts("mixture of experts", experts));
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

    /// Sorts as [`by_expert`](Self::by_expert), for indices `[tokens, choices]` that were read from a device.
    #[track_caller]
    pub(crate) fn of_data(indices: &TensorData, experts: usize) -> Self {
        let choices = indices.shape()[1];
        dispatch_integer!(indices.dtype(), I => {
            let indices = indices.as_slice::<I>().expect("of this type");
            Self::by_expert(indices, choices, experts)
        })
    }

    /// Returns the slots in the order of their rows.
    pub(crate) fn slots(&self) -> &[u32] {
        &self.slots
    }

    /// Returns the rows in the order of their slots.
    pub(crate) fn rows(&self) -> &[u32] {
        &self.rows
    }

    /// Returns the rows of an expert.
    pub(crate) fn of(&self, expert: usize) -> std::ops::Range<usize> {
        self.starts[expert]..self.starts[expert + 1]
    }

    /// Returns the number of experts.
    pub(crate) fn experts(&self) -> usize {
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
        let groups = Groups::by_expert(&[2_i64, 0, 3, 2, 0, 2], 2, 3);
        assert_eq!(groups.slots(), [1, 4, 0, 3, 5]);
        assert_eq!(groups.rows(), [2, 0, Groups::SKIPPED, 3, 1, 4]);
        assert_eq!(
            [0, 1, 2].map(|expert| groups.of(expert)),
            [0..2, 2..2, 2..5]
        );
    }

    #[test]
    fn nothing_is_sorted_into_nothing() {
        let groups = Groups::by_expert::<i64>(&[], 0, 2);
        assert!(groups.slots().is_empty());
        assert_eq!(groups.of(1), 0..0);
        assert_eq!(groups.experts(), 2);
    }

    #[test]
    #[should_panic(expected = "token 1 is routed to expert 4, but there are 3; only 3 itself")]
    fn an_expert_that_does_not_exist_is_an_error() {
        Groups::by_expert(&[0_u8, 3, 4, 1], 2, 3);
    }

    #[test]
    #[should_panic(expected = "token 0 is routed to expert -1, but there are 3")]
    fn a_negative_expert_is_an_error() {
        Groups::by_expert(&[-1_i8], 1, 3);
    }

    /// Checks more experts than the index type can count.
    #[test]
    fn more_experts_than_indices_can_name() {
        let groups = Groups::by_expert(&[127_i8, 0], 1, 300);
        assert_eq!(groups.slots(), [1, 0]);
        assert_eq!(groups.of(127), 1..2);
    }
}
