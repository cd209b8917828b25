//! The integers and scales in the bytes of blocks, for products in f32 and of integers.

use super::SMALL;
use crate::{Element, LANES};
use half::f16;

pub(super) type Codes16 = [u8; LANES];
pub(super) type Codes32 = [u8; SMALL];

/// All codes of 4 bits.
pub(super) const CODES: Codes16 = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];

/// Returns `N` bytes from an offset on.
#[inline(always)]
pub(in super::super) fn part<const N: usize>(bytes: &[u8], at: usize) -> &[u8; N] {
    bytes[at..]
        .first_chunk()
        .expect("offsets are inside of the block")
}

/// Reads a half-precision number.
#[inline(always)]
pub(in super::super) fn single(block: &[u8], at: usize) -> f32 {
    f16::from_le_bytes(*part(block, at)).load()
}

// The following are loops, because `map` is a call, which is not compiled for the context.

/// Returns the lower halves of bytes.
#[inline(always)]
pub(in super::super) fn low<const N: usize>(bytes: &[u8; N]) -> [u8; N] {
    let mut codes = *bytes;
    for code in &mut codes {
        *code &= 0xf;
    }
    codes
}

/// Returns the upper halves of bytes.
#[inline(always)]
pub(in super::super) fn high<const N: usize>(bytes: &[u8; N]) -> [u8; N] {
    let mut codes = *bytes;
    for code in &mut codes {
        *code >>= 4;
    }
    codes
}

/// Subtracts a number from bytes, and returns the differences as signed integers, modulo 256.
#[inline(always)]
pub(super) fn less<const N: usize>(codes: [u8; N], number: u8) -> [i8; N] {
    let mut integers = [0; N];
    for (integer, code) in integers.iter_mut().zip(codes) {
        *integer = code.wrapping_sub(number) as i8;
    }
    integers
}

/// Sets bits of codes.
#[inline(always)]
pub(in super::super) fn with_bits<const N: usize>(mut codes: [u8; N], bits: [u8; N]) -> [u8; N] {
    for (code, bits) in codes.iter_mut().zip(bits) {
        *code |= bits;
    }
    codes
}

/// Returns some bits of each byte, moved to bit 4 and those above it.
#[inline(always)]
pub(in super::super) fn shifted(bytes: &Codes32, shift: usize, mask: u8) -> Codes32 {
    let mut bits = *bytes;
    for bits in &mut bits {
        *bits = (*bits >> shift & mask) << 4;
    }
    bits
}

/// Returns each of the sixteen bits of two bytes as bit 4 of a code.
#[inline(always)]
pub(in super::super) fn fifth(bytes: [u8; 2]) -> Codes16 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    // The bit of each byte's place.
    const PLACES: u64 = 0x8040_2010_0804_0201;
    let mut codes = [0; LANES];
    for (codes, byte) in codes.as_chunks_mut::<8>().0.iter_mut().zip(bytes) {
        let places = (u64::from(byte) * ONES) & PLACES;
        // The highest bit of a byte is set where it is not zero.
        let is_set = places + 0x7f * ONES;
        *codes = ((is_set >> 3) & (0x10 * ONES)).to_le_bytes();
    }
    codes
}

/// Returns the scales of eight groups, then their minima, in 6 bits each.
#[inline(always)]
pub(in super::super) fn sixes(packed: &[u8; 12]) -> [i8; LANES] {
    let a = u32::from_le_bytes(*part(packed, 0));
    let b = u32::from_le_bytes(*part(packed, 4));
    let d = u32::from_le_bytes(*part(packed, 8));
    const SIX: u32 = 0x3f3f_3f3f;
    const FOUR: u32 = 0x0f0f_0f0f;
    const TWO: u32 = 0x3030_3030;
    let words = [
        a & SIX,
        d & FOUR | a >> 2 & TWO,
        b & SIX,
        d >> 4 & FOUR | b >> 2 & TWO,
    ];
    let mut integers = [0; LANES];
    for (integers, word) in integers.as_chunks_mut::<4>().0.iter_mut().zip(words) {
        *integers = less(word.to_le_bytes(), 0);
    }
    integers
}

/// Returns 2^(exponent − 128), the scale of doubled MXFP4 numbers. The first two are subnormal.
#[inline(always)]
pub(in super::super) fn of_doubled(exponent: u8) -> f32 {
    match exponent {
        0..2 => f32::from_bits(0x0020_0000 << exponent),
        _ => f32::from_bits((u32::from(exponent) - 1) << 23),
    }
}
