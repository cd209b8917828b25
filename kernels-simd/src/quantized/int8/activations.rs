//! Rows of `x`, rounded to 8 bits in blocks.

use super::quads::{self, Quads, Work};
use super::weights::{GROUP, GROUPS, PIECE};
use crate::share;

/// The number of elements with a common scale.
pub(super) const BLOCK: usize = 32;

/// A part of a row that is multiplied at once.
#[derive(Clone, Copy)]
pub(super) struct Piece {
    /// From −127 to 127.
    pub(super) codes: [i8; PIECE],
    /// The scale of each group: of each half of a block.
    pub(super) scales: [f32; GROUPS],
    /// The sum of the numbers of each group, rounded.
    pub(super) sums: [f32; GROUPS],
}

impl Piece {
    const ZERO: Self = Self {
        codes: [0; PIECE],
        scales: [0.0; GROUPS],
        sums: [0.0; GROUPS],
    };
}

/// Rows in pieces. Elements past the end of a row are zero.
pub(super) struct Activations {
    pieces: Vec<Piece>,
    /// The number of pieces of a row.
    of_row: usize,
}

/// The number of elements that a thread rounds at a time.
const AT_A_TIME: usize = 1 << 15;

impl Activations {
    pub(super) fn new(rows: &[f32], inputs: usize) -> Self {
        let of_row = inputs.div_ceil(PIECE);
        let mut pieces = vec![Piece::ZERO; rows.len() / inputs * of_row];
        let count = (AT_A_TIME / inputs).max(1);
        let from = rows.chunks(count * inputs);
        let parts = from.zip(pieces.chunks_mut(count * of_row));
        let parts = parts.map(|(rows, pieces)| Round {
            rows,
            inputs,
            pieces,
            of_row,
        });
        let parts: Vec<_> = parts.collect();
        match parts.len() {
            0 | 1 => parts.into_iter().for_each(quads::run),
            _ => share::each(parts, quads::run),
        }
        Self { pieces, of_row }
    }

    pub(super) fn rows(&self) -> std::slice::ChunksExact<'_, Piece> {
        self.pieces.chunks_exact(self.of_row)
    }
}

/// The rounding of some rows.
struct Round<'a> {
    rows: &'a [f32],
    inputs: usize,
    pieces: &'a mut [Piece],
    of_row: usize,
}

impl Work for Round<'_> {
    #[inline(always)]
    fn run<Q: Quads>(self, _: Q) {
        let places = self.pieces.chunks_exact_mut(self.of_row);
        for (row, pieces) in self.rows.chunks_exact(self.inputs).zip(places) {
            for (numbers, piece) in row.chunks(PIECE).zip(pieces) {
                round(numbers, piece);
            }
        }
    }
}

#[inline(always)]
fn round(numbers: &[f32], piece: &mut Piece) {
    let blocks = piece.codes.as_chunks_mut::<BLOCK>().0.iter_mut();
    let (whole, rest) = numbers.as_chunks::<BLOCK>();
    let mut scales = [0.0; PIECE / BLOCK];
    let mut last = [0.0; BLOCK];
    last[..rest.len()].copy_from_slice(rest);
    let last = (!rest.is_empty()).then_some(&last);
    for ((block, codes), scale) in whole.iter().chain(last).zip(blocks).zip(&mut scales) {
        *scale = round_block(block, codes);
    }
    for (group, codes) in piece.codes.as_chunks::<GROUP>().0.iter().enumerate() {
        let mut sum = 0;
        for code in codes {
            sum += i32::from(*code);
        }
        let scale = scales[group * GROUP / BLOCK];
        piece.scales[group] = scale;
        piece.sums[group] = sum as f32 * scale;
    }
}

/// The bits of infinity, and those of a number's size.
const INFINITY: u32 = 0x7f80_0000;
const SIZE: u32 = 0x7fff_ffff;

/// A number whose sum with one of at most 2^22 is rounded to a whole one, ties to even. The lowest bits of the sum are
/// those of the integer.
const WHOLE: f32 = 12_582_912.0;

/// Rounds a block, and returns its scale: 1/127 of the largest size. If a number is infinite or NaN, the scale is NaN.
#[inline(always)]
pub(super) fn round_block(numbers: &[f32; BLOCK], codes: &mut [i8; BLOCK]) -> f32 {
    // Sizes are in the order of their bits, and numbers that are not finite are the largest.
    let mut largest = 0;
    for x in numbers {
        largest = largest.max(x.to_bits() & SIZE);
    }
    if largest >= INFINITY {
        *codes = [0; BLOCK];
        return f32::NAN;
    }
    let largest = f32::from_bits(largest);
    let factor = 127.0 / largest;
    if !factor.is_finite() {
        // Zeros, or numbers so small that nothing is left of them.
        *codes = [0; BLOCK];
        return 0.0;
    }
    for (code, x) in codes.iter_mut().zip(numbers) {
        *code = (x * factor + WHOLE).to_bits() as i8;
    }
    largest / 127.0
}
