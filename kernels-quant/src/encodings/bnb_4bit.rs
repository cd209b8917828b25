//! NF4 and FP4 of bitsandbytes: codes of 4 bits, whose meaning is a table, with a scale for each block.
//!
//! The matrix is one sequence, the high half of a byte first. Blocks run across rows, and the last may be partial. Element
//! `i` is `table[q[i]] · absmax[i / blocksize]`. With double quantisation, `absmax` is itself in 8 bits:
//! `absmax[b] = nested_quant_map[a[b]] · nested_absmax[b / nested_blocksize] + nested_offset`.
//!
//! | part | type | shape |
//! |---|---|---|
//! | `weight` | bytes, under any of several types | `⌈elements / 2⌉` bytes |
//! | `weight.absmax` | f32, or u8 if nested | `[blocks]` |
//! | `weight.quant_map` | f32 | `[16]` |
//! | `weight.nested_absmax`, if nested | f32 | `[⌈blocks / nested_blocksize⌉]` |
//! | `weight.nested_quant_map`, if nested | f32 | `[256]` |
//! | `weight.quant_state.bitsandbytes__nf4`, or `…fp4` | u8 | text: sizes of blocks, shape, offset |

pub mod nf4;

use std::fmt;
use std::ops::Range;

use serde::Deserialize;

use crate::config::Fields;
use crate::encoding::{Declared, DecodeRows};
use crate::parts::Parts;
use crate::{BlockScales, Codes, ConfigError, Dtype, Encoding, QuantError};

/// A table of bitsandbytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Bnb4Bit {
    /// Quantiles of a normal distribution (Dettmers et al., 2023: QLoRA).
    Nf4,
    /// Floats with a sign, two bits of exponent and one of fraction, over 12.
    Fp4,
}

pub(crate) const NF4: [f32; 16] = [
    -1.0,
    -0.696_192_8,
    -0.525_073_05,
    -0.394_917_5,
    -0.284_441_38,
    -0.184_773_43,
    -0.091_050_036,
    0.0,
    0.079_580_3,
    0.160_930_2,
    0.246_112_3,
    0.337_915_24,
    0.440_709_83,
    0.562_617,
    0.722_956_84,
    1.0,
];

/// As in the package's kernel, one zero is negative. Files, and the package where rows have an odd number of elements, have
/// another sign there.
const FP4: [f32; 16] = [
    0.0,
    0.062_5 / 12.0,
    8.0 / 12.0,
    1.0,
    4.0 / 12.0,
    0.5,
    2.0 / 12.0,
    0.25,
    -0.0,
    -0.062_5 / 12.0,
    -8.0 / 12.0,
    -1.0,
    -4.0 / 12.0,
    -0.5,
    -2.0 / 12.0,
    -0.25,
];

pub(crate) const OF_NF4: &str = "weight.quant_state.bitsandbytes__nf4";
const OF_FP4: &str = "weight.quant_state.bitsandbytes__fp4";
pub(crate) const WEIGHT: &str = "weight";
pub(crate) const ABSMAX: &str = "weight.absmax";
pub(crate) const QUANT_MAP: &str = "weight.quant_map";
pub(crate) const NESTED_ABSMAX: &str = "weight.nested_absmax";
pub(crate) const NESTED_QUANT_MAP: &str = "weight.nested_quant_map";

/// The most bytes of settings that are read.
const MOST_TEXT: usize = 1 << 16;

/// The settings of a weight. Others, such as its dtype before, do not matter.
#[derive(Debug, Deserialize)]
struct State {
    quant_type: String,
    blocksize: usize,
    shape: Vec<usize>,
    nested_blocksize: Option<usize>,
    nested_offset: Option<f64>,
}

impl Bnb4Bit {
    fn name(self) -> &'static str {
        match self {
            Self::Nf4 => "nf4",
            Self::Fp4 => "fp4",
        }
    }

    fn table(self) -> &'static [f32; 16] {
        match self {
            Self::Nf4 => &NF4,
            Self::Fp4 => &FP4,
        }
    }

    /// Reads the settings.
    fn state(self, shape: [usize; 2], parts: &mut Parts<'_>) -> Result<State, QuantError> {
        let name = self.part_names()[0];
        let wrong = |problem: String| QuantError::content(name, problem);
        let (_, text) = parts.take_any(name, &[Dtype::U8])?;
        if text.len() > MOST_TEXT {
            let problem = format!(
                "{} bytes of settings; at most {MOST_TEXT} are read",
                text.len()
            );
            return Err(wrong(problem));
        }
        let state: State =
            serde_json::from_slice(text).map_err(|error| wrong(error.to_string()))?;
        if state.quant_type != self.name() {
            let problem = format!(
                "`quant_type` is {:?}, not {}",
                state.quant_type,
                self.name()
            );
            return Err(wrong(problem));
        }
        if state.shape != shape {
            let problem = format!("`shape` is {:?}, and the weight's {shape:?}", state.shape);
            return Err(wrong(problem));
        }
        if state.blocksize == 0 || state.nested_blocksize == Some(0) {
            return Err(wrong("a block has at least one element".into()));
        }
        // Scales are computed in f32.
        let offset = state.nested_offset.unwrap_or(0.0);
        if !(offset as f32).is_finite() {
            let problem =
                format!("`nested_offset` is {offset}, which is outside of the range of f32");
            return Err(wrong(problem));
        }
        Ok(state)
    }

    /// Takes the table. bitsandbytes decodes by its own, whatever a file says, so that another is an error.
    fn check_table(self, parts: &mut Parts<'_>) -> Result<(), QuantError> {
        let stored = parts.singles(QUANT_MAP, &[16])?;
        let mut table = self.table().iter().enumerate();
        match table.find(|&(at, &number)| stored.get(at) != number) {
            None => Ok(()),
            Some((at, number)) => Err(QuantError::content(
                QUANT_MAP,
                format!(
                    "number {at} of {} is {number}, not {}",
                    self.name(),
                    stored.get(at)
                ),
            )),
        }
    }
}

impl fmt::Display for Bnb4Bit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "bitsandbytes {}", self.name())
    }
}

impl Declared for Bnb4Bit {
    fn part_names(&self) -> &'static [&'static str] {
        match self {
            Self::Nf4 => &[
                OF_NF4,
                WEIGHT,
                ABSMAX,
                QUANT_MAP,
                NESTED_ABSMAX,
                NESTED_QUANT_MAP,
            ],
            Self::Fp4 => &[
                OF_FP4,
                WEIGHT,
                ABSMAX,
                QUANT_MAP,
                NESTED_ABSMAX,
                NESTED_QUANT_MAP,
            ],
        }
    }

    fn codes(&self) -> &'static str {
        WEIGHT
    }

    fn decoder<'a>(
        &self,
        shape: [usize; 2],
        parts: &mut Parts<'a>,
    ) -> Result<Box<dyn DecodeRows + 'a>, QuantError> {
        let state = self.state(shape, parts)?;
        self.check_table(parts)?;
        let elements = shape[0] * shape[1];
        let blocks = elements.div_ceil(state.blocksize);

        // `bnb_4bit_quant_storage` is the type under which the bytes are stored.
        let storages = [Dtype::U8, Dtype::BF16, Dtype::F16, Dtype::F32];
        let length = parts.length(WEIGHT);
        let (_, codes) = parts.take_any(WEIGHT, &storages)?;
        if length != elements.div_ceil(2) {
            let problem = format!(
                "{length} bytes; {elements} elements of 4 bits have {}",
                elements.div_ceil(2)
            );
            return Err(QuantError::content(WEIGHT, problem));
        }
        let absmax = match (state.nested_blocksize, state.nested_offset) {
            (Some(size), Some(offset)) => BlockScales::nested(
                parts.bytes(ABSMAX, Dtype::U8, &[blocks])?,
                parts.singles(NESTED_QUANT_MAP, &[256])?,
                parts.singles(NESTED_ABSMAX, &[blocks.div_ceil(size)])?,
                size,
                offset as f32,
            ),
            (None, None) => BlockScales::plain(parts.singles(ABSMAX, &[blocks])?),
            _ => {
                let problem = "one of `nested_blocksize` and `nested_offset` is missing";
                return Err(QuantError::content(NESTED_ABSMAX, problem));
            }
        };
        Ok(Box::new(Rows {
            table: self.table(),
            columns: shape[1],
            codes,
            blocksize: state.blocksize,
            absmax,
        }))
    }
}

pub(crate) fn of_config(fields: Fields<'_>) -> Result<Encoding, ConfigError> {
    if !fields.flag("load_in_4bit")? {
        return Err(fields.error("load_in_4bit", "neither this nor `load_in_8bit` is true"));
    }
    Ok(
        match fields.one_of("bnb_4bit_quant_type", &["fp4", "nf4"])? {
            "nf4" => Bnb4Bit::Nf4.into(),
            _ => Bnb4Bit::Fp4.into(),
        },
    )
}

#[derive(Debug)]
struct Rows<'a> {
    table: &'static [f32; 16],
    columns: usize,
    codes: &'a [u8],
    blocksize: usize,
    absmax: BlockScales<'a>,
}

impl DecodeRows for Rows<'_> {
    fn decode(&self, rows: Range<usize>, out: &mut [f32]) {
        let (mut at, end) = (rows.start * self.columns, rows.end * self.columns);
        let mut out = out.iter_mut();
        while at < end {
            let block = at / self.blocksize;
            let scale = self.absmax.get(block);
            let next = end.min((block + 1).saturating_mul(self.blocksize));
            for (at, place) in (at..next).zip(&mut out) {
                let byte = self.codes[at / 2];
                let code = if at % 2 == 0 { byte >> 4 } else { byte & 0xf };
                *place = self.table[usize::from(code)] * scale;
            }
            at = next;
        }
    }

    fn codes(&self) -> Option<Codes<'_>> {
        Some(Codes::Table {
            table: self.table,
            bytes: self.codes,
            low_first: false,
            block: self.blocksize,
            scales: self.absmax,
        })
    }
}
