//! Copies of the lines of an operand, in panels.
//!
//! A panel has `W` lines: the first element of each, then the second of each, and so on. Lines that the last panel lacks are
//! zeros.

use super::{LINE, Lines};
use std::arch::x86_64::*;

/// The number of elements after the last panel that [`panels`] may overwrite. What follows them begins with a cache line too.
pub(super) const BEYOND: usize = LINE;

/// The number of elements of a vector.
const LANES: usize = 8;

/// The number of panels that are copied together where elements of different lines are contiguous: as many places are
/// written in turn while a row of the operand is read.
const TOGETHER: usize = 12;

/// Copies `depth` elements of each of `count` lines.
///
/// # Safety
/// The machine must have AVX2, and the elements of the lines must be readable.
///
/// # Panics
/// Panics if `to` is shorter than the panels and [`BEYOND`].
#[target_feature(enable = "avx2")]
pub(super) unsafe fn panels<const W: usize>(
    lines: Lines,
    count: usize,
    depth: usize,
    to: &mut [f32],
) {
    let (whole, rest) = (count / W, count % W);
    let needed = count.div_ceil(W) * W * depth;
    assert!(needed + BEYOND <= to.len(), "no place for copied lines");
    let to = to.as_mut_ptr();
    // SAFETY: these panels are parts of the lines and of `to`, which is long enough; the caller upholds the rest.
    unsafe {
        match (lines.stride, lines.step) {
            (1, _) => {
                for first in (0..whole).step_by(TOGETHER) {
                    let panels = first..whole.min(first + TOGETHER);
                    across::<W>(lines, panels, depth, to);
                }
            }
            (_, 1) => {
                for panel in 0..whole {
                    along::<W>(lines.from(panel * W, 0), depth, to.add(panel * W * depth));
                }
            }
            _ => {
                for panel in 0..whole {
                    each::<W>(
                        lines.from(panel * W, 0),
                        W,
                        depth,
                        to.add(panel * W * depth),
                    );
                }
            }
        }
        if rest > 0 {
            each::<W>(
                lines.from(whole * W, 0),
                rest,
                depth,
                to.add(whole * W * depth),
            );
        }
    }
}

/// Copies panels of an operand whose lines are one element apart.
///
/// # Safety
/// The requirements are those of [`panels`].
#[target_feature(enable = "avx2")]
unsafe fn across<const W: usize>(
    lines: Lines,
    panels: std::ops::Range<usize>,
    depth: usize,
    to: *mut f32,
) {
    for step in 0..depth {
        for panel in panels.clone() {
            // SAFETY: the caller upholds the requirements.
            unsafe {
                let from = lines.from(panel * W, step).first;
                std::ptr::copy_nonoverlapping(from, to.add((panel * depth + step) * W), W);
            }
        }
    }
}

/// Copies a panel of lines whose elements are contiguous, in squares that are transposed in registers. A cache line is read
/// to its end at once, because lines whose distance is a power of two drive one another out of the first-level cache.
///
/// # Safety
/// The requirements are those of [`panels`].
#[target_feature(enable = "avx2")]
unsafe fn along<const W: usize>(lines: Lines, depth: usize, to: *mut f32) {
    let squares = depth / LANES * LANES;
    for start in (0..squares).step_by(LINE) {
        for line in W..2 * W {
            // A hint for the next panel, whose lines are too short for the processor to foresee. Any address is allowed.
            let next = lines.first.wrapping_add(line * lines.stride + start);
            _mm_prefetch::<_MM_HINT_T1>(next.cast());
        }
        for first in (0..W).step_by(LANES) {
            for step in (start..squares.min(start + LINE)).step_by(LANES) {
                let mut square = [_mm256_setzero_ps(); LANES];
                for line in first..W.min(first + LANES) {
                    // SAFETY: the line has elements up to the end of the square.
                    square[line - first] = unsafe { _mm256_loadu_ps(lines.from(line, step).first) };
                }
                for (further, line) in transposed(square).into_iter().enumerate() {
                    // SAFETY: a store of more elements than the panel has lines ends at most `BEYOND` after it. What it writes
                    // there is overwritten by the next store, or by the next panel.
                    unsafe { _mm256_storeu_ps(to.add((step + further) * W + first), line) };
                }
            }
        }
    }
    if squares < depth {
        // SAFETY: the rest of the panel; the caller upholds the requirements.
        unsafe {
            let rest = lines.from(0, squares);
            each::<W>(rest, W, depth - squares, to.add(squares * W));
        }
    }
}

/// Copies a panel of `count` lines element by element, and zeros for the others.
///
/// # Safety
/// The requirements are those of [`panels`].
unsafe fn each<const W: usize>(lines: Lines, count: usize, depth: usize, to: *mut f32) {
    for step in 0..depth {
        for line in 0..W {
            // SAFETY: the caller upholds the requirements.
            unsafe {
                let value = match line < count {
                    true => *lines.from(line, step).first,
                    false => 0.0,
                };
                to.add(step * W + line).write(value);
            }
        }
    }
}

/// Returns the transposed square.
#[inline]
#[target_feature(enable = "avx2")]
fn transposed(square: [__m256; LANES]) -> [__m256; LANES] {
    // Pairs of elements of one column, then fours in each half of a vector, then the halves.
    let [a, b, c, d, e, f, g, h] = square;
    let upper = fours(pairs(a, b), pairs(c, d));
    let lower = fours(pairs(e, f), pairs(g, h));
    let mut columns = [_mm256_setzero_ps(); LANES];
    for (at, (upper, lower)) in upper.into_iter().zip(lower).enumerate() {
        columns[at] = _mm256_permute2f128_ps::<0x20>(upper, lower);
        columns[at + LANES / 2] = _mm256_permute2f128_ps::<0x31>(upper, lower);
    }
    columns
}

/// Returns the pairs of two rows.
#[inline]
#[target_feature(enable = "avx2")]
fn pairs(upper: __m256, lower: __m256) -> [__m256; 2] {
    [
        _mm256_unpacklo_ps(upper, lower),
        _mm256_unpackhi_ps(upper, lower),
    ]
}

/// Returns the fours of two pairs of rows.
#[inline]
#[target_feature(enable = "avx2")]
fn fours([a, b]: [__m256; 2], [c, d]: [__m256; 2]) -> [__m256; 4] {
    [
        _mm256_shuffle_ps::<0x44>(a, c),
        _mm256_shuffle_ps::<0xee>(a, c),
        _mm256_shuffle_ps::<0x44>(b, d),
        _mm256_shuffle_ps::<0xee>(b, d),
    ]
}
