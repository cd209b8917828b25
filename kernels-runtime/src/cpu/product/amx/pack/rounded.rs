//! Tiles of f32, rounded by the instruction of AVX512-BF16 for two vectors. It takes subnormal numbers for zero, as the
//! products of tiles do in any case.

use super::super::super::together::Half as _;
use super::{Square, Tile};
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

/// Reads 16 lines of 32 adjacent terms. Returns `None` if the machine lacks the instructions.
#[inline(always)]
pub(super) fn rows(data: &[f32], stride: usize) -> Option<Square> {
    let reach = (Tile::LINES - 1)
        .checked_mul(stride)?
        .checked_add(Tile::TERMS)?;
    if !has_instructions() {
        return None;
    }
    assert!(reach <= data.len(), "16 lines of 32 elements");
    // SAFETY: the lines are in the slice, and the machine has the instructions.
    Some(unsafe { read::<false>(data.as_ptr(), stride, Tile::LINES) })
}

/// Reads 32 lines of one term of 16 rows. Returns `None` if the machine lacks the instructions.
#[inline(always)]
pub(super) fn pairs_of_lines(data: &[f32], k_stride: usize) -> Option<Square> {
    let reach = (Tile::TERMS - 1)
        .checked_mul(k_stride)?
        .checked_add(Tile::LINES)?;
    if !has_instructions() {
        return None;
    }
    assert!(reach <= data.len(), "32 lines of 16 elements");
    // SAFETY: the lines are in the slice, and the machine has the instructions.
    Some(unsafe { read::<true>(data.as_ptr(), 2 * k_stride, k_stride) })
}

/// Rounds 16 times two vectors. The first of a line are `stride` apart, the second ones `second` elements after them. They
/// stay one after the other, or are interleaved if `PAIRED`.
///
/// # Safety
/// The machine must have the instructions, and the vectors must be readable.
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
unsafe fn read<const PAIRED: bool>(data: *const f32, stride: usize, second: usize) -> Square {
    let mut square = [[0.0; Tile::LINES]; Tile::LINES];
    // SAFETY: the constant has 64 bytes.
    let order = unsafe { _mm512_loadu_si512(PAIRS.as_ptr().cast()) };
    for (line, to) in square.iter_mut().enumerate() {
        // SAFETY: the caller upholds the requirements; a line of the square has 64 bytes.
        unsafe {
            let first = data.add(line * stride);
            let (low, high) = (_mm512_loadu_ps(first), _mm512_loadu_ps(first.add(second)));
            let both: __m512i = std::mem::transmute(_mm512_cvtne2ps_pbh(high, low));
            let both = match PAIRED {
                true => _mm512_permutexvar_epi16(order, both),
                false => both,
            };
            _mm512_storeu_si512(to.as_mut_ptr().cast(), both);
        }
    }
    square
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
