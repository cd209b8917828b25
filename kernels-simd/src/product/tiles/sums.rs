//! The sums of one tile, added in registers and then written as lines of lanes or of others.

use super::{BY_FEATURES, BY_ROWS, LANES, OUTER, Walk};
use std::arch::x86_64::*;

/// Returns the mask of the first `count` lanes of a vector, or of all lanes.
#[inline(always)]
pub(super) fn mask(count: usize) -> __mmask16 {
    if count >= LANES {
        __mmask16::MAX
    } else {
        (1 << count) - 1
    }
}

/// Defines a kernel for tiles, given the instruction that adds a product.
macro_rules! kernel {
    ($name:ident, $features:literal, $add:expr) => {
        /// Computes the sums of a tile of `V` vectors, the last of which has `last` lanes, by `N` others.
        ///
        /// # Safety
        /// The requirements are those of [`multiply`](super::multiply), for the tile.
        #[target_feature(enable = $features)]
        pub(super) unsafe fn $name<const KIND: u8, const V: usize, const N: usize>(
            tile: Walk,
            last: usize,
        ) {
            let mut sums = [[_mm512_setzero_ps(); N]; V];
            let (mut lanes, mut others, mut left) = (tile.lanes, tile.others, tile.k);
            let mut ahead = tile.ahead;
            let last_mask = mask(last);
            while left > 0 {
                // Hints: any address is allowed.
                if KIND == BY_FEATURES {
                    for n in 0..N {
                        let next = others.wrapping_add((N + n) * tile.other);
                        _mm_prefetch::<_MM_HINT_T1>(next.cast());
                    }
                }
                if KIND == BY_ROWS {
                    for _ in 0..tile.ahead_steps {
                        for v in 0..V {
                            // The cache line in which a vector ends: lines and vectors need not begin together.
                            let end = ahead.wrapping_add((v + 1) * LANES - 1);
                            _mm_prefetch::<_MM_HINT_T1>(end.cast());
                        }
                        ahead = ahead.wrapping_add(tile.ahead_k);
                    }
                }
                let steps = left.min(LANES);
                for _ in 0..steps {
                    let mut vectors = [_mm512_setzero_ps(); V];
                    for v in 0..V {
                        let mask = if v + 1 == V {
                            last_mask
                        } else {
                            __mmask16::MAX
                        };
                        // SAFETY: the caller upholds the requirements.
                        vectors[v] = unsafe { _mm512_maskz_loadu_ps(mask, lanes.add(v * LANES)) };
                    }
                    for n in 0..N {
                        let at = if KIND == OUTER { n } else { n * tile.other };
                        // SAFETY: the caller upholds the requirements.
                        let other = _mm512_set1_ps(unsafe { *others.add(at) });
                        for v in 0..V {
                            sums[v][n] = $add(sums[v][n], vectors[v], other);
                        }
                    }
                    lanes = lanes.wrapping_add(tile.lanes_k);
                    others = others.wrapping_add(tile.others_k);
                }
                left -= steps;
            }
            for v in 0..V {
                let count = if v + 1 == V { last } else { LANES };
                // SAFETY: the caller upholds the requirements; if `add`, the places have been written.
                unsafe {
                    if KIND == BY_FEATURES {
                        let out = tile.out.add(v * LANES * tile.out_stride);
                        write_turned(tile, sums[v], out, count);
                    } else {
                        write(tile, sums[v], tile.out.add(v * LANES), count);
                    }
                }
            }
        }
    };
}

kernel!(sum, "avx512f", |sum, x, y| _mm512_fmadd_ps(x, y, sum));
kernel!(sum_pairs, "avx512f,avx512bf16", |sum, x, y| add_pairs(
    sum, x, y
));

/// Adds the products of pairs to a sum.
#[inline]
#[target_feature(enable = "avx512f,avx512bf16")]
pub(in super::super) fn add_pairs(sum: __m512, x: __m512, y: __m512) -> __m512 {
    // SAFETY: both types have 512 bits. They are converted one by one: an array would pass through memory.
    let (x, y) = unsafe {
        let x = std::mem::transmute::<__m512, __m512bh>(x);
        (x, std::mem::transmute::<__m512, __m512bh>(y))
    };
    _mm512_dpbf16_ps(sum, x, y)
}

/// Writes the sums of one vector of lanes by `N` others, with a line for each other.
///
/// # Safety
/// The requirements are those of [`sum`].
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn write<const N: usize>(tile: Walk, sums: [__m512; N], out: *mut f32, lanes: usize) {
    let mask = mask(lanes);
    for (n, sum) in sums.into_iter().enumerate() {
        // SAFETY: the caller upholds the requirements; past the caches, whole vectors are aligned.
        unsafe {
            let place = out.add(n * tile.out_stride);
            if tile.add {
                let sum = _mm512_add_ps(sum, _mm512_maskz_loadu_ps(mask, place));
                _mm512_mask_storeu_ps(place, mask, sum);
            } else if tile.past_cache && lanes == LANES {
                _mm512_stream_ps(place, sum);
            } else {
                _mm512_mask_storeu_ps(place, mask, sum);
            }
        }
    }
}

/// Writes the sums of one vector of lanes by `N` others, with a line for each lane.
///
/// # Safety
/// The requirements are those of [`sum`].
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn write_turned<const N: usize>(tile: Walk, sums: [__m512; N], out: *mut f32, lanes: usize) {
    for part in (0..N).step_by(FOUR) {
        let sum = |n: usize| if n < N { sums[n] } else { _mm512_setzero_ps() };
        let four = [sum(part), sum(part + 1), sum(part + 2), sum(part + 3)];
        for (first, lines) in turn(four).into_iter().enumerate() {
            let lines: [__m128; FOUR] = [
                _mm512_extractf32x4_ps::<0>(lines),
                _mm512_extractf32x4_ps::<1>(lines),
                _mm512_extractf32x4_ps::<2>(lines),
                _mm512_extractf32x4_ps::<3>(lines),
            ];
            for (group, line) in lines.into_iter().enumerate() {
                let lane = group * FOUR + first;
                if lane >= lanes {
                    continue;
                }
                // SAFETY: the caller upholds the requirements.
                unsafe {
                    let place = out.add(lane * tile.out_stride + part);
                    if N >= FOUR {
                        let line = match tile.add {
                            true => _mm_add_ps(line, _mm_loadu_ps(place)),
                            false => line,
                        };
                        _mm_storeu_ps(place, line);
                    } else {
                        let mut values = [0.0; FOUR];
                        _mm_storeu_ps(values.as_mut_ptr(), line);
                        for (n, value) in values.into_iter().enumerate().take(N) {
                            let before = if tile.add { *place.add(n) } else { 0.0 };
                            place.add(n).write(before + value);
                        }
                    }
                }
            }
        }
    }
}

/// The number of elements of a quarter of a vector.
const FOUR: usize = 4;

/// Transposes four vectors of lanes to lines of four. Vector `r` of the result has those of lanes `r`, `r + 4`, …
#[inline]
#[target_feature(enable = "avx512f")]
fn turn([a, b, c, d]: [__m512; FOUR]) -> [__m512; FOUR] {
    let pairs = |x, y| (_mm512_unpacklo_ps(x, y), _mm512_unpackhi_ps(x, y));
    let ((ab_low, ab_high), (cd_low, cd_high)) = (pairs(a, b), pairs(c, d));
    let low = |x, y| _mm512_unpacklo_pd(_mm512_castps_pd(x), _mm512_castps_pd(y));
    let high = |x, y| _mm512_unpackhi_pd(_mm512_castps_pd(x), _mm512_castps_pd(y));
    [
        low(ab_low, cd_low),
        high(ab_low, cd_low),
        low(ab_high, cd_high),
        high(ab_high, cd_high),
    ]
    .map(|lines| _mm512_castpd_ps(lines))
}
