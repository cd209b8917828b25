//! AWQ, version `gemm`: integers of 4 bits packed along the rows of the transposed matrix, with scales and zeros for
//! groups of columns.
//!
//! Element `[row, column]` is `scales[g, row] · (q − z[g, row])`, with `g = column / group`. The eight integers of a word
//! are rows 0, 2, 4, 6, 1, 3, 5 and 7 of eight, from the lowest bits on.
//!
//! | part | type | shape |
//! |---|---|---|
//! | `qweight` | i32 | `[columns, rows / 8]` |
//! | `qzeros` | i32 | `[groups, rows / 8]` |
//! | `scales` | f16, bf16 or f32 | `[groups, rows]` |

use std::fmt;
use std::ops::Range;

use crate::config::Fields;
use crate::encoding::{Declared, DecodeRows};
use crate::parts::Parts;
use crate::scales::Scales;
use crate::views::{Floats, Words};
use crate::{AWQ_PLACES, Codes, ColumnGroups, ConfigError, Encoding, QuantError, WordOrder};

/// AWQ of 4 bits, version `gemm`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Awq {
    /// The number of columns of a group. `None` is one group, `group_size` −1.
    pub group: Option<usize>,
}

/// The number of integers of a word.
const IN_WORD: usize = AWQ_PLACES.len();

impl fmt::Display for Awq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("awq")?;
        match self.group {
            Some(group) => write!(f, " in groups of {group}"),
            None => Ok(()),
        }
    }
}

impl Declared for Awq {
    fn part_names(&self) -> &'static [&'static str] {
        &["qweight", "qzeros", "scales"]
    }

    fn codes(&self) -> &'static str {
        "qweight"
    }

    fn decoder<'a>(
        &self,
        shape: [usize; 2],
        parts: &mut Parts<'a>,
    ) -> Result<Box<dyn DecodeRows + 'a>, QuantError> {
        let [rows, columns] = shape;
        let group = self.group.unwrap_or(columns);
        let groups = Scales::Groups(group).grid(shape, self)?.across;
        if !rows.is_multiple_of(IN_WORD) {
            return Err(self.bad_shape(shape, format!("words hold {IN_WORD} rows")));
        }
        Ok(Box::new(Rows {
            rows,
            columns,
            group,
            codes: parts.words("qweight", &[columns, rows / IN_WORD])?,
            zeros: parts.words("qzeros", &[groups, rows / IN_WORD])?,
            scales: parts.floats("scales", &[groups, rows])?,
        }))
    }
}

pub(crate) fn of_config(fields: Fields<'_>) -> Result<Encoding, ConfigError> {
    let bits = fields.bits("bits")?;
    if bits != 4 {
        return Err(fields.error("bits", format!("{bits} is not supported; supported: 4")));
    }
    if fields.value("zero_point").is_some() && !fields.flag("zero_point")? {
        return Err(fields.error("zero_point", "weights without zeros are not supported"));
    }
    fields.one_of("version", &["gemm"])?;
    let group = fields.group("group_size")?;
    Ok(Awq { group }.into())
}

#[derive(Debug)]
struct Rows<'a> {
    rows: usize,
    columns: usize,
    group: usize,
    codes: Words<'a>,
    zeros: Words<'a>,
    scales: Floats<'a>,
}

impl Rows<'_> {
    fn integer(&self, words: Words<'_>, line: usize, row: usize) -> f32 {
        let word = words.get(line * (self.rows / IN_WORD) + row / IN_WORD);
        (word >> (4 * AWQ_PLACES[row % IN_WORD]) & 0xf) as f32
    }

    fn scale_and_zero(&self, row: usize, group: usize) -> [f32; 2] {
        let scale = self.scales.get(group * self.rows + row);
        [scale, self.integer(self.zeros, group, row)]
    }
}

impl DecodeRows for Rows<'_> {
    fn decode(&self, rows: Range<usize>, out: &mut [f32]) {
        for (row, places) in rows.zip(out.chunks_exact_mut(self.columns)) {
            for (group, places) in places.chunks_exact_mut(self.group).enumerate() {
                let [scale, zero] = self.scale_and_zero(row, group);
                for (column, place) in (group * self.group..).zip(places) {
                    *place = (self.integer(self.codes, column, row) - zero) * scale;
                }
            }
        }
    }

    fn codes(&self) -> Option<Codes<'_>> {
        Some(Codes::Columns {
            words: WordOrder::OfRows,
            groups: self,
        })
    }
}

impl ColumnGroups for Rows<'_> {
    fn line(&self, at: usize) -> &[[u8; 4]] {
        self.codes.line(at, self.rows / IN_WORD)
    }

    fn count(&self) -> usize {
        self.columns / self.group
    }

    fn of(&self, column: usize) -> (usize, usize) {
        let group = column / self.group;
        (group, (group + 1) * self.group)
    }

    fn get(&self, first: usize, group: usize, scales: &mut [f32], zeros: &mut [f32]) {
        for (row, (scale, zero)) in (first..).zip(scales.iter_mut().zip(zeros)) {
            [*scale, *zero] = self.scale_and_zero(row, group);
        }
    }
}
