use super::gemm::{Gemm, Kind, Strides, multiply};
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
pub(in crate::ops::moe) unsafe fn outer<A: Gemm>(
    count: usize,
    (left, lines): (&[A], usize),
    (right, length): (&[A], usize),
    out: Destination<'_, A>,
    add: bool,
    spread: bool,
) {
    let part = |first: usize, lines_here: usize, data: &mut [MaybeUninit<A>]| {
        let across = Strides {
            row: 1,
            column: lines,
        };
        let along = Strides {
            row: length,
            column: 1,
        };
        let destination = Strides {
            row: out.line_stride,
            column: out.stride,
        };
        // SAFETY: as this function's.
        unsafe {
            multiply(
                Kind::Outer,
                [lines_here, count, length],
                (&left[first.min(left.len())..], across),
                (right, along),
                (data, destination),
                add,
            );
        }
    };
    if !spread || lines <= LINES {
        return part(0, lines, out.data);
    }
    out.data
        .par_chunks_mut(LINES * out.line_stride)
        .take(lines.div_ceil(LINES))
        .with_max_len(1)
        .enumerate()
        .for_each(|(chunk, data)| {
            let first = chunk * LINES;
            part(first, LINES.min(lines - first), data);
        });
}
