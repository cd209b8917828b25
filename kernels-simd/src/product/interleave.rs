//! Pairs of elements of two lines.

use super::panel;
use crate::lanes::vectorize;
use crate::{CHUNK, Element, share};
use half::bf16;

/// The task of pairing the elements of two lines. An odd last line is paired with zeros.
pub(super) struct Interleave<'a, T> {
    pub(super) from: &'a [T],
    pub(super) lines: usize,
    pub(super) length: usize,
    pub(super) line_stride: usize,
    pub(super) stride: usize,
    pub(super) to: &'a mut [f32],
}

impl<T: Half> pulp::WithSimd for Interleave<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _: S) {
        let pair = |first: T, second: u32| f32::from_bits(first.bits() | second << 16);
        for (index, to) in self.to.chunks_exact_mut(self.length.max(1)).enumerate() {
            let line = |line: usize| &self.from[line * self.line_stride..];
            let first = line(2 * index);
            if 2 * index + 1 == self.lines {
                for (to, first) in to.iter_mut().zip(first.iter().step_by(self.stride)) {
                    *to = pair(*first, 0);
                }
            } else if self.stride == 1 {
                let (first, second) = (&first[..to.len()], &line(2 * index + 1)[..to.len()]);
                for ((to, first), second) in to.iter_mut().zip(first).zip(second) {
                    *to = pair(*first, second.bits());
                }
            } else {
                let second = line(2 * index + 1).iter().step_by(self.stride);
                let both = first.iter().step_by(self.stride).zip(second);
                for (to, (first, second)) in to.iter_mut().zip(both) {
                    *to = pair(*first, second.bits());
                }
            }
        }
    }
}

/// An element that can be paired.
pub(super) trait Half: Copy {
    /// True for f32, false for bf16.
    const IS_SINGLE: bool;

    /// Returns the element as bf16, in the lower half.
    fn bits(self) -> u32;
}

impl Half for bf16 {
    const IS_SINGLE: bool = false;

    #[inline(always)]
    fn bits(self) -> u32 {
        u32::from(self.to_bits())
    }
}

impl Half for f32 {
    const IS_SINGLE: bool = true;

    #[inline(always)]
    fn bits(self) -> u32 {
        <bf16 as Element>::round(self).bits()
    }
}

/// Rounds `count` rows of f32 to bf16 and joins each two of them to one row of pairs.
pub(super) fn rows_together(rows: &[f32], count: usize, length: usize) -> Vec<f32> {
    let mut together = vec![0.0; pairs_of(count, length)];
    join(rows, count, length, &mut together);
    together
}

/// Returns the number of elements of the pairs of `count` rows.
pub(super) fn pairs_of(count: usize, length: usize) -> usize {
    count.div_ceil(2) * length
}

/// Joins each two of `count` rows of bf16 to one row of pairs, on rayon's threads.
///
/// # Panics
/// Panics if the rows are not bf16.
pub(super) fn tensor_together<T: Element>(rows: &[T], length: usize, together: &mut [f32]) {
    let rows: &[bf16] = panel::same(rows).expect("pairs are of bf16");
    // An even number of rows, so that each part has whole pairs.
    let some = (CHUNK / length.max(1)).max(1) * 2;
    let parts = together.chunks_mut((some / 2 * length).max(1));
    let rows = rows.chunks((some * length).max(1));
    share::each_of_many(parts.zip(rows).collect(), |(to, rows)| {
        join(rows, rows.len() / length, length, to);
    });
}

fn join<T: Half>(rows: &[T], count: usize, length: usize, together: &mut [f32]) {
    vectorize(Interleave {
        from: rows,
        lines: count,
        length,
        line_stride: length,
        stride: 1,
        to: together,
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(i: usize) -> f32 {
        ((i * 7919) % 101) as f32 - 50.0
    }

    #[test]
    fn two_rows_become_one_and_an_odd_last_one_is_paired_with_zeros() {
        for (count, length) in [(1, 1), (1, 5), (2, 3), (3, 4), (6, 1), (7, 33), (0, 4)] {
            let rows: Vec<f32> = (0..count * length).map(value).collect();
            let together = rows_together(&rows, count, length);
            assert_eq!(together.len(), pairs_of(count, length));
            let halves: Vec<bf16> = rows.iter().map(|row| bf16::from_f32(*row)).collect();
            let mut of_tensor = vec![f32::NAN; pairs_of(count, length)];
            tensor_together(&halves, length, &mut of_tensor);
            assert_eq!(of_tensor, together);
            for (at, pair) in together.into_iter().enumerate() {
                let (line, along) = (at / length, at % length);
                let there = |row: usize| {
                    let value = rows.get(row * length + along);
                    u32::from(bf16::from_f32(value.copied().unwrap_or(0.0)).to_bits())
                };
                assert_eq!(pair.to_bits(), there(2 * line) | there(2 * line + 1) << 16);
            }
        }
    }
}
