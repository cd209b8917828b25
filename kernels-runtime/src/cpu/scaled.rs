//! Rows times factors, rounded to results.

use super::lanes::{Blocks, Context, LANES, Lanes as _, Read, Task, block, dispatch};
use super::{Element, Real, Unwritten};

/// Writes rows of `width` numbers, each times a factor of its own, and rounds them.
pub(crate) fn write_scaled<T: Element>(
    rows: &[T::Acc],
    width: usize,
    factors: &[T::Acc],
    to: &mut Unwritten<'_, T>,
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

struct Write<'a, 'o, T: Element> {
    rows: &'a [T::Acc],
    width: usize,
    factors: &'a [T::Acc],
    to: &'a mut Unwritten<'o, T>,
}

impl<T: Element> Task for Write<'_, '_, T> {
    type Acc = T::Acc;
    type Output = ();

    #[inline(always)]
    fn run<C: Context>(self, c: C) {
        let rows = self.rows.chunks_exact(self.width);
        for (row, factor) in rows.zip(self.factors) {
            let factor = C::Of::splat(c, *factor);
            self.to
                .row(self.width)
                .write_blocks(&Times { c, row, factor });
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
