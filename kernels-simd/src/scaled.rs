//! Rows times factors, rounded to results.

use super::lanes::{Blocks, Context, LANES, Lanes as _, Read, Task, block, dispatch};
use super::{Element, Real, Row, Unwritten};

/// Places of rows, which are written one after the other.
pub trait RowsOut<T> {
    /// Returns the next row, of `len` elements.
    ///
    /// # Panics
    /// Panics if no row is left.
    fn next_row(&mut self, len: usize) -> Row<'_, T>;
}

impl<T: Copy> RowsOut<T> for Unwritten<'_, T> {
    #[inline(always)]
    fn next_row(&mut self, len: usize) -> Row<'_, T> {
        self.row(len)
    }
}

/// Writes rows of `width` numbers, each times a factor of its own, and rounds them.
pub fn write_scaled<T: Element>(
    rows: &[T::Acc],
    width: usize,
    factors: &[T::Acc],
    to: &mut impl RowsOut<T>,
) {
    if width > 0 {
        dispatch(Write {
            rows,
            width,
            factors,
            to,
        });
    }
}

struct Write<'a, T: Element, O> {
    rows: &'a [T::Acc],
    width: usize,
    factors: &'a [T::Acc],
    to: &'a mut O,
}

impl<T: Element, O: RowsOut<T>> Task for Write<'_, T, O> {
    type Acc = T::Acc;
    type Output = ();

    #[inline(always)]
    fn run<C: Context>(self, c: C) {
        let rows = self.rows.chunks_exact(self.width);
        for (row, factor) in rows.zip(self.factors) {
            let factor = C::Of::splat(c, *factor);
            let to = self.to.next_row(self.width);
            to.write_blocks(&Times { c, row, factor });
        }
    }
}

struct Times<'a, A: Real, C: Context> {
    c: C,
    row: &'a [A],
    factor: C::Of<A>,
}

impl<T: Element, C: Context> Blocks<T> for Times<'_, T::Acc, C> {
    #[inline(always)]
    fn at<R: Read>(&self, at: usize) -> [T; LANES] {
        let row = block::<C, T::Acc, R>(self.c, self.row, at);
        T::rounded(self.c, row * self.factor)
    }
}
