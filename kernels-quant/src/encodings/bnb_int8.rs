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

use half::f16;

use crate::config::Fields;
use crate::encoding::{Declared, DecodeRows};
use crate::finite::refuse_rounded;
use crate::parts::Parts;
use crate::views::Floats;
use crate::{Codes, ConfigError, Dtype, Encoding, Number, PartSpec, QuantError, RowGroups};

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

impl BnbInt8 {
    /// Returns the parts of a weight `[rows, columns]`: its codes, its scales, and the order of its rows, a byte 0.
    pub fn parts(shape: [usize; 2]) -> [PartSpec; 3] {
        let part = |name, dtype, shape: &[usize]| PartSpec {
            name,
            dtype,
            shape: shape.into(),
        };
        [
            part("weight", Dtype::I8, &shape),
            part("SCB", Dtype::F32, &shape[..1]),
            part(FORMAT, Dtype::U8, &[]),
        ]
    }

    /// Encodes a row as bitsandbytes does, which rounds it to half precision first. Returns its scale, the size of its
    /// largest number.
    ///
    /// # Errors
    ///
    /// Returns [`QuantError::Number`] if a number is NaN, or infinite in half precision.
    ///
    /// # Panics
    ///
    /// Panics if the row has another length than `codes`.
    pub fn encode_row(numbers: &[f32], codes: &mut [u8]) -> Result<f32, QuantError> {
        assert_eq!(numbers.len(), codes.len(), "a code for each number");
        let halves: Vec<f32> = numbers.iter().map(|&x| f16::from_f32(x).to_f32()).collect();
        refuse_rounded(&Self, numbers, &halves)?;
        let scale = halves.iter().fold(0.0, |most: f32, x| most.max(x.abs()));
        // As torch divides a number by a tensor, with two roundings. A row of zeros has NaN here, whose code is 0.
        let factor = (1.0 / scale) * 127.0;
        for (x, code) in halves.iter().zip(codes) {
            *code = (x * factor).round_ties_even() as i8 as u8;
        }
        Ok(scale)
    }
}

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
        Some(Codes::Grouped {
            number: Number::Int8,
            bytes: self.codes,
            stride: self.columns,
            width: self.columns,
            groups: self,
            factor: FACTOR,
        })
    }
}

impl RowGroups for Rows<'_> {
    fn get(&self, row: usize, _: usize) -> [f32; 2] {
        [self.scales.get(row), 0.0]
    }
}
