//! Rows by expert.

use crate::ops::operands::{Mismatch, checked, require};
use burn::tensor::TensorData;
use std::fmt::Display;

/// Runs `$body` with `$I` bound to the integer type of `$dtype`: no index may wrap into that of an
/// expert, so none is converted before it is compared.
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

/// The (token, choice) slots of a batch, sorted by expert; slots of one expert keep their order.
// The kernels need more of it than the reference.
#[derive(Debug)]
pub(crate) struct Groups {
    /// The slot of each row, `token · choices + choice`.
    slots: Vec<u32>,
    /// The row of each slot, [`Groups::SKIPPED`] if no expert takes it.
    rows: Vec<u32>,
    /// Where each expert's rows start, and the number of rows.
    starts: Vec<usize>,
}

/// More experts than any model has: a count of experts from outside must not be taken for a size of
/// memory.
const MOST_EXPERTS: usize = 1 << 20;

/// Refuses more than [`MOST_EXPERTS`].
pub(crate) fn few_experts(op: &str, experts: usize) -> Result<(), Mismatch> {
    require!(
        experts <= MOST_EXPERTS,
        "{op}: {experts} experts are more than {MOST_EXPERTS}"
    );
    Ok(())
}

impl Groups {
    /// The row of a slot that no expert takes.
    pub(crate) const SKIPPED: u32 = u32::MAX;

    /// Sorts slots by the expert that each names, `choices` of them a token. Index `experts`, one
    /// past the last, means that none of these experts takes the slot: it lives on another device.
    /// Two passes over the slots and one over the experts; nothing is compared.
    ///
    /// # Panics
    /// An index is negative or above `experts`, or there are more than [`MOST_EXPERTS`].
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

    /// As [`by_expert`](Self::by_expert), of indices `[tokens, choices]` that were read from a device.
    #[track_caller]
    pub(crate) fn of_data(indices: &TensorData, experts: usize) -> Self {
        let choices = indices.shape()[1];
        dispatch_integer!(indices.dtype(), I => {
            let indices = indices.as_slice::<I>().expect("of this type");
            Self::by_expert(indices, choices, experts)
        })
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

/// An index as the number of an expert, if it can be one.
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

    /// The number of experts need not be one that the indices can hold.
    #[test]
    fn more_experts_than_indices_can_name() {
        let groups = Groups::by_expert(&[127_i8, 0], 1, 300);
        assert_eq!(groups.slots(), [1, 0]);
        assert_eq!(groups.of(127), 1..2);
    }
}
