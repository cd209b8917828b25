//! GPTQ: integers packed down the columns of the transposed matrix, with scales and zeros for groups of columns.
//!
//! Element `[row, column]` is `scales[g, row] · (q − z[g, row])`, with `g = g_idx[column]`, or `column / group` without
//! `g_idx`. With `desc_act`, groups are not consecutive.
//!
//! | part | type | shape |
//! |---|---|---|
//! | `qweight` | i32 | `[columns · bits / 32, rows]` |
//! | `qzeros` | i32 | `[groups, rows · bits / 32]` |
//! | `scales` | f16, bf16 or f32 | `[groups, rows]` |
//! | `g_idx`, optional without `desc_act` | i32 | `[columns]` |

use std::fmt;
use std::ops::Range;

use crate::config::Fields;
use crate::encoding::{Declared, DecodeRows};
use crate::parts::Parts;
use crate::views::{Floats, Words};
use crate::{Codes, ColumnGroups, ConfigError, Encoding, QuantError, WordOrder, bits};

/// GPTQ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Gptq {
    /// The bits of an integer: 2, 4 or 8.
    pub bits: u32,
    /// The number of columns of a group, of which the last may have fewer. `None` is one group, `group_size` −1.
    pub group: Option<usize>,
    /// The meaning of zeros.
    pub version: GptqVersion,
    /// True if columns are in groups of any order, so that `g_idx` must be there.
    pub desc_act: bool,
}

/// The `checkpoint_format` of GPTQ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GptqVersion {
    /// `gptq`: zeros are stored less one. As gptqmodel does, the ones are added to a whole word, so that a zero that was
    /// stored as the largest integer carries into the next.
    V1,
    /// `gptq_v2`: zeros are stored as they are.
    V2,
}

impl fmt::Display for Gptq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let version = match self.version {
            GptqVersion::V1 => "gptq",
            GptqVersion::V2 => "gptq_v2",
        };
        write!(f, "{version} of {} bits", self.bits)?;
        match self.group {
            Some(group) => write!(f, " in groups of {group}"),
            None => Ok(()),
        }
    }
}

const G_IDX: &str = "g_idx";

/// The numbers of bits whose integers don't cross words.
const BITS: [u32; 3] = [2, 4, 8];

impl Declared for Gptq {
    fn part_names(&self) -> &'static [&'static str] {
        &["qweight", "qzeros", "scales", G_IDX]
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
        if !BITS.contains(&self.bits) {
            return Err(self.bad_setting("supported: 2, 4 and 8 bits"));
        }
        let group = self.group.unwrap_or(columns);
        if group == 0 {
            return Err(self.bad_setting("a group has at least one column"));
        }
        let in_word = (32 / self.bits) as usize;
        if !rows.is_multiple_of(in_word) || !columns.is_multiple_of(in_word) {
            let problem = format!("words hold {in_word} integers, of rows and of columns");
            return Err(self.bad_shape(shape, problem));
        }
        let groups = columns.div_ceil(group);
        let group_of = match self.desc_act || parts.has(G_IDX) {
            true => Groups::Listed(group_list(parts.words(G_IDX, &[columns])?, groups)?),
            false => Groups::Consecutive(group),
        };
        Ok(Box::new(Rows {
            bits: self.bits,
            rows,
            columns,
            groups,
            codes: parts.words("qweight", &[columns / in_word, rows])?,
            zeros: parts.words("qzeros", &[groups, rows / in_word])?,
            add_to_zeros: match self.version {
                // One for each integer of the word.
                GptqVersion::V1 => u32::MAX / ((1 << self.bits) - 1),
                GptqVersion::V2 => 0,
            },
            scales: parts.floats("scales", &[groups, rows])?,
            group_of,
        }))
    }
}

pub(crate) fn of_config(fields: Fields<'_>) -> Result<Encoding, ConfigError> {
    fields.one_of("pack_dtype", &["int32"])?;
    fields.refuse("is_marlin_format", "is another order of integers")?;
    // Patterns that begin with `-` are of layers that are floats.
    let dynamic = fields.object("dynamic")?.into_iter().flatten();
    if let Some((pattern, _)) = dynamic
        .into_iter()
        .find(|(pattern, _)| !pattern.starts_with('-'))
    {
        let problem = format!("{pattern:?} has settings of its own, which is not supported");
        return Err(fields.error("dynamic", problem));
    }
    // gptqmodel has both names.
    let field = match fields.value("checkpoint_format") {
        Some(_) => "checkpoint_format",
        None => "format",
    };
    let gptq = Gptq {
        bits: fields.bits("bits")?,
        group: fields.group("group_size")?,
        version: match fields.one_of(field, &["gptq", "gptq_v2"])? {
            "gptq" => GptqVersion::V1,
            _ => GptqVersion::V2,
        },
        desc_act: fields.flag("desc_act")?,
    };
    let bits = gptq.bits;
    match BITS.contains(&bits) {
        true => Ok(gptq.into()),
        false => {
            let problem = format!("{bits} is not supported; supported: 2, 4 and 8");
            Err(fields.error("bits", problem))
        }
    }
}

/// Checks the groups of columns.
fn group_list(stored: Words<'_>, groups: usize) -> Result<Words<'_>, QuantError> {
    let inside = |&(_, group): &(usize, i32)| usize::try_from(group).is_ok_and(|at| at < groups);
    match stored.signed().enumerate().find(|entry| !inside(entry)) {
        None => Ok(stored),
        Some((column, group)) => Err(QuantError::content(
            G_IDX,
            format!("column {column} is in group {group}, and there are {groups}"),
        )),
    }
}

/// The groups of columns.
#[derive(Debug)]
enum Groups<'a> {
    Listed(Words<'a>),
    Consecutive(usize),
}

impl Groups<'_> {
    fn of(&self, column: usize) -> usize {
        match self {
            Self::Listed(groups) => groups.get(column) as usize,
            Self::Consecutive(size) => column / size,
        }
    }
}

#[derive(Debug)]
struct Rows<'a> {
    bits: u32,
    rows: usize,
    columns: usize,
    groups: usize,
    codes: Words<'a>,
    zeros: Words<'a>,
    add_to_zeros: u32,
    scales: Floats<'a>,
    group_of: Groups<'a>,
}

impl Rows<'_> {
    fn zero(&self, group: usize, row: usize) -> u32 {
        let start = group * bits::words(self.rows, self.bits);
        let word = |at| self.zeros.get(start + at).wrapping_add(self.add_to_zeros);
        bits::integer(word, row, self.bits)
    }

    fn scale_and_zero(&self, row: usize, group: usize) -> [f32; 2] {
        let scale = self.scales.get(group * self.rows + row);
        [scale, self.zero(group, row) as f32]
    }
}

impl DecodeRows for Rows<'_> {
    fn decode(&self, rows: Range<usize>, out: &mut [f32]) {
        for (row, places) in rows.zip(out.chunks_exact_mut(self.columns)) {
            let word = |at: usize| self.codes.get(at * self.rows + row);
            // The scale and zero of the column before, which most columns share.
            let mut last = (usize::MAX, [0.0; 2]);
            let codes = bits::integers(word, self.columns, self.bits);
            for (column, (code, place)) in codes.zip(places).enumerate() {
                let group = self.group_of.of(column);
                if group != last.0 {
                    last = (group, self.scale_and_zero(row, group));
                }
                let (_, [scale, zero]) = last;
                *place = (code as f32 - zero) * scale;
            }
        }
    }

    fn codes(&self) -> Option<Codes<'_>> {
        Some(Codes::Columns {
            words: WordOrder::OfColumns { bits: self.bits },
            groups: self,
        })
    }
}

impl ColumnGroups for Rows<'_> {
    fn line(&self, at: usize) -> &[[u8; 4]] {
        self.codes.line(at, self.rows)
    }

    fn count(&self) -> usize {
        self.groups
    }

    fn of(&self, column: usize) -> (usize, usize) {
        let group = self.group_of.of(column);
        let end = match self.group_of {
            Groups::Listed(_) => column + 1,
            Groups::Consecutive(size) => ((group + 1) * size).min(self.columns),
        };
        (group, end)
    }

    fn get(&self, first: usize, group: usize, scales: &mut [f32], zeros: &mut [f32]) {
        for (row, (scale, zero)) in (first..).zip(scales.iter_mut().zip(zeros)) {
            [*scale, *zero] = self.scale_and_zero(row, group);
        }
    }
}
