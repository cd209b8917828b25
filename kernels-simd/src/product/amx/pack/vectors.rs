//! Tiles that are read in vectors. Terms in f32 are rounded by the instruction of AVX512-BF16 for two vectors. It takes
//! subnormal numbers for zero, as AMX and AVX512-BF16 do where they multiply.

use super::super::super::interleave::Half;
use super::{Square, Tile, check_vectors};
use std::arch::x86_64::*;

/// The order that interleaves two vectors of bf16.
const PAIRS: [u16; Tile::TERMS] = {
    let mut order = [0; Tile::TERMS];
    let mut place = 0;
    while place < Tile::TERMS {
        order[place] = (place / 2 + place % 2 * Tile::LINES) as u16;
        place += 1;
    }
    order
};

fn has_instructions() -> bool {
    is_x86_feature_detected!("avx512bf16") && is_x86_feature_detected!("avx512bw")
}

/// Reads 16 lines of 32 adjacent terms. Returns `false`, and reads nothing, if the machine lacks the instructions.
#[inline(always)]
pub(super) fn rows<H: Half>(data: &[H], stride: usize, to: &mut Square) -> bool {
    checked::<H, false>(data, stride, Tile::LINES, to)
}

/// Reads 32 lines of one term of 16 rows, and interleaves each two of them. Returns `false`, and reads nothing, if the
/// machine lacks the instructions.
#[inline(always)]
pub(super) fn pairs_of_lines<H: Half>(data: &[H], k_stride: usize, to: &mut Square) -> bool {
    checked::<H, true>(data, k_stride.saturating_mul(2), k_stride, to)
}

/// Calls [`read`] if the machine has the instructions, and returns whether it has.
///
/// # Panics
/// Panics if a vector reaches beyond the data.
#[inline(always)]
fn checked<H: Half, const PAIRED: bool>(
    data: &[H],
    stride: usize,
    second: usize,
    to: &mut Square,
) -> bool {
    if !has_instructions() {
        return false;
    }
    check_vectors(data.len(), stride, second);
    // SAFETY: all vectors are in the slice, because the last is, and the machine has the instructions.
    unsafe { read::<H, PAIRED>(data.as_ptr(), stride, second, to) };
    true
}

/// Reads 16 times two vectors of 16 terms. The first of a line are `stride` apart, the second ones `second` elements after
/// them. They stay one after the other, or are interleaved if `PAIRED`.
///
/// # Safety
/// The machine must have the instructions, and the vectors must be readable.
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
unsafe fn read<H: Half, const PAIRED: bool>(
    data: *const H,
    stride: usize,
    second: usize,
    to: &mut Square,
) {
    // SAFETY: the constant has 64 bytes.
    let order = unsafe { _mm512_loadu_si512(PAIRS.as_ptr().cast()) };
    // The tile that is read after this one, or soon: the next terms.
    let ahead = match PAIRED {
        true => Tile::LINES * stride,
        false => 2 * Tile::TERMS,
    };
    for (line, to) in to.iter_mut().enumerate() {
        // Hints, because the processor does not foresee lines of several pages. Any address is allowed.
        let next = data.wrapping_add(line * stride + ahead);
        _mm_prefetch::<_MM_HINT_T0>(next.cast());
        if PAIRED {
            _mm_prefetch::<_MM_HINT_T0>(next.wrapping_add(second).cast());
        }
        // SAFETY: the caller upholds the requirements; a line of the square has 64 bytes.
        unsafe {
            let first = data.add(line * stride);
            let both = both::<H>(first, first.add(second));
            let both = match PAIRED {
                true => _mm512_permutexvar_epi16(order, both),
                false => both,
            };
            _mm512_storeu_si512(to.as_mut_ptr().cast(), both);
        }
    }
}

/// Reads two vectors, as bf16 one after the other.
///
/// # Safety
/// The requirements are those of [`read`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
unsafe fn both<H: Half>(first: *const H, second: *const H) -> __m512i {
    // SAFETY: the caller upholds the requirements. The terms are f32, or else bf16.
    unsafe {
        if H::IS_SINGLE {
            let [low, high] = [first, second].map(|vector| _mm512_loadu_ps(vector.cast()));
            std::mem::transmute::<__m512bh, __m512i>(_mm512_cvtne2ps_pbh(high, low))
        } else {
            let [low, high] = [first, second].map(|vector| _mm256_loadu_si256(vector.cast()));
            _mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), high)
        }
    }
}

/// Subtracts from each number what is left of it in bf16.
pub(in super::super::super) fn leave_remainders(values: &mut [f32]) {
    if has_instructions() {
        // SAFETY: the machine has the instructions.
        return unsafe { subtract_rounded(values) };
    }
    for value in values {
        *value -= f32::from_bits(value.bits() << 16);
    }
}

/// # Safety
/// The machine must have the instructions.
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
unsafe fn subtract_rounded(values: &mut [f32]) {
    for vector in values.chunks_mut(Tile::LINES) {
        let mask = u16::MAX >> (Tile::LINES - vector.len());
        // SAFETY: the mask has the elements of the vector.
        unsafe {
            let value = _mm512_maskz_loadu_ps(mask, vector.as_ptr());
            let rounded = _mm512_cvtpbh_ps(_mm512_cvtneps_pbh(value));
            let rest = _mm512_sub_ps(value, rounded);
            _mm512_mask_storeu_ps(vector.as_mut_ptr(), mask, rest);
        }
    }
}
