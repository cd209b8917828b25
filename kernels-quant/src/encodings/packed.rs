//! `pack-quantized` of compressed-tensors: integers packed along rows, with scales and, if asymmetric, zeros.
//!
//! Stored integers, zeros too, are the values plus `2^(bits − 1)`. An element is `(q − z) · scale`.
//!
//! | part | type | shape |
//! |---|---|---|
//! | `weight_packed` | i32 | `[rows, ⌈columns · bits / 32⌉]` |
//! | `weight_scale` | f16, bf16 or f32 | see [`Scales`] |
//! | `weight_shape` | i64 | `[2]`: the shape of the weight |
//! | `weight_zero_point`, optional if symmetric | i32 | `[⌈rows · bits / 32⌉, groups]`, packed down columns |
//! | `weight_g_idx`, optional if in order | i32 | `[columns]`: the group of each column; −1 everywhere is the usual order |

use std::fmt;
use std::ops::Range;

use crate::encoding::{Declared, DecodeRows};
use crate::parts::Parts;
use crate::scales::{Grid, Scales};
use crate::views::{Floats, Words};
use crate::{Codes, Dtype, Number, QuantError, RowGroups, bits};

/// `pack-quantized` of compressed-tensors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Packed {
    /// The bits of an integer: 1 to 8.
    pub bits: u32,
    /// The elements that share a scale.
    pub scales: Scales,
    /// True if zeros may be absent, and false if they must be there.
    pub symmetric: bool,
    /// True if columns are in groups of any order, so that `weight_g_idx` must be there.
    pub reordered: bool,
}

impl fmt::Display for Packed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pack-quantized of {} bits, {}", self.bits, self.scales)
    }
}

const SHAPE: &str = "weight_shape";
const ZEROS: &str = "weight_zero_point";
const G_IDX: &str = "weight_g_idx";

impl Declared for Packed {
    fn part_names(&self) -> &'static [&'static str] {
        &["weight_packed", "weight_scale", SHAPE, ZEROS, G_IDX]
    }

    fn codes(&self) -> &'static str {
        "weight_packed"
    }

    fn decoder<'a>(
        &self,
        shape: [usize; 2],
        parts: &mut Parts<'a>,
    ) -> Result<Box<dyn DecodeRows + 'a>, QuantError> {
        let [rows, columns] = shape;
        if !(1..=8).contains(&self.bits) {
            return Err(self.bad_setting("supported: 1 to 8 bits"));
        }
        if matches!(self.scales, Scales::Blocks(_)) {
            return Err(self.bad_setting("integers in words have no blocks of several rows"));
        }
        let grid = self.scales.grid(shape, self)?;
        check_shape(shape, parts.bytes(SHAPE, Dtype::I64, &[2])?)?;
        if self.scales == Scales::Tensor && !self.symmetric {
            return Err(self.bad_setting("one scale for all elements has no zeros in words"));
        }
        if self.reordered && !matches!(self.scales, Scales::Groups(_)) {
            return Err(self.bad_setting("only groups of columns have an order"));
        }
        let has_zeros = !self.symmetric || parts.has(ZEROS) && self.scales != Scales::Tensor;
        let has_groups =
            self.reordered || parts.has(G_IDX) && matches!(self.scales, Scales::Groups(_));
        Ok(Box::new(Rows {
            bits: self.bits,
            columns,
            grid,
            codes: parts.words("weight_packed", &[rows, bits::words(columns, self.bits)])?,
            scales: grid.take("weight_scale", parts)?,
            zeros: match has_zeros {
                true => Some(parts.words(ZEROS, &[bits::words(rows, self.bits), grid.across])?),
                false => None,
            },
            groups: match has_groups {
                true => group_list(parts.words(G_IDX, &[columns])?, grid)?,
                false => None,
            },
        }))
    }
}

fn check_shape(shape: [usize; 2], stored: &[u8]) -> Result<(), QuantError> {
    let stored: Vec<i64> = stored
        .as_chunks()
        .0
        .iter()
        .map(|&side| i64::from_le_bytes(side))
        .collect();
    let fits = stored
        .iter()
        .zip(shape)
        .all(|(&stored, side)| usize::try_from(stored) == Ok(side));
    match fits {
        true => Ok(()),
        false => {
            let problem = format!("says {stored:?}, and the weight's shape is {shape:?}");
            Err(QuantError::content(SHAPE, problem))
        }
    }
}

/// Checks the groups of columns, all of which have the same size. Returns `None` for the usual order.
fn group_list(stored: Words<'_>, grid: Grid) -> Result<Option<Words<'_>>, QuantError> {
    if stored.signed().all(|group| group == -1) {
        return Ok(None);
    }
    let mut sizes = vec![0_usize; grid.across];
    for (column, group) in stored.signed().enumerate() {
        let size = usize::try_from(group)
            .ok()
            .and_then(|group| sizes.get_mut(group));
        let Some(size) = size else {
            let groups = grid.across;
            let problem = format!("column {column} is in group {group}, and there are {groups}");
            return Err(QuantError::content(G_IDX, problem));
        };
        *size += 1;
    }
    match sizes.iter().position(|&size| size != grid.width()) {
        None => Ok(Some(stored)),
        Some(group) => {
            let (found, expected) = (sizes[group], grid.width());
            let problem = format!("group {group} has {found} columns instead of {expected}");
            Err(QuantError::content(G_IDX, problem))
        }
    }
}

#[derive(Debug)]
struct Rows<'a> {
    bits: u32,
    columns: usize,
    grid: Grid,
    codes: Words<'a>,
    scales: Floats<'a>,
    zeros: Option<Words<'a>>,
    groups: Option<Words<'a>>,
}

impl Rows<'_> {
    /// Returns the integer that is subtracted from stored ones.
    fn zero(&self, row: usize, group: usize) -> i32 {
        match self.zeros {
            Some(zeros) => {
                let word = |at: usize| zeros.get(at * self.grid.across + group);
                bits::integer(word, row, self.bits) as i32
            }
            None => 1 << (self.bits - 1),
        }
    }
}

impl DecodeRows for Rows<'_> {
    fn decode(&self, rows: Range<usize>, out: &mut [f32]) {
        let words = bits::words(self.columns, self.bits);
        for (row, places) in rows.zip(out.chunks_exact_mut(self.columns)) {
            let first = self.grid.start(row);
            let word = |at: usize| self.codes.get(row * words + at);
            // The scale and zero of the column before, which most columns share.
            let mut last = (usize::MAX, 0.0, 0);
            let codes = bits::integers(word, self.columns, self.bits);
            for (column, (code, place)) in codes.zip(places).enumerate() {
                let group = match self.groups {
                    Some(groups) => groups.get(column) as usize,
                    None => column / self.grid.width(),
                };
                if group != last.0 {
                    last = (group, self.scales.get(first + group), self.zero(row, group));
                }
                let (_, scale, zero) = last;
                *place = (code as i32 - zero) as f32 * scale;
            }
        }
    }

    /// Codes that bytes and halves of them hold, in groups in order.
    fn codes(&self) -> Option<Codes<'_>> {
        let number = match self.bits {
            4 => Number::Uint4,
            8 => Number::Uint8,
            _ => return None,
        };
        self.groups.is_none().then(|| Codes::Grouped {
            number,
            bytes: self.codes.bytes(),
            stride: 4 * bits::words(self.columns, self.bits),
            width: self.grid.width(),
            groups: self,
            factor: 1.0,
        })
    }
}

impl RowGroups for Rows<'_> {
    fn get(&self, row: usize, group: usize) -> [f32; 2] {
        let scale = self.scales.get(self.grid.start(row) + group);
        [scale, self.zero(row, group) as f32]
    }
}
