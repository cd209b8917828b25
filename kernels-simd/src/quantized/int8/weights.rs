//! Rows of a weight as integers without a sign, whose groups have a scale and a term.

use super::super::decode::{high, low};
use super::blocks;
use super::quads::{self, Quads, Work};
use kernels_quant::{Codes, Number, QuantizedWeight, RowGroups};

/// The number of elements that are decoded at once, and that of a group.
pub(super) const PIECE: usize = 256;
pub(super) const GROUP: usize = 16;
pub(super) const GROUPS: usize = PIECE / GROUP;

/// A part of a row: an element is `scale · code + term`.
#[derive(Clone, Copy)]
pub(super) struct Piece {
    pub(super) codes: [u8; PIECE],
    pub(super) scales: [f32; GROUPS],
    pub(super) terms: [f32; GROUPS],
}

impl Piece {
    pub(super) const ZERO: Self = Self {
        codes: [0; PIECE],
        scales: [0.0; GROUPS],
        terms: [0.0; GROUPS],
    };
}

/// A weight whose elements are integers with scales.
#[derive(Clone, Copy)]
pub(super) struct Integers<'a> {
    codes: Codes<'a>,
    columns: usize,
}

impl<'a> Integers<'a> {
    /// Returns the integers of a weight, or `None` if its elements are not integers, or not stored row by row in
    /// groups of whole sixteens.
    pub(super) fn of(weight: &'a QuantizedWeight<'_>) -> Option<Self> {
        let [_, columns] = weight.shape();
        let codes = weight.codes()?;
        let fits = match codes {
            Codes::Blocks { .. } => true,
            Codes::Grouped { number, width, .. } => {
                number != Number::E4M3 && (width.is_multiple_of(GROUP) || width >= columns)
            }
            Codes::Table { .. } | Codes::Columns { .. } => false,
        };
        fits.then_some(Self { codes, columns })
    }

    /// Returns the number of pieces of a row.
    pub(super) fn pieces(&self) -> usize {
        self.columns.div_ceil(PIECE)
    }

    /// Decodes a row to its pieces.
    pub(super) fn decode(&self, row: usize, out: &mut [Piece]) {
        let weight = *self;
        quads::run(Row { weight, row, out });
    }

    /// Decodes a piece of a row. Scales and terms of elements that it does not have are zero.
    #[inline(always)]
    fn piece(&self, row: usize, at: usize, out: &mut Piece) {
        let from = at * PIECE;
        let length = PIECE.min(self.columns - from);
        if length < PIECE {
            *out = Piece::ZERO;
        }
        match &self.codes {
            Codes::Blocks { block, bytes } => {
                let first = (row * self.columns + from) / block.elements();
                let bytes = &bytes[first * block.bytes()..];
                let bytes = &bytes[..length / block.elements() * block.bytes()];
                blocks::decode(*block, bytes, out);
            }
            Codes::Grouped {
                number,
                bytes,
                stride,
                width,
                groups,
                factor,
            } => {
                let bytes = &bytes[row * stride..][..*stride];
                unsigned(*number, bytes, (from, length), &mut out.codes);
                let zero = match number {
                    Number::Int8 => 128.0,
                    _ => 0.0,
                };
                let groups = (*groups, *width, *factor);
                of_groups(groups, row, (from, length), zero, out);
            }
            Codes::Table { .. } | Codes::Columns { .. } => unreachable!("refused before"),
        }
    }
}

/// A row of a weight that is decoded. It is work of its own, so that its code is compiled once for a machine.
struct Row<'a, 'o> {
    weight: Integers<'a>,
    row: usize,
    out: &'o mut [Piece],
}

impl Work for Row<'_, '_> {
    #[inline(always)]
    fn run<Q: Quads>(self, _: Q) {
        for (at, out) in self.out.iter_mut().enumerate() {
            self.weight.piece(self.row, at, out);
        }
    }
}

/// Decodes codes in bytes and halves of them.
#[inline(always)]
fn unsigned(number: Number, bytes: &[u8], (from, length): (usize, usize), codes: &mut [u8; PIECE]) {
    match number {
        Number::Uint4 => {
            let bytes = &bytes[from / 2..][..length.div_ceil(2)];
            let (whole, rest) = bytes.as_chunks::<GROUP>();
            let (places, others) = codes
                .as_chunks_mut::<{ 2 * GROUP }>()
                .0
                .split_at_mut(whole.len());
            for (codes, bytes) in places.iter_mut().zip(whole) {
                *codes = neighbours(bytes);
            }
            let mut last = [0; GROUP];
            last[..rest.len()].copy_from_slice(rest);
            if let ([codes, ..], false) = (others, rest.is_empty()) {
                *codes = neighbours(&last);
            }
        }
        _ => {
            let flip = if number == Number::Int8 { 0x80 } else { 0 };
            let bytes = &bytes[from..][..length];
            for (code, byte) in codes.iter_mut().zip(bytes) {
                *code = byte ^ flip;
            }
        }
    }
}

/// Returns the codes of bytes, two of each, the lower half first.
#[inline(always)]
fn neighbours(bytes: &[u8; GROUP]) -> [u8; 2 * GROUP] {
    let (lower, upper) = (low(bytes), high(bytes));
    let mut codes = [0; 2 * GROUP];
    for (i, pair) in codes.as_chunks_mut::<2>().0.iter_mut().enumerate() {
        *pair = [lower[i], upper[i]];
    }
    codes
}

/// Sets scales and terms. `zero` is the offset of the codes.
#[inline(always)]
fn of_groups(
    (groups, width, factor): (&dyn RowGroups, usize, f32),
    row: usize,
    (from, length): (usize, usize),
    zero: f32,
    out: &mut Piece,
) {
    let mut at = 0;
    while at < length {
        let group = (from + at) / width;
        let end = length.min((group + 1) * width - from);
        let [scale, of_group] = groups.get(row, group);
        let scale = scale * factor;
        let places = at / GROUP..end.div_ceil(GROUP);
        out.scales[places.clone()].fill(scale);
        out.terms[places].fill(-(of_group + zero) * scale);
        at = end;
    }
}
