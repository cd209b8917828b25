//! Products of whole tensors in f32 and f64.

use super::gemm::{BEYOND, Gemm, Strides};
use super::{Matrix, Rows, with_memory};
#[cfg(target_arch = "x86_64")]
use super::{large, panel};
use crate::awake::keep_others_awake;
use crate::share::each;
use crate::threads::{of_gemm, threads};
use crate::{Element, Real, Unwritten};
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

/// The least quotient of terms and the longer side of a result, and its largest number of elements, for which it is the sum of
/// [two](Product::in_halves). The second one is then small beside the operands, and a thread keeps the memory for it.
const MANY_TERMS: usize = 4;
const MOST_ELEMENTS: usize = 1 << 20;

/// The number of elements of both results that a thread adds at a time.
const CHUNK: usize = 8 * 1024;

/// Computes `out = left · right` for `m × k` times `k × n` in f32 or f64, and returns it. Large products in f32 are those of
/// `large`, on machines for which it is made. The others are those of `gemm`, with the bits of Burn's Flex, or, with many more
/// terms than rows and columns, the sums of two of them.
///
/// # Panics
/// Panics for other types, or if an operand is too short.
pub(super) fn dense<'o, T: Element>(
    sizes @ [m, k, n]: [usize; 3],
    left: (&[T], Strides),
    right: (&[T], Strides),
    mut out: Unwritten<'o, T>,
) -> &'o mut [T] {
    assert!(out.len() == m * n, "a product of {m} × {n} elements");
    if k == 0 {
        return out.filled(T::round(<T::Acc as Real>::ZERO));
    }
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

/// Computes `out = rows · weights`, or `out += …` if `add`, in a part for each thread, if the product is one of `large`, whose
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
    let parts = grid(m, n, threads());
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
    /// Those of each half of the terms.
    Halves(Vec<Part>),
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
    /// Returns true if `large` computes the product.
    fn is_copied(&self) -> bool {
        #[cfg(target_arch = "x86_64")]
        return large::takes::<T>(self.sizes);
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
        let threads = threads();
        if self.is_copied() {
            return Division::Parts(grid(m, n, threads));
        }
        if k / MANY_TERMS >= m.max(n) && m * n <= MOST_ELEMENTS {
            return Division::Halves(self.parts(threads.div_ceil(2)));
        }
        let parts = self.parts(threads);
        if parts.len() == 1 {
            keep_others_awake();
            return Division::Whole(of_gemm());
        }
        Division::Parts(parts)
    }

    /// Divides the result into as many parts, or not at all if they would be small.
    fn parts(&self, count: usize) -> Vec<Part> {
        let [m, _, n] = self.sizes;
        if m.max(n) / count < PART || m.min(n) < OTHER {
            return vec![[0..m, 0..n]];
        }
        // `gemm` takes longer to copy columns whose elements are contiguous, so a thread copies as few as it can.
        let columns_first = self.right.1.column != 1 && n / count >= PART;
        match n >= m || columns_first {
            true => parts(n, count).map(|columns| [0..m, columns]).collect(),
            false => parts(m, count).map(|rows| [rows, 0..n]).collect(),
        }
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
                Division::Halves(parts) => self.in_halves(&parts, first),
            }
        }
    }

    /// Computes the product as the sum of two, each of half the terms. So a thread reads half of each operand, where threads that
    /// share the columns would each read all rows. There are two halves on one thread as well: bits don't depend on their
    /// number.
    ///
    /// # Safety
    /// The requirements are those of [`divided`](Self::divided). The operands must reach as far as the sizes. The parts must be
    /// disjoint, and together all of the result.
    unsafe fn in_halves(&self, parts: &[Part], first: First<T>) {
        let [m, k, n] = self.sizes;
        let parallelism = match parts.len() == 1 && threads() > 2 {
            true => of_gemm(),
            false => gemm::Parallelism::None,
        };
        with_memory(m * n, |second: &mut [T]| {
            let upper = self.terms(0..k / 2);
            let lower = Product {
                add: false,
                ..self.terms(k / 2..k)
            };
            let halves = [(upper, first), (lower, First(second.as_mut_ptr()))];
            let pieces = halves
                .iter()
                .flat_map(|half| parts.iter().map(move |part| (half, part)));
            // SAFETY: the operands reach as far as the sizes, and the parts are disjoint. Both results have `m × n`
            // elements, to which nothing else refers. The second one is not read before it is written.
            each(pieces.collect(), |((product, first), part)| unsafe {
                product.run(part.clone(), *first, parallelism);
            });
            // SAFETY: all elements were written above, and nothing else refers to them.
            let out = unsafe { std::slice::from_raw_parts_mut(first.0, m * n) };
            let chunks = out.chunks_mut(CHUNK).zip(second.chunks(CHUNK));
            each(chunks.collect(), |(out, second): (&mut [T], &[T])| {
                for (out, second) in out.iter_mut().zip(second) {
                    *out = T::round(out.load() + second.load());
                }
            });
        });
    }

    /// Returns the product of some terms.
    fn terms(&self, range: Range<usize>) -> Self {
        let [m, _, n] = self.sizes;
        let ((left, of_left), (right, of_right)) = (self.left, self.right);
        Self {
            sizes: [m, range.len(), n],
            left: (&left[range.start * of_left.column..], of_left),
            right: (&right[range.start * of_right.row..], of_right),
            add: self.add,
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
                unreachable!("`large` takes products of f32 only")
            };
            let sizes = [rows.len(), k, columns.len()];
            // SAFETY: the caller upholds the requirements for the elements of this part, which are f32.
            return unsafe {
                let first = first.add(rows.start * n + columns.start).cast();
                let out = large::Out { first, stride: n };
                large::multiply(sizes, (left, of_left), (right, of_right), out, self.add);
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
    use crate::Output;

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

    /// Returns numbers between -1 and 1.
    fn values<T: Real>(len: usize, seed: usize) -> Vec<T> {
        let value = |i| ((i * 7919 + seed * 104_729) % 1009) as f64 / 504.5 - 1.0;
        (0..len).map(|i| T::of(value(i))).collect()
    }

    /// Compares a product, alone and added to other numbers, on one, two and five threads.
    fn check<T: Element<Acc = T> + Real + Into<f64>>(
        sizes @ [m, k, n]: [usize; 3],
        of_left: Strides,
        of_right: Strides,
    ) {
        let (left, right) = (values::<T>(m * k, 1), values::<T>(k * n, 2));
        let tolerance = match TypeId::of::<T>() == TypeId::of::<f64>() {
            true => 1e-15,
            false => 1e-6,
        };
        let results = [1, 2, 5].map(|threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
            let pool = pool.build().expect("threads can be started");
            let mut sum = vec![T::of(0.5); m * n];
            let mut out = Output::new([m, n]);
            pool.install(|| {
                add_dense(sizes, (&left, of_left), (&right, of_right), &mut sum);
                dense(sizes, (&left, of_left), (&right, of_right), out.rest());
            });
            [sum, out.into_values()]
        });
        assert!(results.iter().all(|result| *result == results[0]));
        for (at, (sum, out)) in results[0][0].iter().zip(&results[0][1]).enumerate() {
            let (row, column) = (at / n, at % n);
            let term = |t: usize| {
                let left: f64 = left[row * of_left.row + t * of_left.column].into();
                let right: f64 = right[t * of_right.row + column * of_right.column].into();
                left * right
            };
            let exact: f64 = (0..k).map(term).sum();
            for (value, exact) in [(*out, exact), (*sum, exact + 0.5)] {
                let error = (value.into() - exact).abs();
                assert!(
                    error < tolerance * k as f64,
                    "{sizes:?}: {value:?}, not {exact}"
                );
            }
        }
    }

    /// Checks products of many terms, of which the second one is too small to be divided further.
    fn check_halves<T: Element<Acc = T> + Real + Into<f64>>() {
        for sizes @ [m, _, n] in [[70, 1041, 130], [40, 3001, 60], [130, 1300, 300]] {
            let across = Strides { row: 1, column: m };
            let along = Strides { row: n, column: 1 };
            let product = Product::<T> {
                sizes,
                left: (&[], across),
                right: (&[], along),
                add: false,
            };
            let is_in_halves = matches!(product.division(), Division::Halves(_));
            assert!(is_in_halves || product.is_copied());
            check::<T>(sizes, across, along);
        }
    }

    /// In f64, they are halves on every machine. In f32, `large` takes them where the machine has it.
    #[test]
    fn gradients_of_weights_over_many_rows_are_sums_of_two_halves() {
        check_halves::<f64>();
        check_halves::<f32>();
    }

    #[test]
    fn columns_are_divided_where_their_elements_are_contiguous() {
        let sizes @ [m, k, n] = [700, 64, 260];
        let [of_left, of_right] = [(k, 1), (1, k)].map(|(row, column)| Strides { row, column });
        let product = Product::<f32> {
            sizes,
            left: (&[], of_left),
            right: (&[], of_right),
            add: false,
        };
        assert_eq!(product.parts(2), [[0..m, 0..128], [0..m, 128..n]]);
        check::<f32>(sizes, of_left, of_right);
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
