//! In which order pairs, results and table elements lie in a row.

use crate::cpu::Real;
use std::mem::MaybeUninit;

/// Where the elements of a pair are.
pub(super) trait Places: Send + Sync {
    fn pairs<T: Copy>(row: &[T]) -> impl Iterator<Item = [T; 2]>;
    fn places<T>(row: &mut [MaybeUninit<T>]) -> impl Iterator<Item = [&mut MaybeUninit<T>; 2]>;
}

/// Which elements of a table belong to a pair.
pub(super) trait Table: Send + Sync {
    /// At least as many as the pairs that are rotated.
    fn pairs<T: Copy>(row: &[T]) -> impl Iterator<Item = [T; 2]>;
}

/// `i` and `i + w/2`.
pub(super) struct Halves;

/// `2i` and `2i + 1`.
pub(super) struct Neighbours;

/// `i` for both.
pub(super) struct Once;

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

impl Table for Halves {
    #[inline(always)]
    fn pairs<T: Copy>(row: &[T]) -> impl Iterator<Item = [T; 2]> {
        <Self as Places>::pairs(row)
    }
}

impl Table for Neighbours {
    #[inline(always)]
    fn pairs<T: Copy>(row: &[T]) -> impl Iterator<Item = [T; 2]> {
        <Self as Places>::pairs(row)
    }
}

impl Table for Once {
    #[inline(always)]
    fn pairs<T: Copy>(row: &[T]) -> impl Iterator<Item = [T; 2]> {
        row.iter().map(|angle| [*angle; 2])
    }
}

/// The rotation, or its transpose, which takes gradients back.
pub(super) trait Direction: Send + Sync {
    /// The orders in which `InterleavedToHalf` reads and writes.
    type ReadToHalf: Places;
    type WriteToHalf: Places;

    fn turn<A: Real>(x: [A; 2], cos: [A; 2], sin: [A; 2]) -> [A; 2];
}

pub(super) struct Forward;
pub(super) struct Backward;

impl Direction for Forward {
    type ReadToHalf = Neighbours;
    type WriteToHalf = Halves;

    #[inline(always)]
    fn turn<A: Real>([x1, x2]: [A; 2], [c1, c2]: [A; 2], [s1, s2]: [A; 2]) -> [A; 2] {
        [x1 * c1 - x2 * s1, x2 * c2 + x1 * s2]
    }
}

impl Direction for Backward {
    type ReadToHalf = Halves;
    type WriteToHalf = Neighbours;

    #[inline(always)]
    fn turn<A: Real>([d1, d2]: [A; 2], [c1, c2]: [A; 2], [s1, s2]: [A; 2]) -> [A; 2] {
        [d1 * c1 + d2 * s2, d2 * c2 - d1 * s1]
    }
}
