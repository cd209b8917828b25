//! The codes and scales of a weight, for products that decode them in registers.

use crate::encodings::gguf;
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
    /// Codes of 4 bits, the upper half of a byte first, in blocks that may run across rows: an element is
    /// `table[code] · scale`.
    Table {
        /// The numbers of the codes.
        table: &'static [f32; 16],
        /// Two codes in each byte.
        bytes: &'a [u8],
        /// The number of elements of a block.
        block: usize,
        /// The scale of each block.
        scales: BlockScales<'a>,
    },
    /// Integers with a scale for each row: an element is `integer · scale · factor`.
    Integers {
        /// An integer of 8 bits in each byte.
        bytes: &'a [u8],
        /// The scale of each row.
        scales: BlockScales<'a>,
        /// The factor of all rows.
        factor: f32,
    },
}

/// The scales of blocks, which may themselves be in 8 bits.
#[derive(Debug, Clone, Copy)]
pub struct BlockScales<'a>(Kind<'a>);

#[derive(Debug, Clone, Copy)]
enum Kind<'a> {
    Plain(Floats<'a>),
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
    pub fn get(&self, block: usize) -> f32 {
        match self.0 {
            Kind::Plain(scales) => scales.get(block),
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
