//! The order of pairs and of results in a row.

use crate::{LANES, Pairs, Read, Row};
use bytemuck::Zeroable;

/// The places of the elements of a pair.
pub(crate) trait Places: Send + Sync {
    /// The pairs of a row.
    type Of<'a, T: 'a>: Copy;

    /// Returns the pairs of a row.
    fn pairs<T>(row: &[T]) -> Self::Of<'_, T>;

    /// Returns the first and the second elements of a block of pairs.
    fn block<R: Read, T: Copy + Zeroable>(pairs: Self::Of<'_, T>, at: usize) -> [[T; LANES]; 2];

    /// Writes a row of pairs.
    fn write<T: Copy>(row: Row<'_, T>, pairs: &impl Pairs<T>);
}

/// Elements `i` and `i + w/2`.
pub(crate) struct Halves;

/// Elements `2i` and `2i + 1`.
pub(crate) struct Neighbours;

impl Places for Halves {
    type Of<'a, T: 'a> = [&'a [T]; 2];

    #[inline(always)]
    fn pairs<T>(row: &[T]) -> [&[T]; 2] {
        let (first, second) = row.split_at(row.len() / 2);
        [first, second]
    }

    #[inline(always)]
    fn block<R: Read, T: Copy + Zeroable>(
        [first, second]: [&[T]; 2],
        at: usize,
    ) -> [[T; LANES]; 2] {
        [R::block(first, at), R::block(second, at)]
    }

    #[inline(always)]
    fn write<T: Copy>(row: Row<'_, T>, pairs: &impl Pairs<T>) {
        let half = row.len() / 2;
        let (first, second) = row.split_at(half);
        first.write_blocks_with(second, pairs);
    }
}

impl Places for Neighbours {
    type Of<'a, T: 'a> = &'a [[T; 2]];

    #[inline(always)]
    fn pairs<T>(row: &[T]) -> &[[T; 2]] {
        row.as_chunks().0
    }

    #[inline(always)]
    fn block<R: Read, T: Copy + Zeroable>(pairs: &[[T; 2]], at: usize) -> [[T; LANES]; 2] {
        let pairs = R::block(pairs, at);
        let mut halves = [[pairs[0][0]; LANES]; 2];
        for i in 0..LANES {
            [halves[0][i], halves[1][i]] = pairs[i];
        }
        halves
    }

    #[inline(always)]
    fn write<T: Copy>(row: Row<'_, T>, pairs: &impl Pairs<T>) {
        row.write_blocks_by_turns(pairs);
    }
}

/// The rotation, or its transpose for gradients. The transpose rotates in the other direction and
/// exchanges the sines of the two results.
#[derive(Clone, Copy)]
pub(crate) enum Direction {
    Forward,
    Backward,
}

impl Direction {
    /// Returns the sign of the sines.
    #[inline(always)]
    pub(crate) fn sign(self) -> f64 {
        match self {
            Self::Forward => 1.0,
            Self::Backward => -1.0,
        }
    }

    #[inline(always)]
    pub(crate) fn order<T>(self, (first, second): (T, T)) -> (T, T) {
        match self {
            Self::Forward => (first, second),
            Self::Backward => (second, first),
        }
    }
}
