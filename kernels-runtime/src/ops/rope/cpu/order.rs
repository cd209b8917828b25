//! In which order pairs and results lie in a row.

use std::mem::MaybeUninit;

/// Where the elements of a pair are.
pub(super) trait Places: Send + Sync {
    fn pairs<T: Copy>(row: &[T]) -> impl Iterator<Item = [T; 2]>;
    fn places<T>(row: &mut [MaybeUninit<T>]) -> impl Iterator<Item = [&mut MaybeUninit<T>; 2]>;
}

/// `i` and `i + w/2`.
pub(super) struct Halves;

/// `2i` and `2i + 1`.
pub(super) struct Neighbours;

impl Places for Halves {
    #[inline(always)]
    fn pairs<T: Copy>(row: &[T]) -> impl Iterator<Item = [T; 2]> {
        let (first, second) = row.split_at(row.len() / 2);
        first.iter().zip(second).map(|(a, b)| [*a, *b])
    }

    #[inline(always)]
    fn places<T>(row: &mut [MaybeUninit<T>]) -> impl Iterator<Item = [&mut MaybeUninit<T>; 2]> {
        let (first, second) = row.split_at_mut(row.len() / 2);
        first.iter_mut().zip(second).map(|(a, b)| [a, b])
    }
}

impl Places for Neighbours {
    #[inline(always)]
    fn pairs<T: Copy>(row: &[T]) -> impl Iterator<Item = [T; 2]> {
        row.as_chunks().0.iter().copied()
    }

    #[inline(always)]
    fn places<T>(row: &mut [MaybeUninit<T>]) -> impl Iterator<Item = [&mut MaybeUninit<T>; 2]> {
        row.as_chunks_mut().0.iter_mut().map(|[a, b]| [a, b])
    }
}

/// The rotation, or its transpose, which takes gradients back: it turns the other way, and the
/// sines that belonged to the results belong to what they came from.
#[derive(Clone, Copy)]
pub(super) enum Direction {
    Forward,
    Backward,
}

impl Direction {
    /// Of the sines.
    pub(super) fn sign(self) -> f64 {
        match self {
            Self::Forward => 1.0,
            Self::Backward => -1.0,
        }
    }

    pub(super) fn order<T>(self, (first, second): (T, T)) -> (T, T) {
        match self {
            Self::Forward => (first, second),
            Self::Backward => (second, first),
        }
    }
}
