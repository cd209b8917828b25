//! LLM.int8 of bitsandbytes: integers of 8 bits with a scale for each row. An element is `q · SCB[row] · (1 / 127)`.
//!
//! | part | type | shape |
//! |---|---|---|
//! | `weight` | i8 | `[rows, columns]` |
//! | `SCB` | f32 | `[rows]` |
//! | `weight_format`, optional | u8 | one element: 0, rows in their order |
//!
//! Columns with outliers exist only in activations, while a product is computed.

use std::fmt;
use std::ops::Range;

use crate::config::Fields;
use crate::encoding::{Declared, DecodeRows};
use crate::parts::Parts;
use crate::views::Floats;
use crate::{BlockScales, Codes, ConfigError, Dtype, Encoding, QuantError};

/// LLM.int8 of bitsandbytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BnbInt8;

impl fmt::Display for BnbInt8 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("bitsandbytes int8")
    }
}

const FORMAT: &str = "weight_format";

/// The factor of all elements: scales are the largest numbers of rows, whose codes are 127.
const FACTOR: f32 = 1.0 / 127.0;

impl Declared for BnbInt8 {
    fn part_names(&self) -> &'static [&'static str] {
        &["SCB", "weight", FORMAT]
    }

    fn codes(&self) -> &'static str {
        "weight"
    }

    fn decoder<'a>(
        &self,
        shape: [usize; 2],
        parts: &mut Parts<'a>,
    ) -> Result<Box<dyn DecodeRows + 'a>, QuantError> {
        if parts.has(FORMAT) && parts.take_any(FORMAT, &[Dtype::U8])?.1 != [0] {
            let problem = "the rows are in another order; only the format 0, `row`, is read";
            return Err(QuantError::content(FORMAT, problem));
        }
        Ok(Box::new(Rows {
            columns: shape[1],
            codes: parts.bytes("weight", Dtype::I8, &shape)?,
            scales: parts.singles("SCB", &shape[..1])?,
        }))
    }
}

pub(crate) fn of_config(fields: Fields<'_>) -> Result<Encoding, ConfigError> {
    fields.refuse("load_in_4bit", "contradicts `load_in_8bit`")?;
    fields.refuse("llm_int8_has_fp16_weight", "says that weights are halves")?;
    Ok(BnbInt8.into())
}

#[derive(Debug)]
struct Rows<'a> {
    columns: usize,
    codes: &'a [u8],
    scales: Floats<'a>,
}

impl DecodeRows for Rows<'_> {
    fn decode(&self, rows: Range<usize>, out: &mut [f32]) {
        let codes = self.codes.chunks_exact(self.columns).skip(rows.start);
        let places = out.chunks_exact_mut(self.columns);
        for ((row, codes), places) in rows.zip(codes).zip(places) {
            let scale = self.scales.get(row);
            for (&code, place) in codes.iter().zip(places) {
                *place = f32::from(code as i8) * scale * FACTOR;
            }
        }
    }

    fn codes(&self) -> Option<Codes<'_>> {
        Some(Codes::Integers {
            bytes: self.codes,
            scales: BlockScales::plain(self.scales),
            factor: FACTOR,
        })
    }
}
