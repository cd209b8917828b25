//! Products of whole tensors in f32 and f64.

use super::gemm::{BEYOND, Gemm, Strides};
use super::{Matrix, Rows};
#[cfg(target_arch = "x86_64")]
use super::{copied, panel};
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

/// Computes `out = left · right` for `m × k` times `k × n` in f32 or f64, and returns it. Large products in f32 are those of
/// `copied`, on machines for which it is made. The others are those of `gemm`, with the bits of Burn's Flex.
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
    assert!(out.len() == m * n, "a product of {m} × {n} elements");
    let product = Product {
        sizes,
        left,
        right,
        add: false,
    };
    // SAFETY: `out` has the elements of the product, which are all written, and nothing else refers to them.
    unsafe {
        product.divided(First(out.places().as_mut_ptr().cast()));
        out.assume_written()
    }
}

/// Computes `out += left · right` as [`dense`] does.
///
/// # Panics
/// Panics for types that [`dense`] does not take, or if an operand is too short.
pub(super) fn add_dense<T: Element>(
    sizes @ [m, k, n]: [usize; 3],
    left: (&[T], Strides),
    right: (&[T], Strides),
    out: &mut [T],
) {
    assert!(out.len() == m * n, "a product of {m} × {n} elements");
    if k == 0 {
        return;
    }
    let product = Product {
        sizes,
        left,
        right,
        add: true,
    };
    // SAFETY: `out` has the elements of the product, they are initialised, and nothing else refers to them.
    unsafe { product.divided(First(out.as_mut_ptr())) };
}

/// Computes `out = rows · weights`, or `out += …` if `add`, in a part for each thread, if the product is one of `copied`, whose
/// bits don't depend on the parts. Returns whether it is.
///
/// # Panics
/// Panics if an operand or `out` is too short.
pub(super) fn shared<A: Element<Acc = A> + Gemm>(
    rows: &Rows<'_, A>,
    weights: Matrix<'_, A>,
    out: &mut [A],
    add: bool,
) -> bool {
    let sizes @ [m, k, n] = [rows.count(), weights.inputs, weights.features];
    let left = Strides { row: k, column: 1 };
    let right = Strides {
        row: weights.input_stride,
        column: weights.feature_stride,
    };
    let product = Product {
        sizes,
        left: (rows.values(), left),
        right: (weights.data, right),
        add,
    };
    if !product.is_copied() {
        return false;
    }
    assert!(left.reach(m, k) <= rows.values().len(), "{BEYOND}");
    assert!(right.reach(k, n) <= weights.data.len(), "{BEYOND}");
    assert!(out.len() == m * n, "a product of {m} × {n} elements");
    let first = First(out.as_mut_ptr());
    let parts = grid(m, n, rayon::current_num_threads());
    // SAFETY: the operands reach as far as the sizes. `out` has the elements of the product, all of them are initialised, and
    // nothing else refers to them. The parts are disjoint.
    each(parts, |part| unsafe {
        product.run(part, first, gemm::Parallelism::None);
    });
    true
}

/// The first element of a result whose parts threads write.
#[derive(Clone, Copy)]
struct First<T>(*mut T);

// SAFETY: the pointer is only passed on to `Product::run`, whose callers see to it that no two threads have the same part.
unsafe impl<T: Send> Send for First<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for First<T> {}

/// The division of a product among threads.
enum Division {
    /// None of its own.
    Whole(gemm::Parallelism),
    Parts(Vec<Part>),
}

/// The rows and the columns of a part of the result.
type Part = [Range<usize>; 2];

struct Product<'a, T> {
    sizes: [usize; 3],
    left: (&'a [T], Strides),
    right: (&'a [T], Strides),
    /// Whether the product is added to the result.
    add: bool,
}

impl<T: Element> Product<'_, T> {
    /// Returns true if `copied` computes the product.
    fn is_copied(&self) -> bool {
        #[cfg(target_arch = "x86_64")]
        return copied::takes::<T>(self.sizes);
        #[cfg(not(target_arch = "x86_64"))]
        false
    }

    /// Divides the result among the threads. `gemm` would copy some operands on one thread, and leave others idle for gradients
    /// of small weights. In results of more than 64 rows or columns, it adds the terms of an element in groups that
    /// depend on `k` alone, so the bits don't depend on the parts.
    fn division(&self) -> Division {
        let [m, k, n] = self.sizes;
        if m.saturating_mul(n).saturating_mul(k) < PARALLEL {
            return Division::Whole(gemm::Parallelism::None);
        }
        let threads = rayon::current_num_threads();
        if self.is_copied() {
            return Division::Parts(grid(m, n, threads));
        }
        let longer = m.max(n);
        if threads == 1 || longer / threads < PART || m.min(n) < OTHER {
            keep_others_awake();
            return Division::Whole(gemm::Parallelism::Rayon(0));
        }
        let parts = match n >= m {
            true => parts(n, threads).map(|columns| [0..m, columns]).collect(),
            false => parts(m, threads).map(|rows| [rows, 0..n]).collect(),
        };
        Division::Parts(parts)
    }

    /// Computes the product on all threads.
    ///
    /// # Safety
    /// `first` must be the first of `m × n` elements, and nothing else may access them. All are written. They are read only if
    /// the product is added to them.
    ///
    /// # Panics
    /// Panics for half types, or if an operand is too short.
    unsafe fn divided(&self, first: First<T>) {
        let [m, k, n] = self.sizes;
        assert!(TypeId::of::<T>() == TypeId::of::<T::Acc>(), "a half type");
        assert!(self.left.1.reach(m, k) <= self.left.0.len(), "{BEYOND}");
        assert!(self.right.1.reach(k, n) <= self.right.0.len(), "{BEYOND}");
        // SAFETY: the operands reach as far as the sizes; the caller upholds the rest. The parts are disjoint, and together
        // they are all elements.
        unsafe {
            match self.division() {
                Division::Whole(parallelism) => self.run([0..m, 0..n], first, parallelism),
                Division::Parts(parts) => each(parts, |part| {
                    self.run(part, first, gemm::Parallelism::None);
                }),
            }
        }
    }

    /// Computes some rows and columns of the product.
    ///
    /// # Safety
    /// The operands must reach as far as the sizes, and `first` must be the first of `m × n` elements. Nothing else may
    /// access those of the part meanwhile. All are written. They are read only if the product is added to them.
    unsafe fn run(
        &self,
        [rows, columns]: [Range<usize>; 2],
        First(first): First<T>,
        parallelism: gemm::Parallelism,
    ) {
        let [_, k, n] = self.sizes;
        let ((left, of_left), (right, of_right)) = (self.left, self.right);
        #[cfg(target_arch = "x86_64")]
        if self.is_copied() {
            let left = panel::same(&left[rows.start * of_left.row..]);
            let right = panel::same(&right[columns.start * of_right.column..]);
            let (Some(left), Some(right)) = (left, right) else {
                unreachable!("`copied` takes products of f32 only")
            };
            let sizes = [rows.len(), k, columns.len()];
            // SAFETY: the caller upholds the requirements for the elements of this part, which are f32.
            return unsafe {
                let first = first.add(rows.start * n + columns.start).cast();
                let out = copied::Out { first, stride: n };
                copied::multiply(sizes, (left, of_left), (right, of_right), out, self.add);
            };
        }
        let one = T::round(<T::Acc as Real>::ONE);
        // SAFETY: the caller upholds the requirements for the elements of this part.
        unsafe {
            gemm::gemm(
                rows.len(),
                columns.len(),
                k,
                first.add(rows.start * n + columns.start),
                1,
                n as isize,
                self.add,
                left.as_ptr().add(rows.start * of_left.row),
                of_left.column as isize,
                of_left.row as isize,
                right.as_ptr().add(columns.start * of_right.column),
                of_right.column as isize,
                of_right.row as isize,
                one,
                one,
                false,
                false,
                false,
                parallelism,
            );
        }
    }
}

/// Divides a length into parts of nearly one size. They begin at whole vectors.
fn parts(length: usize, count: usize) -> impl Iterator<Item = Range<usize>> + Clone {
    let start = move |part: usize| match part == count {
        true => length,
        false => length * part / count / VECTOR * VECTOR,
    };
    (0..count).map(move |part| start(part)..start(part + 1))
}

/// Divides `m × n` elements into a part for each thread. Every part copies its rows and columns, so parts are as near to
/// squares as the number of threads allows.
fn grid(m: usize, n: usize, threads: usize) -> Vec<Part> {
    let copies = |down: usize| down * n + threads / down * m;
    let divisors = (1..=threads).filter(|down| threads.is_multiple_of(*down));
    let down = divisors.min_by_key(|down| copies(*down)).unwrap_or(1);
    let columns = parts(n, threads / down);
    parts(m, down)
        .flat_map(|rows| columns.clone().map(move |columns| [rows.clone(), columns]))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_all_elements_once() {
        for (m, n, threads) in [(17, 2000, 1), (512, 512, 2), (30, 4000, 6), (1025, 33, 7)] {
            let parts = grid(m, n, threads);
            assert_eq!(parts.len(), threads);
            let mut counts = vec![0; m * n];
            for [rows, columns] in parts {
                for row in rows {
                    columns
                        .clone()
                        .for_each(|column| counts[row * n + column] += 1);
                }
            }
            assert!(
                counts.iter().all(|count| *count == 1),
                "{m} × {n} on {threads}"
            );
        }
    }

    #[test]
    fn parts_copy_little() {
        assert_eq!(
            grid(2048, 3072, 2),
            [[0..2048, 0..1536], [0..2048, 1536..3072]]
        );
        assert_eq!(
            grid(3072, 1024, 2),
            [[0..1536, 0..1024], [1536..3072, 0..1024]]
        );
        assert_eq!(grid(64, 64, 4).len(), 4);
        assert_eq!(grid(64, 64, 4)[3], [32..64, 32..64]);
    }
}
