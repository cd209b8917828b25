#[cfg(target_arch = "x86_64")]
use super::gemm::multiply_large;
use super::gemm::{Gemm, Kind, Strides, Terms, WIDE, has_tiles, multiply, places};
#[cfg(target_arch = "x86_64")]
use super::memory::with_memory;
use super::panel::load;
#[cfg(target_arch = "x86_64")]
use super::{
    amx::{self, Side, Source, Tile},
    interleave, large, pairs,
};
use crate::lanes::vectorize;
use crate::threads::threads;
use crate::{Element, Unwritten, share};
use std::mem::MaybeUninit;

/// The destination of a gradient of weights: lines of contiguous or evenly spaced elements.
pub struct Destination<'a, A> {
    /// The storage from the first element on.
    pub data: &'a mut [MaybeUninit<A>],
    /// The distance to the next line.
    pub line_stride: usize,
    /// The distance to the next element of a line.
    pub stride: usize,
}

/// The number of lines that a thread takes at a time when threads share a gradient.
const LINES: usize = 64;

/// Two matrices of `count` contiguous rows, `left` and `right`, each with the width of its rows.
pub struct Factors<'a, A> {
    pub count: usize,
    pub left: (&'a [A], usize),
    pub right: (&'a [A], usize),
}

/// Computes `out[l, j] = Σ_r left[r, l] · right[r, j]`, or `out += …` if `add`. If `spread`, rayon's threads
/// share the lines, as they share those of [`product`](super::product). Results don't depend on the number of threads.
///
/// # Safety
/// If `add`, the caller must have written the places of `out`.
pub unsafe fn outer<T: Element>(
    factors: &Factors<'_, T::Acc>,
    out: Destination<'_, T::Acc>,
    add: bool,
    spread: bool,
) where
    T::Acc: Gemm,
{
    let strides = Strides {
        row: out.line_stride,
        column: out.stride,
    };
    // SAFETY: the caller upholds the requirements.
    let run = |product: Product<'_, T::Acc>| unsafe { product.run(out.data, spread) };
    with_factors::<T, _>(factors, strides, add, run);
}

/// A matrix of contiguous rows, in the form in which products of its rows read it.
pub struct Right<'a, A> {
    rows: &'a [A],
    count: usize,
    width: usize,
    /// Each two rows rounded to bf16 and joined to one, where the machine multiplies pairs.
    #[cfg(target_arch = "x86_64")]
    pairs: Option<Vec<f32>>,
    /// The columns as tiles, where the machine multiplies these.
    #[cfg(target_arch = "x86_64")]
    tiles: Option<Vec<Tile>>,
}

impl<'a, A: Gemm> Right<'a, A> {
    /// Prepares `count` rows for products in `T`.
    pub fn new<T: Element<Acc = A>>(rows: &'a [A], count: usize, width: usize) -> Self {
        #[cfg(target_arch = "x86_64")]
        if let Some(rows_f32) = A::as_f32(rows).filter(|_| pairs::available::<T>()) {
            if amx::takes(count) {
                let source = Source::columns(rows_f32, count, width, 0..width);
                let tiles = Some(amx::packed(source, Side::Right));
                return Self {
                    tiles,
                    ..Self::single(rows, count, width)
                };
            }
            let pairs = Some(interleave::rows_together(rows_f32, count, width));
            return Self {
                pairs,
                ..Self::single(rows, count, width)
            };
        }
        Self::single(rows, count, width)
    }

    /// Returns the number of columns.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Takes rows as they are.
    fn single(rows: &'a [A], count: usize, width: usize) -> Self {
        Self {
            rows,
            count,
            width,
            #[cfg(target_arch = "x86_64")]
            pairs: None,
            #[cfg(target_arch = "x86_64")]
            tiles: None,
        }
    }
}

/// Computes `out[l, j] = Σ_r left[r, l] · right[r, j]` on this thread, and returns it. `left` has the width of its rows, and
/// the lines of `out` are contiguous.
///
/// # Panics
/// Panics if `out` does not have one element for each pair of columns.
pub fn outer_here<'o, T: Element>(
    left: (&[T::Acc], usize),
    right: &Right<'_, T::Acc>,
    mut out: Unwritten<'o, T::Acc>,
) -> &'o mut [T::Acc]
where
    T::Acc: Gemm,
{
    if right.count == 0 || out.len() == 0 {
        return out.filled(<T::Acc as Gemm>::ZERO);
    }
    // SAFETY: nothing is added to the places. They are as many as the product has elements, and it writes each.
    unsafe {
        here(left, right, out.places(), false);
        out.assume_written()
    }
}

/// Computes `out += …` as [`outer_here`] does.
///
/// # Panics
/// Panics if `out` does not have one element for each pair of columns.
pub fn add_outer_here<A: Gemm>(left: (&[A], usize), right: &Right<'_, A>, out: &mut [A]) {
    if !out.is_empty() {
        // SAFETY: `out` is initialised.
        unsafe { here(left, right, places(out), true) };
    }
}

/// Computes `out = …` as [`outer_here`] does, over numbers that don't matter.
///
/// # Panics
/// Panics as [`outer_here`] does.
pub(super) fn outer_over<A: Gemm>(left: (&[A], usize), right: &Right<'_, A>, out: &mut [A]) {
    // SAFETY: nothing is added.
    unsafe { here(left, right, places(out), false) };
}

/// # Safety
/// If `add`, the caller must have written `out`.
unsafe fn here<A: Gemm>(
    (left, lines): (&[A], usize),
    right: &Right<'_, A>,
    out: &mut [MaybeUninit<A>],
    add: bool,
) {
    let length = right.width;
    assert!(
        out.len() == lines * length,
        "a product of {lines} and {length} columns has no place in {} elements",
        out.len()
    );
    let strides = Strides {
        row: length,
        column: 1,
    };
    with_right((left, lines), right, strides, add, |product| {
        // SAFETY: the caller upholds the requirements.
        unsafe { product.run(out, false) }
    });
}

/// Computes as [`outer`] does and rounds the result. Each part is rounded while it is in the cache.
pub fn outer_rounded<T: Element>(
    factors: &Factors<'_, T::Acc>,
    out: Destination<'_, T>,
    spread: bool,
) where
    T::Acc: Gemm,
{
    let strides = Strides {
        row: factors.right.1,
        column: 1,
    };
    with_factors::<T, _>(factors, strides, false, |product| {
        product.run_rounded(out, spread);
    });
}

/// Computes as [`outer_rounded`] does for `count` rows of tensors in a half type, into contiguous lines.
pub(super) fn outer_of_tensors<T: Element>(
    count: usize,
    (left, lines): (&[T], usize),
    (right, length): (&[T], usize),
    mut out: Unwritten<'_, T>,
    spread: bool,
) where
    T::Acc: Gemm,
{
    assert!(
        left.len() == count * lines && right.len() == count * length && out.len() == lines * length,
        "{} and {} elements are not {count} rows for a product of {} elements",
        left.len(),
        right.len(),
        out.len()
    );
    let destination = Destination {
        data: out.places(),
        line_stride: length,
        stride: 1,
    };
    by_pairs_or_loaded(count, (left, lines), (right, length), destination, spread);
    // SAFETY: the product has `lines × length` elements, which are all places, and writes each.
    unsafe { out.assume_written() };
}

fn by_pairs_or_loaded<T: Element>(
    count: usize,
    (left, lines): (&[T], usize),
    (right, length): (&[T], usize),
    out: Destination<'_, T>,
    spread: bool,
) where
    T::Acc: Gemm,
{
    #[cfg(target_arch = "x86_64")]
    if pairs::available::<T>() {
        return by_pairs(count, (left, lines), (right, length), out, spread);
    }
    let (left, right) = (load(left), load(right));
    let factors = Factors {
        count,
        left: (&left, lines),
        right: (&right, length),
    };
    outer_rounded::<T>(&factors, out, spread);
}

/// Computes the product of bf16 in pairs.
#[cfg(target_arch = "x86_64")]
fn by_pairs<T: Element>(
    count: usize,
    (left, lines): (&[T], usize),
    (right, length): (&[T], usize),
    out: Destination<'_, T>,
    spread: bool,
) where
    T::Acc: Gemm,
{
    let sizes = [lines, length].map(|width| interleave::pairs_of(count, width));
    with_memory(sizes[0] + sizes[1], |pairs: &mut [f32]| {
        let (left_pairs, right_pairs) = pairs.split_at_mut(sizes[0]);
        interleave::tensor_together(left, lines, left_pairs);
        interleave::tensor_together(right, length, right_pairs);
        let of_sums = |pairs| T::Acc::of_f32(pairs).expect("bf16 is summed in f32");
        let product = Product {
            count: count.div_ceil(2),
            left: of_sums(left_pairs),
            lines,
            right: of_sums(right_pairs),
            length,
            strides: Strides {
                row: length,
                column: 1,
            },
            add: false,
            terms: Terms::Pairs,
            tiles: None,
        };
        product.run_rounded(out, spread);
    });
}

/// Passes the product of the factors to `run`, as pairs if there are instructions for them.
fn with_factors<T: Element, R>(
    factors: &Factors<'_, T::Acc>,
    strides: Strides,
    add: bool,
    run: impl FnOnce(Product<'_, T::Acc>) -> R,
) -> R
where
    T::Acc: Gemm,
{
    let (count, (rows, width)) = (factors.count, factors.right);
    let right = match strides.column {
        1 => Right::new::<T>(rows, count, width),
        _ => Right::single(rows, count, width),
    };
    with_right(factors.left, &right, strides, add, run)
}

/// Passes the product of two matrices to `run`, as pairs if the right one is prepared for them.
fn with_right<A: Gemm, R>(
    (left, lines): (&[A], usize),
    right: &Right<'_, A>,
    strides: Strides,
    add: bool,
    run: impl FnOnce(Product<'_, A>) -> R,
) -> R {
    let product = Product {
        count: right.count,
        left,
        lines,
        right: right.rows,
        length: right.width,
        strides,
        add,
        terms: Terms::Single,
        #[cfg(target_arch = "x86_64")]
        tiles: right.tiles.as_deref(),
    };
    #[cfg(target_arch = "x86_64")]
    if let (Some(pairs), Some(left)) = (&right.pairs, A::as_f32(left)) {
        let left = interleave::rows_together(left, right.count, lines);
        if let (Some(left), Some(pairs)) = (A::of_f32(&left), A::of_f32(pairs)) {
            return run(Product {
                count: right.count.div_ceil(2),
                left,
                right: pairs,
                terms: Terms::Pairs,
                ..product
            });
        }
    }
    run(product)
}

/// An outer product without its destination.
struct Product<'a, A> {
    count: usize,
    left: &'a [A],
    lines: usize,
    right: &'a [A],
    length: usize,
    /// The strides of the destination.
    strides: Strides,
    add: bool,
    terms: Terms,
    /// The right matrix in tiles. The left one is then packed part by part.
    #[cfg(target_arch = "x86_64")]
    tiles: Option<&'a [Tile]>,
}

impl<A: Gemm> Product<'_, A> {
    /// Returns the number of lines that are computed and rounded at once.
    fn lines_of_part(&self) -> usize {
        let sizes = [self.lines, self.count, self.length];
        match self.terms == Terms::Single && !has_tiles() && Kind::Outer.is_copied(sizes) {
            true => WIDE,
            false => LINES,
        }
    }

    /// # Safety
    /// If `add`, the caller must have written the places of `out`.
    unsafe fn run(&self, out: &mut [MaybeUninit<A>], spread: bool) {
        let each = self.lines_of_share();
        if !spread || self.lines <= each {
            // SAFETY: the caller upholds the requirements.
            return unsafe { self.part(0, self.lines, out) };
        }
        let parts = out.chunks_mut(each * self.strides.row);
        let parts = parts.take(self.lines.div_ceil(each)).enumerate();
        share::each(parts.collect(), |(chunk, out)| {
            let first = chunk * each;
            // SAFETY: the caller upholds the requirements.
            unsafe { self.part(first, each.min(self.lines - first), out) };
        });
    }

    /// Returns the number of lines that a thread takes at a time. A product that copies its operands has one part for each
    /// thread, since each part copies the right one. Its bits don't depend on the parts.
    fn lines_of_share(&self) -> usize {
        match self.is_copied_first() {
            true => self.lines.div_ceil(threads()).next_multiple_of(LINES),
            false => LINES,
        }
    }

    /// Returns whether `large` computes the product, and so all of its parts.
    fn is_copied_first(&self) -> bool {
        #[cfg(target_arch = "x86_64")]
        return self.terms == Terms::Single
            && self.strides.column == 1
            && large::takes::<A>([self.lines, self.count, self.length]);
        #[cfg(not(target_arch = "x86_64"))]
        false
    }

    /// Computes some lines at a time and rounds them into `out`.
    fn run_rounded<T: Element<Acc = A>>(&self, out: Destination<'_, T>, spread: bool) {
        let each = self.lines_of_part();
        let part = |(index, data): (usize, &mut [MaybeUninit<T>])| {
            let first = index * each;
            let lines = each.min(self.lines - first);
            let mut sums: Vec<A> = Vec::with_capacity(lines * self.length);
            let places = &mut sums.spare_capacity_mut()[..lines * self.length];
            // SAFETY: nothing is added to previous contents, and `part` writes every place.
            unsafe {
                self.part(first, lines, places);
                sums.set_len(lines * self.length);
            }
            vectorize(RoundLines {
                sums: &sums,
                length: self.length,
                line_stride: out.line_stride,
                stride: out.stride,
                to: data,
            });
        };
        let (count, size) = (self.lines.div_ceil(each), each * out.line_stride);
        if self.length == 0 {
            return;
        }
        let parts = out.data.chunks_mut(size).take(count).enumerate();
        if spread {
            share::each(parts.collect(), part);
        } else {
            parts.for_each(part);
        }
    }

    /// Computes some lines.
    ///
    /// # Safety
    /// The requirements are those of [`run`](Self::run).
    unsafe fn part(&self, first: usize, lines: usize, out: &mut [MaybeUninit<A>]) {
        let across = Strides {
            row: 1,
            column: self.lines,
        };
        let along = Strides {
            row: self.length,
            column: 1,
        };
        #[cfg(target_arch = "x86_64")]
        if let (Some(right), Some(left)) = (self.tiles, A::as_f32(self.left))
            && let Some(sums) = A::as_f32_places(out)
        {
            let left = Source::columns(left, self.count, self.lines, first..first + lines);
            let out = amx::Out {
                sums,
                stride: self.strides.row,
                add: self.add,
            };
            // SAFETY: the caller upholds the requirements.
            return unsafe { amx::rows_times_tiles(left, right, self.length, out) };
        }
        let sizes = [lines, self.count, self.length];
        let left = (&self.left[first.min(self.left.len())..], across);
        let (right, out) = ((self.right, along), (out, self.strides));
        // SAFETY: the caller upholds the requirements. `large` says that it takes the product.
        unsafe {
            #[cfg(target_arch = "x86_64")]
            if self.is_copied_first() {
                return multiply_large(sizes, left, right, out, self.add);
            }
            let (add, terms) = (self.add, self.terms);
            multiply(Kind::Outer, sizes, left, right, out, add, terms);
        }
    }
}

/// The rounding of lines to their destination.
struct RoundLines<'a, T: Element> {
    sums: &'a [T::Acc],
    length: usize,
    line_stride: usize,
    stride: usize,
    to: &'a mut [MaybeUninit<T>],
}

impl<T: Element> pulp::WithSimd for RoundLines<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _: S) {
        let lines = self.sums.chunks_exact(self.length);
        for (sums, to) in lines.zip(self.to.chunks_mut(self.line_stride)) {
            if self.stride == 1 {
                for (to, sum) in to.iter_mut().zip(sums) {
                    to.write(T::round(*sum));
                }
            } else {
                for (to, sum) in to.iter_mut().step_by(self.stride).zip(sums) {
                    to.write(T::round(*sum));
                }
            }
        }
    }
}
