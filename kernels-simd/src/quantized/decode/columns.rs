//! Codes in words that go down the columns of a matrix. Sixteen rows are decoded together, a lane each.

use super::super::panels::VECTOR;
use crate::lanes::Task;
use crate::{Context, LANES, Lanes};
use kernels_quant::{AWQ_PLACES, Codes, ColumnGroups, QuantizedWeight, WordOrder};
use std::ops::Range;

/// The largest number of columns that are decoded at once.
pub(in super::super) const INPUTS: usize = 64;

/// The shifts of the rows of two words of AWQ.
const SHIFTS: [u32; LANES] = {
    let mut shifts = [0; LANES];
    let mut lane = 0;
    while lane < LANES {
        shifts[lane] = 4 * AWQ_PLACES[lane % AWQ_PLACES.len()] as u32;
        lane += 1;
    }
    shifts
};

/// The number of rows whose words are copied at once, a multiple of 16.
pub(in super::super) const TOGETHER: usize = 512;

/// The codes of a weight that are stored column by column.
#[derive(Clone, Copy)]
pub(in super::super) struct ColumnCodes<'a> {
    words: WordOrder,
    groups: &'a dyn ColumnGroups,
    rows: usize,
    columns: usize,
}

/// The words of some rows and columns, copied from lines that are far apart: beside each other, they stay in the
/// first-level cache while they are decoded.
#[derive(Default)]
pub(in super::super) struct Tile {
    words: Vec<[u8; 4]>,
    /// The number of words of a line.
    width: usize,
    /// The first row.
    first: usize,
    /// The columns.
    columns: Range<usize>,
}

impl Tile {
    /// Returns the words of a line from a row on, each of which has so many rows.
    #[inline(always)]
    fn line(&self, at: usize, row: usize, rows_of_word: usize) -> &[[u8; 4]] {
        &self.words[at * self.width..][..self.width][(row - self.first) / rows_of_word..]
    }
}

/// Sixteen rows of some columns.
pub(in super::super) type Square = [[f32; LANES]; INPUTS];

/// The scales and zeros of the groups of sixteen rows.
pub(in super::super) type OfGroups = Vec<[[f32; LANES]; 2]>;

const _: () = assert!(VECTOR == LANES);

impl<'a> ColumnCodes<'a> {
    /// Returns the codes of a weight, or `None` if they are not stored so.
    pub(in super::super) fn of(weight: &'a QuantizedWeight<'_>) -> Option<Self> {
        let [rows, columns] = weight.shape();
        match weight.codes()? {
            Codes::Columns { words, groups } => Some(Self {
                words,
                groups,
                rows,
                columns,
            }),
            _ => None,
        }
    }

    pub(in super::super) fn columns(&self) -> usize {
        self.columns
    }

    /// Returns the scales and zeros of sixteen rows, or of those that there are.
    pub(in super::super) fn of_rows(&self, first: usize) -> OfGroups {
        let lanes = LANES.min(self.rows - first);
        let group = |group| {
            let mut both = [[0.0; LANES]; 2];
            let [scales, zeros] = &mut both;
            self.groups
                .get(first, group, &mut scales[..lanes], &mut zeros[..lanes]);
            both
        };
        (0..self.groups.count()).map(group).collect()
    }

    /// Copies the words of some rows, the first of which is a multiple of 16, and at most [`INPUTS`] columns, the first
    /// of which is a multiple of [`INPUTS`].
    pub(in super::super) fn copy(&self, rows: Range<usize>, columns: Range<usize>, to: &mut Tile) {
        let (lines, words) = match self.words {
            WordOrder::OfColumns { bits } => {
                let in_word = 32 / bits as usize;
                (
                    columns.start / in_word..columns.end.div_ceil(in_word),
                    rows.clone(),
                )
            }
            WordOrder::OfRows => {
                let in_word = AWQ_PLACES.len();
                (
                    columns.clone(),
                    rows.start / in_word..rows.end.div_ceil(in_word),
                )
            }
        };
        to.words.clear();
        to.width = words.len();
        to.first = rows.start;
        to.columns = columns;
        for line in lines {
            to.words
                .extend_from_slice(&self.groups.line(line)[words.clone()]);
        }
    }

    /// Decodes sixteen rows of a tile from `first` on, a multiple of 16, or those that there are.
    #[inline(always)]
    pub(in super::super) fn square<C: Context>(
        &self,
        c: C,
        first: usize,
        tile: &Tile,
        of_groups: &[[[f32; LANES]; 2]],
        out: &mut Square,
    ) {
        let columns = tile.columns.clone();
        let mut group = CurrentGroup {
            groups: self.groups,
            of_groups,
            end: columns.start,
            numbers: [C::Of::<f32>::splat(c, 0.0); 2],
        };
        match self.words {
            // Each is compiled with its own shifts.
            WordOrder::OfColumns { bits: 4 } => group.lines::<4>(c, first, tile, out),
            WordOrder::OfColumns { bits: 8 } => group.lines::<8>(c, first, tile, out),
            WordOrder::OfColumns { .. } => group.lines::<2>(c, first, tile, out),
            WordOrder::OfRows => {
                let in_word = AWQ_PLACES.len();
                for ((at, column), out) in columns.enumerate().zip(out) {
                    // Loops over all lanes, each of one instruction.
                    let mut codes = [0_u32; LANES];
                    let words = codes.as_chunks_mut::<8>().0.iter_mut();
                    for (word, stored) in words.zip(tile.line(at, first, in_word)) {
                        *word = [u32::from_le_bytes(*stored); 8];
                    }
                    for (code, shift) in codes.iter_mut().zip(SHIFTS) {
                        *code = *code >> shift & 0xf;
                    }
                    let mut numbers = [0.0; LANES];
                    for (number, code) in numbers.iter_mut().zip(codes) {
                        *number = code as i32 as f32;
                    }
                    let [scales, zeros] = group.at(c, column);
                    *out = ((C::Of::<f32>::read(c, &numbers) - zeros) * scales).values();
                }
            }
        }
    }
}

/// The group of the columns that are decoded.
struct CurrentGroup<'a, C: Context> {
    groups: &'a dyn ColumnGroups,
    of_groups: &'a [[[f32; LANES]; 2]],
    /// The first column that may be in another.
    end: usize,
    /// The scales and zeros of sixteen rows.
    numbers: [C::Of<f32>; 2],
}

impl<C: Context> CurrentGroup<'_, C> {
    /// Decodes lines of words of consecutive columns.
    #[inline(always)]
    fn lines<const BITS: usize>(&mut self, c: C, first: usize, tile: &Tile, out: &mut Square) {
        let in_word = 32 / BITS;
        let lines = tile.columns.clone().step_by(in_word).enumerate();
        for ((at, column), out) in lines.zip(out.chunks_exact_mut(in_word)) {
            let words = sixteen(tile.line(at, first, 1));
            let mut numbers = self.at(c, column);
            // Most words are in one group, whose numbers stay in registers.
            let is_in_one = column + in_word <= self.end;
            for (i, out) in out.iter_mut().enumerate() {
                if !is_in_one {
                    numbers = self.at(c, column + i);
                }
                let mut codes = [0.0; LANES];
                for (code, word) in codes.iter_mut().zip(words) {
                    *code = (word >> (BITS * i) & ((1 << BITS) - 1)) as i32 as f32;
                }
                let [scales, zeros] = numbers;
                *out = ((C::Of::<f32>::read(c, &codes) - zeros) * scales).values();
            }
        }
    }

    /// Returns the scales and zeros of a column, which is the next one or in the same group.
    #[inline(always)]
    fn at(&mut self, c: C, column: usize) -> [C::Of<f32>; 2] {
        if column == self.end {
            let (group, end) = self.groups.of(column);
            let [scales, zeros] = &self.of_groups[group];
            self.end = end;
            self.numbers = [C::Of::<f32>::read(c, scales), C::Of::<f32>::read(c, zeros)];
        }
        self.numbers
    }
}

/// Returns the first sixteen words of a line, or those that there are and zeros.
#[inline(always)]
fn sixteen(line: &[[u8; 4]]) -> [u32; LANES] {
    let mut words = [0; LANES];
    for (word, stored) in words.iter_mut().zip(line) {
        *word = u32::from_le_bytes(*stored);
    }
    words
}

/// Whole rows.
pub(in super::super) struct DecodeColumns<'a, 'o> {
    pub(in super::super) codes: ColumnCodes<'a>,
    /// The first row.
    pub(in super::super) first: usize,
    pub(in super::super) out: &'o mut [f32],
}

impl Task for DecodeColumns<'_, '_> {
    type Acc = f32;
    type Output = ();

    #[inline(always)]
    fn run<C: Context>(self, c: C) {
        let Self { codes, first, out } = self;
        let columns = codes.columns;
        let last = first + out.len() / columns;
        let mut square = [[0.0; LANES]; INPUTS];
        let mut tile = Tile::default();
        for some in (first / LANES * LANES..last).step_by(TOGETHER) {
            let end = last.min(some + TOGETHER);
            let starts = (some..end).step_by(LANES);
            let of_groups: Vec<_> = starts.clone().map(|start| codes.of_rows(start)).collect();
            for from in (0..columns).step_by(INPUTS) {
                let part = from..columns.min(from + INPUTS);
                codes.copy(some..end, part.clone(), &mut tile);
                for (start, of_groups) in starts.clone().zip(&of_groups) {
                    codes.square(c, start, &tile, of_groups, &mut square);
                    for row in first.max(start)..end.min(start + LANES) {
                        let out = &mut out[(row - first) * columns..][part.clone()];
                        for (out, numbers) in out.iter_mut().zip(&square) {
                            *out = numbers[row - start];
                        }
                    }
                }
            }
        }
    }
}
