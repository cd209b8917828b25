//! `int-quantized` and `float-quantized` of compressed-tensors: one byte for each element, with scales.
//!
//! An element is `q · scale`, or `(q − z) · scale` with zeros, which only integers have.
//!
//! | part | type | shape |
//! |---|---|---|
//! | `weight` | i8 or e4m3 | `[rows, columns]` |
//! | `weight_scale` | f16, bf16 or f32 | see [`Scales`] |
//! | `weight_zero_point`, optional if symmetric | i8 | that of the scales |

use std::fmt;
use std::ops::Range;

use crate::encoding::{Declared, DecodeRows};
use crate::parts::Parts;
use crate::scales::{Grid, Scales};
use crate::views::Floats;
use crate::{Codes, Dtype, Number, QuantError, RowGroups, numbers};

/// `int-quantized` and `float-quantized` of compressed-tensors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Unpacked {
    /// The meaning of a byte.
    pub code: Code,
    /// The elements that share a scale.
    pub scales: Scales,
    /// True if zeros may be absent, and false if they must be there. Floats have none.
    pub symmetric: bool,
}

/// The meaning of a byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Code {
    /// An integer from −128 to 127.
    Int8,
    /// A float, as [`numbers::e4m3`] returns it.
    E4M3,
}

impl Code {
    fn dtype(self) -> Dtype {
        match self {
            Self::Int8 => Dtype::I8,
            Self::E4M3 => Dtype::F8E4M3,
        }
    }

    fn number(self, byte: u8) -> f32 {
        match self {
            Self::Int8 => f32::from(byte as i8),
            Self::E4M3 => numbers::e4m3(byte),
        }
    }
}

impl fmt::Display for Unpacked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.code {
            Code::Int8 => "int-quantized",
            Code::E4M3 => "float-quantized",
        };
        write!(f, "{name}, {}", self.scales)
    }
}

const ZEROS: &str = "weight_zero_point";

impl Declared for Unpacked {
    fn part_names(&self) -> &'static [&'static str] {
        &["weight_scale", "weight", ZEROS]
    }

    fn codes(&self) -> &'static str {
        "weight"
    }

    fn decoder<'a>(
        &self,
        shape: [usize; 2],
        parts: &mut Parts<'a>,
    ) -> Result<Box<dyn DecodeRows + 'a>, QuantError> {
        if self.code == Code::E4M3 && !self.symmetric {
            return Err(self.bad_setting("floats have no zeros"));
        }
        let grid = self.scales.grid(shape, self)?;
        let of_scales = parts.shape("weight_scale").unwrap_or(&[]);
        Ok(Box::new(Bytes {
            code: self.code,
            columns: shape[1],
            codes: parts.bytes("weight", self.code.dtype(), &shape)?,
            grid,
            scales: grid.take("weight_scale", parts)?,
            zeros: match !self.symmetric || parts.has(ZEROS) && self.code == Code::Int8 {
                true => Some(parts.bytes(ZEROS, Dtype::I8, of_scales)?),
                false => None,
            },
        }))
    }
}

/// Bytes with scales for rectangles.
#[derive(Debug)]
pub(super) struct Bytes<'a> {
    pub(super) code: Code,
    pub(super) columns: usize,
    pub(super) codes: &'a [u8],
    pub(super) grid: Grid,
    pub(super) scales: Floats<'a>,
    pub(super) zeros: Option<&'a [u8]>,
}

impl DecodeRows for Bytes<'_> {
    fn decode(&self, rows: Range<usize>, out: &mut [f32]) {
        let codes = self.codes.chunks_exact(self.columns).skip(rows.start);
        let places = out.chunks_exact_mut(self.columns);
        for ((row, codes), places) in rows.zip(codes).zip(places) {
            let groups = codes.chunks(self.grid.width());
            let groups = groups.zip(places.chunks_mut(self.grid.width()));
            for (group, (codes, places)) in groups.enumerate() {
                let [scale, zero] = self.get(row, group);
                for (&code, place) in codes.iter().zip(places) {
                    *place = (self.code.number(code) - zero) * scale;
                }
            }
        }
    }

    fn codes(&self) -> Option<Codes<'_>> {
        Some(Codes::Grouped {
            number: match self.code {
                Code::Int8 => Number::Int8,
                Code::E4M3 => Number::E4M3,
            },
            bytes: self.codes,
            stride: self.columns,
            width: self.grid.width(),
            groups: self,
            factor: 1.0,
        })
    }
}

impl RowGroups for Bytes<'_> {
    fn get(&self, row: usize, group: usize) -> [f32; 2] {
        let at = self.grid.start(row) + group;
        let zero = self.zeros.map_or(0.0, |zeros| f32::from(zeros[at] as i8));
        [self.scales.get(at), zero]
    }
}
