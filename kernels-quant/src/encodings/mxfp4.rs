//! MXFP4 of gpt-oss: floats of 4 bits, 32 with a common power of two (OCP Microscaling Formats 1.0).
//!
//! A byte holds two neighbours, the low half first. An element is `E2M1[q] · 2^(scale − 127)`.
//!
//! | part | type | shape |
//! |---|---|---|
//! | `blocks` | u8 | `[rows, columns / 32, 16]` |
//! | `scales` | u8 | `[rows, columns / 32]` |
//!
//! A file has a stack of these, one for each expert, and the parameter of the model is the transpose.

use std::fmt;
use std::ops::Range;

use crate::encoding::{Declared, DecodeRows};
use crate::parts::Parts;
use crate::{BlockScales, Codes, Dtype, QuantError, numbers};

/// MXFP4 of gpt-oss.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Mxfp4;

/// The number of elements with a common exponent.
const BLOCK: usize = 32;

impl fmt::Display for Mxfp4 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("mxfp4")
    }
}

impl Declared for Mxfp4 {
    fn part_names(&self) -> &'static [&'static str] {
        &["blocks", "scales"]
    }

    fn codes(&self) -> &'static str {
        "blocks"
    }

    fn decoder<'a>(
        &self,
        shape: [usize; 2],
        parts: &mut Parts<'a>,
    ) -> Result<Box<dyn DecodeRows + 'a>, QuantError> {
        let [rows, columns] = shape;
        if !columns.is_multiple_of(BLOCK) {
            return Err(self.bad_shape(shape, format!("rows are whole blocks of {BLOCK}")));
        }
        let across = columns / BLOCK;
        let codes = parts.bytes("blocks", Dtype::U8, &[rows, across, BLOCK / 2])?;
        Ok(Box::new(Rows {
            across,
            codes: codes.as_chunks().0,
            scales: parts.powers("scales", &[rows, across])?,
        }))
    }
}

#[derive(Debug)]
struct Rows<'a> {
    /// The number of blocks of a row.
    across: usize,
    codes: &'a [[u8; BLOCK / 2]],
    scales: &'a [u8],
}

impl DecodeRows for Rows<'_> {
    fn decode(&self, rows: Range<usize>, out: &mut [f32]) {
        let blocks = rows.start * self.across..rows.end * self.across;
        let blocks = self.codes[blocks.clone()].iter().zip(&self.scales[blocks]);
        for ((codes, &scale), places) in blocks.zip(out.as_chunks_mut::<BLOCK>().0) {
            let power = numbers::e8m0(scale);
            for (code, pair) in codes.iter().zip(places.as_chunks_mut().0) {
                *pair =
                    [code & 0xf, code >> 4].map(|code| numbers::E2M1[usize::from(code)] * power);
            }
        }
    }

    fn codes(&self) -> Option<Codes<'_>> {
        Some(Codes::Table {
            table: &numbers::E2M1,
            bytes: self.codes.as_flattened(),
            low_first: true,
            block: BLOCK,
            scales: BlockScales::powers(self.scales),
        })
    }
}
