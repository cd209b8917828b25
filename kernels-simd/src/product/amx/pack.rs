//! Operands in tiles.
//!
//! An operand is divided into blocks of 16 rows (or columns, on the right), with an even number of blocks. A block is a
//! list of tiles, each of 32 of its terms. What is missing is zero.

pub(in super::super) mod bf16x3;
mod vectors;

pub(in super::super) use vectors::leave_remainders;

use super::super::Matrix;
use super::super::gemm::{BEYOND, Strides};
use super::super::interleave::Half;
use super::super::transpose::{SQUARE, Turn, with_turn};
use crate::{Element, share};
use bytemuck::{Pod, Zeroable};
use half::bf16;
use std::ops::Range;

/// A tile, line by line. An element is a pair of bf16.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(in super::super) struct Tile([[f32; Tile::LINES]; Tile::LINES]);

// SAFETY: zeros are elements.
unsafe impl Zeroable for Tile {}
// SAFETY: a tile is its elements, 1024 bytes, without padding.
unsafe impl Pod for Tile {}

impl Tile {
    /// The number of lines, and of pairs in a line.
    pub(in super::super) const LINES: usize = SQUARE;
    /// The number of terms of one row.
    pub(in super::super) const TERMS: usize = 2 * Self::LINES;
    /// The number of pairs.
    pub(in super::super) const LEN: usize = Self::LINES * Self::LINES;

    /// Returns the lines, whose elements are pairs.
    pub(super) fn lines(&self) -> &[[f32; Self::LINES]; Self::LINES] {
        &self.0
    }
}

/// Returns the number of tiles of `count` rows or columns of `k` terms.
pub(in super::super) fn tiles_of(count: usize, k: usize) -> usize {
    blocks(count) * k.div_ceil(Tile::TERMS)
}

/// Returns the number of blocks of `count` rows or columns, which is even.
pub(in super::super) fn blocks(count: usize) -> usize {
    count.div_ceil(2 * Tile::LINES) * 2
}

/// Returns the tiles that lie in `memory`.
pub(in super::super) fn aligned(memory: &mut [f32]) -> &mut [Tile] {
    bytemuck::pod_align_to_mut(memory).1
}

/// The operand of a product: in its lines are terms on the left, columns on the right.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Side {
    Left,
    Right,
}

/// `count` rows or columns of `k` terms, at any distances.
#[derive(Clone, Copy)]
pub(in super::super) struct Source<'a, H> {
    pub(in super::super) data: &'a [H],
    pub(in super::super) count: usize,
    pub(in super::super) k: usize,
    pub(in super::super) stride: usize,
    pub(in super::super) k_stride: usize,
}

impl<'a> Source<'a, bf16> {
    /// Returns the features of weights.
    ///
    /// # Panics
    /// Panics if the weights are not bf16.
    pub(in super::super) fn features<T: Element>(weights: Matrix<'a, T>) -> Self {
        Self {
            data: super::super::panel::same(weights.data).expect("tiles are of bf16"),
            count: weights.features,
            k: weights.inputs,
            stride: weights.feature_stride,
            k_stride: weights.input_stride,
        }
    }
}

impl<'a, H: Half> Source<'a, H> {
    /// Returns contiguous rows of `k` terms.
    pub(in super::super) fn rows(data: &'a [H], count: usize, k: usize) -> Self {
        Self {
            data,
            count,
            k,
            stride: k,
            k_stride: 1,
        }
    }

    /// Returns some columns of `k` contiguous rows of `width` elements.
    pub(in super::super) fn columns(
        data: &'a [H],
        k: usize,
        width: usize,
        columns: Range<usize>,
    ) -> Self {
        let all = Self {
            data,
            count: width,
            k,
            stride: 1,
            k_stride: width,
        };
        all.part(columns)
    }

    /// Returns some terms.
    pub(in super::super) fn terms(self, range: Range<usize>) -> Self {
        Self {
            data: &self.data[(range.start * self.k_stride).min(self.data.len())..],
            k: range.len(),
            ..self
        }
    }

    /// # Panics
    /// Panics if the rows or columns reach beyond the data.
    pub(in super::super) fn check(self) {
        let strides = Strides {
            row: self.stride,
            column: self.k_stride,
        };
        let reach = strides.reach(self.count, self.k);
        assert!(reach <= self.data.len(), "{BEYOND}");
    }

    /// Returns some rows or columns.
    pub(in super::super) fn part(self, range: Range<usize>) -> Self {
        Self {
            // Without terms, no element is at the start.
            data: &self.data[(range.start * self.stride).min(self.data.len())..],
            count: range.len(),
            ..self
        }
    }
}

/// Copies an operand to its tiles, and rounds its terms to bf16.
///
/// # Panics
/// Panics if the source reaches beyond its data, or if `to` has another number of tiles.
pub(in super::super) fn pack<H: Half>(source: Source<'_, H>, side: Side, to: &mut [Tile]) {
    assert_eq!(
        to.len(),
        tiles_of(source.count, source.k),
        "tiles of an operand"
    );
    with_turn!(Pack { source, side, to });
}

/// Copies as [`pack`] does. If `parallel`, threads share the operand.
///
/// # Panics
/// Panics as [`pack`] does.
pub(super) fn pack_by_threads<H: Half + Sync>(
    source: Source<'_, H>,
    side: Side,
    to: &mut [Tile],
    parallel: bool,
) {
    let two_blocks = 2 * source.k.div_ceil(Tile::TERMS);
    if two_blocks == 0 {
        return;
    }
    let part = |(index, to): (usize, &mut [Tile])| {
        let first = 2 * Tile::LINES * index;
        let some = source.part(first..(first + 2 * Tile::LINES).min(source.count));
        pack(some, side, to);
    };
    let parts = to.chunks_mut(two_blocks).enumerate();
    match parallel {
        true => share::each(parts.collect(), part),
        false => parts.for_each(part),
    }
}

/// Returns an operand in tiles of its own, which all threads copy.
pub(in super::super) fn packed_by_threads<H: Half + Sync>(
    source: Source<'_, H>,
    side: Side,
) -> Vec<Tile> {
    let mut tiles = vec![Tile::zeroed(); tiles_of(source.count, source.k)];
    pack_by_threads(source, side, &mut tiles, true);
    tiles
}

/// Returns an operand in tiles of its own.
pub(in super::super) fn packed<H: Half>(source: Source<'_, H>, side: Side) -> Vec<Tile> {
    let mut tiles = vec![Tile::zeroed(); tiles_of(source.count, source.k)];
    pack(source, side, &mut tiles);
    tiles
}

struct Pack<'a, H> {
    source: Source<'a, H>,
    side: Side,
    to: &'a mut [Tile],
}

impl<H: Half> Pack<'_, H> {
    #[inline(always)]
    pub(in super::super) fn squares<T: Turn>(self, turn: T) {
        let Self { source, side, to } = self;
        let steps = source.k.div_ceil(Tile::TERMS);
        if steps == 0 {
            return;
        }
        let by_terms = source.k_stride == 1;
        let blocks = to.len() / steps;
        // A closure would be compiled without the instructions of the machine.
        for tile in 0..to.len() {
            // Memory is read in its order.
            let (block, step) = match by_terms {
                true => (tile / steps, tile % steps),
                false => (tile % blocks, tile / blocks),
            };
            let Tile(to) = &mut to[block * steps + step];
            read(&source, [block, step], side, turn, to);
        }
    }
}

/// Reads a tile of a block and a step.
#[inline(always)]
fn read<H: Half, T: Turn>(
    source: &Source<'_, H>,
    [block, step]: [usize; 2],
    side: Side,
    turn: T,
    to: &mut Square,
) {
    let (row, term) = (block * Tile::LINES, step * Tile::TERMS);
    let rows = source.count.saturating_sub(row).min(Tile::LINES);
    let terms = (source.k - term).min(Tile::TERMS);
    let is_whole = rows == Tile::LINES && terms == Tile::TERMS;
    let at = row * source.stride + term * source.k_stride;
    let mut lines_are_rows = true;
    if is_whole && source.k_stride == 1 {
        by_rows(&source.data[at..], source.stride, to);
    } else if is_whole && source.stride == 1 {
        by_pairs_of_lines(&source.data[at..], source.k_stride, to);
        lines_are_rows = false;
    } else {
        one_by_one(source, row..row + rows, term..term + terms, to);
    }
    if lines_are_rows != (side == Side::Left) {
        *to = turn.turn(*to);
    }
}

/// # Panics
/// Panics if one of 16 lines reaches beyond `len` elements. A line is two vectors of 16, the second one `second` elements after
/// the first, and lines are `stride` apart.
#[inline(always)]
fn check_vectors(len: usize, stride: usize, second: usize) {
    let last = (Tile::LINES - 1)
        .saturating_mul(stride)
        .saturating_add(second);
    assert!(
        last.saturating_add(Tile::LINES) <= len,
        "vectors of 16 elements, up to number {last}, of {len}"
    );
}

type Square = [[f32; SQUARE]; SQUARE];

#[inline(always)]
fn pair(first: u32, second: u32) -> f32 {
    f32::from_bits(first | second << 16)
}

/// Reads 16 lines of 32 adjacent terms.
#[inline(always)]
fn by_rows<H: Half>(data: &[H], stride: usize, square: &mut Square) {
    if vectors::rows(data, stride, square) {
        return;
    }
    for (line, to) in square.iter_mut().enumerate() {
        let (from, _) = data[line * stride..][..Tile::TERMS].as_chunks::<2>();
        for (to, [first, second]) in to.iter_mut().zip(from) {
            *to = pair(first.bits(), second.bits());
        }
    }
}

/// Reads 32 lines of one term of 16 rows.
#[inline(always)]
fn by_pairs_of_lines<H: Half>(data: &[H], k_stride: usize, square: &mut Square) {
    if vectors::pairs_of_lines(data, k_stride, square) {
        return;
    }
    for (line, to) in square.iter_mut().enumerate() {
        let first = &data[2 * line * k_stride..][..SQUARE];
        let second = &data[(2 * line + 1) * k_stride..][..SQUARE];
        for (to, (first, second)) in to.iter_mut().zip(first.iter().zip(second)) {
            *to = pair(first.bits(), second.bits());
        }
    }
}

/// Reads an incomplete tile, one line for each row.
fn one_by_one<H: Half>(
    source: &Source<'_, H>,
    rows: Range<usize>,
    terms: Range<usize>,
    square: &mut Square,
) {
    *square = [[0.0; SQUARE]; SQUARE];
    let bits = |row: usize, term: usize| match term < terms.end {
        true => source.data[row * source.stride + term * source.k_stride].bits(),
        false => 0,
    };
    for (row, to) in rows.zip(square) {
        for (term, to) in terms.clone().step_by(2).zip(to) {
            *to = pair(bits(row, term), bits(row, term + 1));
        }
    }
}

impl<H: Half, T: Turn> pulp::WithSimd for super::super::transpose::With<Pack<'_, H>, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _: S) {
        self.task.squares(self.turn);
    }
}
