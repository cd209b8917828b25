//! Weights of 4 bits with a common exponent for every 32: MXFP4, the format of the published gpt-oss.
//!
//! A row is stored as blocks of 16 bytes, each byte with two numbers, the lower half first. `….scales` has a power of two
//! for each block.

use super::decode::Wanted;

/// The number of elements with a common exponent.
pub(crate) const BLOCK: usize = 32;

/// The number of bytes of a block.
pub(crate) const BLOCK_BYTES: usize = BLOCK / 2;

/// The numbers of 4 bits: a sign, two bits of exponent and one of fraction.
const NUMBERS: [f64; 16] = [
    0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0,
];

/// The exponent that is stored as 0.
const BIAS: i32 = 127;

/// Converts a matrix `[rows, columns]`, whose columns are a whole number of blocks, to its transpose `values`.
///
/// # Panics
///
/// Panics if the numbers of bytes do not match. The caller has checked them.
pub(super) fn decode_transposed<T: Wanted>(
    blocks: &[u8],
    scales: &[u8],
    rows: usize,
    values: &mut [T],
) {
    let blocks_of_row = scales.len() / rows;
    assert_eq!(blocks.len(), scales.len() * BLOCK_BYTES);
    assert_eq!(values.len(), scales.len() * BLOCK);
    for (at, (block, &scale)) in blocks.chunks_exact(BLOCK_BYTES).zip(scales).enumerate() {
        let (row, first) = (at / blocks_of_row, at % blocks_of_row * BLOCK);
        let power = 2.0_f64.powi(i32::from(scale) - BIAS);
        let halves = block.iter().flat_map(|byte| [byte & 0xf, byte >> 4]);
        for (column, half) in (first..).zip(halves) {
            let value = NUMBERS[usize::from(half)] * power;
            values[column * rows + row] = T::nearest(value);
        }
    }
}
