//! Rows in blocks of [`LANES`] elements, of which the last may be incomplete.
//!
//! Lanes are passed to `#[inline(always)]` functions only. A closure that is called twice, or by `map`, may be compiled by
//! itself, without the instructions of the context, and then takes ten times as long.

use super::{Context, LANES, Lanes};
use crate::sums::LONG;
use crate::{Element, Real};
use bytemuck::Zeroable;

/// The way to read a block of a row.
pub trait Read {
    /// Returns a block by its number.
    ///
    /// # Panics
    /// Panics if the row has no such block.
    fn block<T: Copy + Zeroable>(row: &[T], at: usize) -> [T; LANES];
}

/// Reads a whole block.
pub struct Whole;

impl Read for Whole {
    #[inline(always)]
    fn block<T: Copy + Zeroable>(row: &[T], at: usize) -> [T; LANES] {
        row.as_chunks().0[at]
    }
}

/// Reads the incomplete block at the end of a row, with zeros in the other lanes.
pub struct Padded;

impl Read for Padded {
    #[inline(always)]
    fn block<T: Copy + Zeroable>(row: &[T], at: usize) -> [T; LANES] {
        let rest = &row[at * LANES..];
        let mut block = [T::zeroed(); LANES];
        block[..rest.len()].copy_from_slice(rest);
        block
    }
}

/// Reads and loads a block of a row.
#[inline(always)]
pub fn block<C: Context, T: Element, R: Read>(c: C, row: &[T], at: usize) -> C::Of<T::Acc> {
    T::lanes(c, &R::block(row, at))
}

/// Loads a row into blocks, with zeros in the lanes that the row leaves of the last one.
///
/// # Panics
/// Panics if there are fewer blocks than the row needs.
#[inline(always)]
pub fn load_blocks<C: Context, T: Element>(c: C, row: &[T], blocks: &mut [[T::Acc; LANES]]) {
    let whole = row.len() / LANES;
    let (first, last) = blocks.split_at_mut(whole);
    for (at, values) in first.iter_mut().enumerate() {
        *values = block::<C, T, Whole>(c, row, at).values();
    }
    if !row.len().is_multiple_of(LANES) {
        last[0] = block::<C, T, Padded>(c, row, whole).values();
    }
}

/// Values of a row in blocks.
pub trait Blocks<T> {
    /// Returns the values of a block. Implementations are `#[inline(always)]`.
    fn at<R: Read>(&self, at: usize) -> [T; LANES];
}

/// The values of a row, rounded to another type.
pub struct Rounded<'a, A, C> {
    pub c: C,
    pub values: &'a [A],
}

impl<T: Element, C: Context> Blocks<T> for Rounded<'_, T::Acc, C> {
    #[inline(always)]
    fn at<R: Read>(&self, at: usize) -> [T; LANES] {
        T::rounded(self.c, block::<C, T::Acc, R>(self.c, self.values, at))
    }
}

/// The terms of `N` sums over a row, in blocks.
pub trait Terms<A: Real, C: Context, const N: usize> {
    /// Adds the terms of a block to the sums. Zeros in place of elements must add nothing. Implementations are
    /// `#[inline(always)]`.
    fn add<R: Read>(&self, at: usize, sums: [C::Of<A>; N]) -> [C::Of<A>; N];
}

/// The number of independent sums, which hide the time that an addition takes.
const SUMS: usize = 4;

/// Returns the sums of the terms over a row of `len` elements.
#[inline(always)]
pub fn sum_of_terms<A: Real, C: Context, const N: usize>(
    c: C,
    len: usize,
    terms: &impl Terms<A, C, N>,
) -> [A; N] {
    let blocks = len / LANES;
    let mut totals = [0.0; N];
    let mut at = 0;
    // Once, unless the row is long.
    loop {
        let end = blocks.min(at + LONG / LANES);
        let mut sums = [[C::Of::<A>::splat(c, A::ZERO); N]; SUMS];
        while at + SUMS <= end {
            for (i, sums) in sums.iter_mut().enumerate() {
                *sums = terms.add::<Whole>(at + i, *sums);
            }
            at += SUMS;
        }
        while at < end {
            sums[0] = terms.add::<Whole>(at, sums[0]);
            at += 1;
        }
        let is_last = at == blocks;
        if is_last && !len.is_multiple_of(LANES) {
            sums[1] = terms.add::<Padded>(at, sums[1]);
        }
        let [a, b, c, d] = sums;
        for (n, total) in totals.iter_mut().enumerate() {
            *total += ((a[n] + b[n]) + (c[n] + d[n])).total().into_f64();
        }
        if is_last {
            return totals.map(A::of);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::in_each_context;
    use super::*;
    use crate::Number;

    struct Product<'a, C> {
        left: &'a [f64],
        right: &'a [f64],
        c: C,
    }

    impl<C: Context> Terms<f64, C, 2> for Product<'_, C> {
        #[inline(always)]
        fn add<R: Read>(&self, at: usize, [first, second]: [C::Of<f64>; 2]) -> [C::Of<f64>; 2] {
            let read = |row| C::Of::<f64>::read(self.c, &R::block(row, at));
            let (left, right) = (read(self.left), read(self.right));
            [left.mul_add(right, first), second + left]
        }
    }

    #[test]
    fn sums_take_every_element_once() {
        for len in [0_u32, 1, 15, 16, 17, 64, 65, 80, 127, 128, 200] {
            let row: Vec<f64> = (1..=len).map(f64::from).collect();
            let n = f64::from(len);
            let expected = [n * (n + 1.0) * (2.0 * n + 1.0) / 6.0, n * (n + 1.0) / 2.0];
            in_each_context!(c => {
                let terms = Product { left: &row, right: &row, c };
                assert_eq!(sum_of_terms(c, row.len(), &terms), expected);
            });
        }
    }
}
