//! Floats of 8 bits with a scale for each rectangle, 128 × 128 in the published DeepSeek-V3.
//!
//! An element is `q · weight_scale_inv` of its rectangle: in spite of the name, a factor. Rectangles at the edges are
//! smaller.
//!
//! | part | type | shape |
//! |---|---|---|
//! | `weight` | e4m3 | `[rows, columns]` |
//! | `weight_scale_inv` | f16, bf16 or f32 | `[⌈rows / height⌉, ⌈columns / width⌉]` |

use std::fmt;

use super::unpacked::{Bytes, Code};
use crate::config::{Fields, inputs_stay};
use crate::encoding::{Declared, DecodeRows};
use crate::parts::Parts;
use crate::scales::Scales;
use crate::{ConfigError, Dtype, Encoding, QuantError};

/// FP8 with a scale for each rectangle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fp8Blocks {
    /// The numbers of rows and columns of a rectangle: `weight_block_size`.
    pub block: [usize; 2],
}

impl fmt::Display for Fp8Blocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "fp8, {}", Scales::Blocks(self.block))
    }
}

pub(crate) fn of_config(
    fields: Fields<'_>,
    remarks: &mut Vec<String>,
) -> Result<Encoding, ConfigError> {
    fields.one_of("fmt", &["e4m3"])?;
    if let Some(scheme) = fields.value("activation_scheme") {
        remarks.push(inputs_stay(format_args!("`activation_scheme` {scheme}")));
    }
    let block = fields.rectangle("weight_block_size")?;
    Ok(Fp8Blocks { block }.into())
}

impl Declared for Fp8Blocks {
    fn part_names(&self) -> &'static [&'static str] {
        &["weight_scale_inv", "weight"]
    }

    fn codes(&self) -> &'static str {
        "weight"
    }

    fn decoder<'a>(
        &self,
        shape: [usize; 2],
        parts: &mut Parts<'a>,
    ) -> Result<Box<dyn DecodeRows + 'a>, QuantError> {
        let grid = Scales::Blocks(self.block).grid(shape, self)?;
        Ok(Box::new(Bytes {
            code: Code::E4M3,
            columns: shape[1],
            codes: parts.bytes("weight", Dtype::F8E4M3, &shape)?,
            grid,
            scales: parts.floats("weight_scale_inv", &[grid.down, grid.across])?,
            zeros: None,
        }))
    }
}
