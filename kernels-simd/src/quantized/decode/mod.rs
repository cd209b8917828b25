//! The decoding of codes with SIMD, to the same bits as without.

mod bits;
mod blocks;
mod columns;
mod groups;

pub(super) use bits::{fifth, high, low, of_doubled, part, shifted, single, sixes, with_bits};
pub(super) use columns::{ColumnCodes, DecodeColumns, INPUTS, TOGETHER, Tile};

use crate::lanes::Task;
use crate::{Context, LANES, Lanes};
use kernels_quant::{Codes, QuantizedWeight};

/// The largest number of elements that are decoded at once. Pieces of a row begin at its multiples, and so do the
/// blocks of every layout that is decoded here.
pub(super) const PIECE: usize = 256;

/// The number of independent sums of a row, which hide the time that an addition takes.
pub(super) const SUMS: usize = 4;

/// The number of elements of small blocks.
const SMALL: usize = 32;

/// Takes the numbers of a piece.
pub(super) trait Sink<C: Context> {
    /// Takes sixteen numbers and their place in the piece. If they are added up, the sum is one of [`SUMS`].
    fn take(&mut self, numbers: C::Of<f32>, at: usize, sum: usize);

    /// Takes the last numbers of a row, which are fewer.
    fn take_rest(&mut self, numbers: &[f32], at: usize);
}

/// The codes of a weight that are stored row by row.
#[derive(Clone, Copy)]
pub(super) struct RowCodes<'a> {
    codes: Codes<'a>,
    columns: usize,
}

impl<'a> RowCodes<'a> {
    /// Returns the codes of a weight, or `None` if they are not decoded here.
    pub(super) fn of(weight: &'a QuantizedWeight<'_>) -> Option<Self> {
        let [_, columns] = weight.shape();
        let codes = weight.codes()?;
        let fits = match codes {
            Codes::Blocks { .. } => true,
            Codes::Table { block, .. } => {
                columns.is_multiple_of(block) && block.is_multiple_of(SMALL)
            }
            Codes::Grouped { width, .. } => width.is_multiple_of(LANES) || width >= columns,
            Codes::Columns { .. } => false,
        };
        fits.then_some(Self { codes, columns })
    }

    pub(super) fn columns(&self) -> usize {
        self.columns
    }

    /// Decodes `length` elements of a row from `from` on, a multiple of [`PIECE`], which is the most.
    #[inline(always)]
    pub(super) fn piece<C: Context, S: Sink<C>>(
        &self,
        c: C,
        row: usize,
        (from, length): (usize, usize),
        out: &mut S,
    ) {
        let first = row * self.columns + from;
        match &self.codes {
            Codes::Blocks { block, bytes } => {
                let bytes = &bytes[first / block.elements() * block.bytes()..];
                blocks::decode(c, *block, bytes, length, out);
            }
            Codes::Table {
                table,
                bytes,
                low_first,
                block,
                scales,
            } => {
                let bytes = &bytes[first / 2..];
                let blocks = (*block, scales);
                groups::of_table(c, (table, *low_first), bytes, (first, length), blocks, out);
            }
            Codes::Grouped {
                number,
                bytes,
                stride,
                width,
                groups,
                factor,
            } => {
                let groups = groups::Groups {
                    row,
                    width: *width,
                    of_rows: *groups,
                    factor: *factor,
                };
                let bytes = &bytes[row * stride..][..*stride];
                groups.decode(c, *number, bytes, (from, length), out);
            }
            Codes::Columns { .. } => unreachable!("they are not stored row by row"),
        }
    }
}

/// Memory that numbers are decoded to.
pub(super) struct Memory<'a>(pub(super) &'a mut [f32]);

impl<C: Context> Sink<C> for Memory<'_> {
    #[inline(always)]
    fn take(&mut self, numbers: C::Of<f32>, at: usize, _: usize) {
        let place: &mut [f32; LANES] = self.0[at..].first_chunk_mut().expect("whole vectors");
        *place = numbers.values();
    }

    #[inline(always)]
    fn take_rest(&mut self, numbers: &[f32], at: usize) {
        self.0[at..][..numbers.len()].copy_from_slice(numbers);
    }
}

/// Whole rows, decoded one after the other.
pub(super) struct DecodeRows<'a, 'o> {
    pub(super) codes: RowCodes<'a>,
    /// The first row.
    pub(super) first: usize,
    pub(super) out: &'o mut [f32],
}

impl Task for DecodeRows<'_, '_> {
    type Acc = f32;
    type Output = ();

    #[inline(always)]
    fn run<C: Context>(self, c: C) {
        let rows = self.out.chunks_exact_mut(self.codes.columns);
        for (row, out) in rows.enumerate() {
            for (at, out) in out.chunks_mut(PIECE).enumerate() {
                let part = (at * PIECE, out.len());
                self.codes
                    .piece(c, self.first + row, part, &mut Memory(out));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lanes::tests::in_each_context;
    use kernels_quant::gguf::Block;
    use kernels_quant::{Dtype, Part};

    /// With the instructions of every machine, and not only the best of this one.
    #[test]
    fn blocks_have_the_same_bits_in_each_context() {
        for &block in Block::ALL {
            let (rows, columns) = (3, 512);
            let row = columns / block.elements() * block.bytes();
            let mut state = 1_u32;
            let mut byte = || {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                // 0xff is not an exponent of MXFP4.
                ((state >> 24) as u8).min(0xfe)
            };
            let bytes: Vec<u8> = (0..rows * row).map(|_| byte()).collect();
            let shape = [rows, row];
            let parts = [("blocks", Part::new(Dtype::U8, &shape, &bytes))];
            let weight = QuantizedWeight::new(block, [rows, columns], parts).unwrap();
            let mut exact = vec![0.0; rows * columns];
            weight.decode_rows(0..rows, &mut exact);
            in_each_context!(c => {
                let mut out = vec![0.0; rows * columns];
                let codes = RowCodes::of(&weight).unwrap();
                let task = DecodeRows {
                    codes,
                    first: 0,
                    out: &mut out,
                };
                task.run(c);
                for (at, (ours, exact)) in out.iter().zip(&exact).enumerate() {
                    let same = ours.to_bits() == exact.to_bits() || ours.is_nan() && exact.is_nan();
                    assert!(same, "{}, {at}: {ours}, not {exact}", block.name());
                }
            });
        }
    }
}
