//! Products of whole tensors in f32 and f64.

use super::gemm::{BEYOND, Strides};
use crate::cpu::awake::keep_others_awake;
use crate::cpu::share::each;
use crate::cpu::{Element, Real, Unwritten};
use std::any::TypeId;
use std::ops::Range;

/// The number of multiplications from which the product of [`dense`] uses rayon's threads: that of Burn's Flex.
const PARALLEL: usize = 192 * 192 * 192;

/// The least width of a part, and of the side that is not divided. `gemm` adds the terms of vectors and of at most 64 rows
/// and columns in other groups than those of larger results.
const PART: usize = 128;
const OTHER: usize = 65;

/// Parts begin at whole vectors.
const VECTOR: usize = 16;

/// Computes `out = left · right` for `m × k` times `k × n` in f32 or f64, and returns it. The bits are those of Burn's Flex.
///
/// # Panics
/// Panics for other types, or if an operand is too short.
pub(super) fn dense<'o, T: Element>(
    sizes @ [m, k, n]: [usize; 3],
    left: (&[T], Strides),
    right: (&[T], Strides),
    mut out: Unwritten<'o, T>,
) -> &'o mut [T] {
    if k == 0 {
        return out.filled(T::round(<T::Acc as Real>::ZERO));
    }
    assert!(TypeId::of::<T>() == TypeId::of::<T::Acc>(), "a half type");
    assert!(left.1.reach(m, k) <= left.0.len(), "{BEYOND}");
    assert!(right.1.reach(k, n) <= right.0.len(), "{BEYOND}");
    assert!(out.len() == m * n, "a product of {m} × {n} elements");
    let product = Product { sizes, left, right };
    let first = First(out.places().as_mut_ptr().cast());
    // SAFETY: `out` has the elements of the product, and nothing else refers to them. The parts are disjoint, and together
    // they are all elements, which are written.
    unsafe {
        match product.parts() {
            Parts::Whole(parallelism) => product.run([0..m, 0..n], first, parallelism),
            Parts::Rows(parts) => each(parts, |rows| {
                product.run([rows, 0..n], first, gemm::Parallelism::None);
            }),
            Parts::Columns(parts) => each(parts, |columns| {
                product.run([0..m, columns], first, gemm::Parallelism::None);
            }),
        }
        out.assume_written()
    }
}

/// The first element of a result whose parts threads write.
#[derive(Clone, Copy)]
struct First<T>(*mut T);

// SAFETY: the pointer is only passed on to `Product::run`, whose callers see to it that no two threads have the same part.
unsafe impl<T: Send> Send for First<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for First<T> {}

/// The division of a product among threads.
enum Parts {
    /// None of its own.
    Whole(gemm::Parallelism),
    Rows(Vec<Range<usize>>),
    Columns(Vec<Range<usize>>),
}

struct Product<'a, T> {
    sizes: [usize; 3],
    left: (&'a [T], Strides),
    right: (&'a [T], Strides),
}

impl<T: Element> Product<'_, T> {
    /// Divides the longer side of the result among the threads. `gemm` would copy some operands on one thread, and leave
    /// others idle for gradients of small weights. In results of more than 64 rows or columns, it adds the terms of an
    /// element in groups that depend on `k` alone, so the bits don't depend on the parts.
    fn parts(&self) -> Parts {
        let [m, k, n] = self.sizes;
        if m.saturating_mul(n).saturating_mul(k) < PARALLEL {
            return Parts::Whole(gemm::Parallelism::None);
        }
        let (threads, longer) = (rayon::current_num_threads(), m.max(n));
        if threads == 1 || longer / threads < PART || m.min(n) < OTHER {
            keep_others_awake();
            return Parts::Whole(gemm::Parallelism::Rayon(0));
        }
        let start = |part: usize| match part == threads {
            true => longer,
            false => longer * part / threads / VECTOR * VECTOR,
        };
        let parts = (0..threads).map(|part| start(part)..start(part + 1));
        match n >= m {
            true => Parts::Columns(parts.collect()),
            false => Parts::Rows(parts.collect()),
        }
    }

    /// Computes some rows and columns of the product.
    ///
    /// # Safety
    /// The operands must reach as far as the sizes, and `first` must be the first of `m × n` elements. Nothing else may
    /// access those of the part meanwhile. They are not read, and all are written.
    unsafe fn run(
        &self,
        [rows, columns]: [Range<usize>; 2],
        First(first): First<T>,
        parallelism: gemm::Parallelism,
    ) {
        let [_, k, n] = self.sizes;
        let ((left, of_left), (right, of_right)) = (self.left, self.right);
        let [zero, one] = [<T::Acc as Real>::ZERO, <T::Acc as Real>::ONE].map(T::round);
        // SAFETY: the caller upholds the requirements for the elements of this part.
        unsafe {
            gemm::gemm(
                rows.len(),
                columns.len(),
                k,
                first.add(rows.start * n + columns.start),
                1,
                n as isize,
                false,
                left.as_ptr().add(rows.start * of_left.row),
                of_left.column as isize,
                of_left.row as isize,
                right.as_ptr().add(columns.start * of_right.column),
                of_right.column as isize,
                of_right.row as isize,
                zero,
                one,
                false,
                false,
                false,
                parallelism,
            );
        }
    }
}
