//! The codes and scales of a weight, for products that decode them in registers.

use std::fmt;

use crate::encodings::gguf;
use crate::numbers;
use crate::views::Floats;

/// The codes and scales of a weight `[rows, columns]`, of the encodings that are decoded most often.
#[derive(Debug, Clone, Copy)]
pub enum Codes<'a> {
    /// Blocks of GGUF files.
    Blocks {
        /// The layout.
        block: gguf::Block,
        /// All blocks, row by row.
        bytes: &'a [u8],
    },
    /// Codes of 4 bits in blocks that may run across rows: an element is `table[code] · scale`.
    Table {
        /// The numbers of the codes.
        table: &'static [f32; 16],
        /// Two codes in each byte.
        bytes: &'a [u8],
        /// True if the lower half of a byte comes first.
        low_first: bool,
        /// The number of elements of a block.
        block: usize,
        /// The scale of each block.
        scales: BlockScales<'a>,
    },
    /// Codes row by row, in groups of columns: an element is `(number − zero) · scale · factor`.
    Grouped {
        /// The type of a code.
        number: Number,
        /// The codes, row by row.
        bytes: &'a [u8],
        /// The number of bytes of a row.
        stride: usize,
        /// The number of columns of a group, of which the last may have fewer.
        width: usize,
        /// The scales and zeros.
        groups: &'a dyn RowGroups,
        /// The factor of all elements.
        factor: f32,
    },
    /// Codes column by column, in words with codes of several rows or columns: an element is `(code − zero) · scale`.
    Columns {
        /// The order of codes in words.
        words: WordOrder,
        /// The words, and the scales and zeros.
        groups: &'a dyn ColumnGroups,
    },
}

/// The type of a code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Number {
    /// A byte, from −128 to 127.
    Int8,
    /// A byte, from 0 to 255.
    Uint8,
    /// A byte, as [`numbers::e4m3`](crate::numbers::e4m3) returns it.
    E4M3,
    /// Half a byte, the lower one first, from 0 to 15.
    Uint4,
}

/// The scales and zeros of groups of columns of each row.
pub trait RowGroups: fmt::Debug + Send + Sync {
    /// Returns the scale and the zero of a group of a row.
    fn get(&self, row: usize, group: usize) -> [f32; 2];
}

/// The order of codes in words of 32 bits, whose lowest bits come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WordOrder {
    /// A word has consecutive columns of one row. Each line of words has a word for each row.
    OfColumns {
        /// The bits of a code, which divide 32.
        bits: u32,
    },
    /// A word has eight rows of one column, those of the places [`AWQ_PLACES`]. Each line of words is a column.
    OfRows,
}

/// The place of each of eight rows in a word of AWQ, in codes of 4 bits.
pub const AWQ_PLACES: [usize; 8] = [0, 4, 1, 5, 2, 6, 3, 7];

/// Words that go down the columns of a matrix, with the scales and zeros of groups of columns.
pub trait ColumnGroups: fmt::Debug + Send + Sync {
    /// Returns a line of words.
    fn line(&self, at: usize) -> &[[u8; 4]];
    /// Returns the number of groups.
    fn count(&self) -> usize;
    /// Returns the group of a column, and the first column after it that may be in another.
    fn of(&self, column: usize) -> (usize, usize);
    /// Sets the scales and the zeros of a group of consecutive rows, as many as there are places.
    fn get(&self, first: usize, group: usize, scales: &mut [f32], zeros: &mut [f32]);
}

/// The scales of blocks, which may themselves be in 8 bits.
#[derive(Debug, Clone, Copy)]
pub struct BlockScales<'a>(Kind<'a>);

#[derive(Debug, Clone, Copy)]
enum Kind<'a> {
    Plain(Floats<'a>),
    /// Exponents of two, as [`numbers::e8m0`] returns them.
    Powers(&'a [u8]),
    Nested {
        codes: &'a [u8],
        map: Floats<'a>,
        scales: Floats<'a>,
        size: usize,
        offset: f32,
    },
}

impl<'a> BlockScales<'a> {
    pub(crate) fn plain(scales: Floats<'a>) -> Self {
        Self(Kind::Plain(scales))
    }

    pub(crate) fn powers(powers: &'a [u8]) -> Self {
        Self(Kind::Powers(powers))
    }

    /// Makes scales of codes, in blocks of `size` with common factors: `map[code] · factor + offset`.
    pub(crate) fn nested(
        codes: &'a [u8],
        map: Floats<'a>,
        scales: Floats<'a>,
        size: usize,
        offset: f32,
    ) -> Self {
        Self(Kind::Nested {
            codes,
            map,
            scales,
            size,
            offset,
        })
    }

    /// Returns the scale of a block.
    ///
    /// # Panics
    ///
    /// Panics if there are fewer blocks.
    #[inline]
    pub fn get(&self, block: usize) -> f32 {
        match self.0 {
            Kind::Plain(scales) => scales.get(block),
            Kind::Powers(powers) => numbers::e8m0(powers[block]),
            Kind::Nested {
                codes,
                map,
                scales,
                size,
                offset,
            } => map.get(codes[block].into()) * scales.get(block / size) + offset,
        }
    }
}
