//! Encoding by an importance matrix: errors in columns that matter more weigh more, and the codes are those of ggml, to the
//! bit.

use super::encode::{put_fives, put_half, put_nibbles};
use super::fit::{BY_IMPORTANCE, above_least, around_zero};
use super::{Block, LARGE, SMALL, groups};
use crate::QuantError;

impl Block {
    /// Encodes rows into blocks that follow each other, as ggml does with an importance matrix: to the bit of a build of
    /// ggml that doesn't fuse products and sums. `importance` has a number from 0 for each column: in llama.cpp, the mean
    /// square of the numbers that the column is multiplied by. Q8_0 and MXFP4 have the same codes as
    /// [without](Self::encode).
    ///
    /// # Errors
    ///
    /// Returns [`QuantError::Number`] if a number is infinite or NaN, or so large that the scale of its block is not finite
    /// as a half-precision number.
    ///
    /// # Panics
    ///
    /// Panics if `importance` is not a whole number of blocks, if `numbers` is not a whole number of such rows, or if
    /// `bytes` does not have the size of their blocks.
    pub fn encode_weighted(
        self,
        numbers: &[f32],
        importance: &[f32],
        bytes: &mut [u8],
    ) -> Result<(), QuantError> {
        let columns = importance.len();
        assert!(
            columns > 0 && columns.is_multiple_of(self.elements()),
            "{columns} columns must be whole blocks of {}",
            self.elements()
        );
        assert!(
            numbers.len().is_multiple_of(columns),
            "{} numbers must be whole rows of {columns}",
            numbers.len()
        );
        match self {
            Self::Q4_0 => self.small(numbers, importance, q4_0, bytes),
            Self::Q4_1 => self.small(numbers, importance, q4_1, bytes),
            Self::Q5_0 => self.small(numbers, importance, q5_0, bytes),
            Self::Q5_1 => self.small(numbers, importance, q5_1, bytes),
            Self::Q4K => self.large(numbers, importance, by_size(groups::q4_k_by), bytes),
            Self::Q5K => self.large(numbers, importance, by_size(groups::q5_k_by), bytes),
            Self::Q6K => self.large(numbers, importance, groups::q6_k_by, bytes),
            Self::Q8_0 | Self::Mxfp4 => self.encode(numbers, bytes),
        }
    }

    /// Encodes small blocks. Numbers weigh more the larger they are, beside the usual size of their row.
    fn small<const BYTES: usize>(
        self,
        numbers: &[f32],
        importance: &[f32],
        encode: impl Fn(&[f32; SMALL], &[f32; SMALL], &mut [u8; BYTES]) -> bool,
        bytes: &mut [u8],
    ) -> Result<(), QuantError> {
        let columns = importance.len();
        let squares = |row: &[f32]| row.iter().fold(0.0, |sum: f32, x| sum + x * x);
        let rows = numbers.chunks_exact(columns);
        let usual: Vec<f32> = rows.map(|row| squares(row) / columns as f32).collect();
        let importance = importance.as_chunks::<SMALL>().0;
        self.encode_each(
            numbers,
            |at, numbers, block| {
                let importance = &importance[at % importance.len()];
                let weights = sized(numbers, importance, usual[at / (columns / SMALL)]);
                encode(numbers, &weights, block)
            },
            bytes,
        )
    }

    /// Encodes large blocks.
    fn large<const BYTES: usize>(
        self,
        numbers: &[f32],
        importance: &[f32],
        encode: impl Fn(&[f32; LARGE], &[f32; LARGE], &mut [u8; BYTES]) -> bool,
        bytes: &mut [u8],
    ) -> Result<(), QuantError> {
        let importance = importance.as_chunks::<LARGE>().0;
        self.encode_each(
            numbers,
            |at, numbers, block| encode(numbers, &importance[at % importance.len()], block),
            bytes,
        )
    }
}

/// Multiplies importance with the size of numbers, beside their usual size, a mean square.
fn sized<const N: usize>(numbers: &[f32; N], importance: &[f32; N], usual: f32) -> [f32; N] {
    let mut weights = *importance;
    for (weight, number) in weights.iter_mut().zip(numbers) {
        *weight *= (usual + number * number).sqrt();
    }
    weights
}

/// Lets numbers of a block weigh more the larger they are, beside twice the usual size of the block.
fn by_size<const BYTES: usize>(
    encode: impl Fn(&[f32; LARGE], &[f32; LARGE], &mut [u8; BYTES]) -> bool,
) -> impl Fn(&[f32; LARGE], &[f32; LARGE], &mut [u8; BYTES]) -> bool {
    move |numbers, importance, block| {
        let squares = numbers.iter().fold(0.0, |sum: f32, x| sum + x * x);
        let weights = sized(numbers, importance, 2.0 * squares / LARGE as f32);
        encode(numbers, &weights, block)
    }
}

fn q4_0(numbers: &[f32; SMALL], weights: &[f32; SMALL], block: &mut [u8; 18]) -> bool {
    let (codes, scale) = around_zero(numbers, weights, 8);
    put_nibbles(&codes, &mut block[2..]);
    put_half(block, 0, scale)
}

fn q5_0(numbers: &[f32; SMALL], weights: &[f32; SMALL], block: &mut [u8; 22]) -> bool {
    let (codes, scale) = around_zero(numbers, weights, 16);
    put_fives(&codes, &mut block[2..]);
    put_half(block, 0, scale)
}

fn q4_1(numbers: &[f32; SMALL], weights: &[f32; SMALL], block: &mut [u8; 20]) -> bool {
    let fit = above_least(numbers, weights, 15, &BY_IMPORTANCE);
    put_nibbles(&fit.codes, &mut block[4..]);
    put_half(block, 0, fit.scale) && put_half(block, 2, -fit.least)
}

fn q5_1(numbers: &[f32; SMALL], weights: &[f32; SMALL], block: &mut [u8; 24]) -> bool {
    let fit = above_least(numbers, weights, 31, &BY_IMPORTANCE);
    put_fives(&fit.codes, &mut block[4..]);
    put_half(block, 0, fit.scale) && put_half(block, 2, -fit.least)
}
