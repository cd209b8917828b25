//! The order of pairs and of results in a row.

use crate::cpu::Row;

/// The places of the elements of a pair.
pub(in crate::ops) trait Places: Send + Sync {
    /// Returns the pairs of a row.
    fn pairs<T: Copy>(row: &[T]) -> impl Iterator<Item = [T; 2]>;

    /// Writes a row of pairs.
    fn write<T: Copy>(row: Row<'_, T>, pairs: impl Iterator<Item = (T, T)>);
}

/// Elements `i` and `i + w/2`.
pub(in crate::ops) struct Halves;

/// Elements `2i` and `2i + 1`.
pub(in crate::ops) struct Neighbours;

impl Places for Halves {
    #[inline(always)]
    fn pairs<T: Copy>(row: &[T]) -> impl Iterator<Item = [T; 2]> {
        let (first, second) = row.split_at(row.len() / 2);
        first.iter().zip(second).map(|(a, b)| [*a, *b])
    }

    #[inline(always)]
    fn write<T: Copy>(row: Row<'_, T>, pairs: impl Iterator<Item = (T, T)>) {
        let half = row.len() / 2;
        let (first, second) = row.split_at(half);
        first.write_with(second, pairs);
    }
}

impl Places for Neighbours {
    #[inline(always)]
    fn pairs<T: Copy>(row: &[T]) -> impl Iterator<Item = [T; 2]> {
        row.as_chunks().0.iter().copied()
    }

    #[inline(always)]
    fn write<T: Copy>(row: Row<'_, T>, pairs: impl Iterator<Item = (T, T)>) {
        row.write_pairs(pairs);
    }
}

/// The rotation, or its transpose for gradients. The transpose rotates in the other direction and
/// exchanges the sines of the two results.
#[derive(Clone, Copy)]
pub(in crate::ops) enum Direction {
    Forward,
    Backward,
}

impl Direction {
    /// Returns the sign of the sines.
    #[inline(always)]
    pub(in crate::ops) fn sign(self) -> f64 {
        match self {
            Self::Forward => 1.0,
            Self::Backward => -1.0,
        }
    }

    #[inline(always)]
    pub(in crate::ops) fn order<T>(self, (first, second): (T, T)) -> (T, T) {
        match self {
            Self::Forward => (first, second),
            Self::Backward => (second, first),
        }
    }
}
