use super::gemm::{Gemm, Kind, Strides, Terms, multiply};
#[cfg(target_arch = "x86_64")]
use super::pairs;
use crate::cpu::Element;
use rayon::prelude::*;
use std::mem::MaybeUninit;

/// Where a gradient of weights is written: `lines` of contiguous or evenly spaced elements.
pub(in crate::ops::moe) struct Destination<'a, A> {
    /// From the first element on.
    pub(in crate::ops::moe) data: &'a mut [MaybeUninit<A>],
    /// How far the next line is.
    pub(in crate::ops::moe) line_stride: usize,
    /// How far the next element of a line is.
    pub(in crate::ops::moe) stride: usize,
}

/// Lines that a thread takes at a time when a gradient is spread over threads.
const LINES: usize = 64;

/// `out[l, j] = Σ_r left[r, l] · right[r, j]` over `count` rows, or `out += …` if `add`. `left`
/// and `right` are contiguous rows of the widths beside them. If `spread`, rayon's threads share
/// the lines, in parts of one size, so that results don't depend on the number of threads.
///
/// # Safety
/// If `add`, the places of `out` have been written.
pub(in crate::ops::moe) unsafe fn outer<T: Element>(
    count: usize,
    (left, lines): (&[T::Acc], usize),
    (right, length): (&[T::Acc], usize),
    out: Destination<'_, T::Acc>,
    add: bool,
    spread: bool,
) where
    T::Acc: Gemm,
{
    #[cfg(target_arch = "x86_64")]
    if pairs::available::<T>()
        && out.stride == 1
        && let (Some(left), Some(right)) = (T::Acc::as_f32(left), T::Acc::as_f32(right))
        && let Some(data) = T::Acc::as_f32_places(out.data)
    {
        let left = pairs::rows_together(left, count, lines);
        let right = pairs::rows_together(right, count, length);
        let product = Product {
            count: count.div_ceil(2),
            left: &left,
            lines,
            right: &right,
            length,
            line_stride: out.line_stride,
            stride: 1,
            add,
            terms: Terms::Pairs,
        };
        // SAFETY: the caller's promise.
        return unsafe { product.run(data, spread) };
    }
    let product = Product {
        count,
        left,
        lines,
        right,
        length,
        line_stride: out.line_stride,
        stride: out.stride,
        add,
        terms: Terms::Single,
    };
    // SAFETY: the caller's promise.
    unsafe { product.run(out.data, spread) };
}

/// An outer product but for its destination.
struct Product<'a, A> {
    count: usize,
    left: &'a [A],
    lines: usize,
    right: &'a [A],
    length: usize,
    line_stride: usize,
    stride: usize,
    add: bool,
    terms: Terms,
}

impl<A: Gemm> Product<'_, A> {
    /// # Safety
    /// If `add`, the places of `out` have been written.
    unsafe fn run(&self, out: &mut [MaybeUninit<A>], spread: bool) {
        if !spread || self.lines <= LINES {
            // SAFETY: the caller's promise.
            return unsafe { self.part(0, self.lines, out) };
        }
        out.par_chunks_mut(LINES * self.line_stride)
            .take(self.lines.div_ceil(LINES))
            .with_max_len(1)
            .enumerate()
            .for_each(|(chunk, out)| {
                let first = chunk * LINES;
                // SAFETY: the caller's promise.
                unsafe { self.part(first, LINES.min(self.lines - first), out) };
            });
    }

    /// Some lines.
    ///
    /// # Safety
    /// As [`run`](Self::run)'s.
    unsafe fn part(&self, first: usize, lines: usize, out: &mut [MaybeUninit<A>]) {
        let across = Strides {
            row: 1,
            column: self.lines,
        };
        let along = Strides {
            row: self.length,
            column: 1,
        };
        let destination = Strides {
            row: self.line_stride,
            column: self.stride,
        };
        // SAFETY: the caller's promise.
        unsafe {
            multiply(
                Kind::Outer,
                [lines, self.count, self.length],
                (&self.left[first.min(self.left.len())..], across),
                (self.right, along),
                (out, destination),
                self.add,
                self.terms,
            );
        }
    }
}
