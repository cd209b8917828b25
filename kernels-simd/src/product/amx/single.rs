//! Products of f32 with AMX.
//!
//! Each number is the sum of [three of bf16](super::pack::bf16x3), so a product of two numbers has nine parts. Six of them are
//! computed: the other three are below 2^-25 of it, less than what f32 rounds a sum by. Tiles add 32 terms before they
//! round a sum, so the error is less than that of a product in f32, term by term.
//!
//! The instruction takes numbers below 2^-126 for zero, parts, their products and sums alike. Tiles of a result in
//! which that could be seen, and those in which parts could overflow where the result does not, are computed in f32.
//! What is lost of a term of others is below 2^-86. Magnitudes are those of 16 rows together, so a row of numbers below
//! 2^-102 beside rows of larger ones has that absolute bound, not a relative one.

#[cfg(test)]
mod tests;

use super::super::memory::with_memory;
use super::instructions::{AHEAD, Place, Unit};
use super::pack::bf16x3::{self, Magnitudes, PARTS};
use super::pack::{Side, Source, Tile, aligned, tiles_of};
use std::ptr::copy_nonoverlapping as copy;

/// The number of rows, and of columns, that are computed at a time.
const BLOCK: usize = 2 * Tile::LINES;

/// The number of terms that are added before the sums are written.
const TERMS: usize = 512;

/// The largest number of elements of columns that stay in the second-level cache. If all columns do, few rows at a time are
/// copied, which stay in the first-level cache.
const RESIDENT: usize = 192 << 10;

/// Otherwise, the number of columns that are copied at a time, and that of the elements of rows. Columns are copied again for
/// each of these.
const COLUMNS: usize = 256;
const ELEMENTS: usize = 1 << 19;

/// The largest number of blocks of an operand in tiles.
const MOST_BLOCKS: usize = 256;

/// Magnitudes below which a number has fewer bits here, and above which that could be seen in a product.
const SMALL: f32 = 1.0 / (1_u128 << 102) as f32;
const LARGE: f32 = (1_u64 << 40) as f32;

/// The magnitude of products below which those of their parts have fewer bits.
const SMALL_PRODUCT: f32 = 1.0 / (1_u128 << 80) as f32;

/// Returns whether this machine multiplies f32 here.
pub(in super::super) fn available() -> bool {
    super::available() && bf16x3::available()
}

/// The least quotient of rows × columns and rows + columns, and the least number of terms, for which the product gains more than
/// its copies cost, which are twice as large as those in f32.
const LEAST: usize = 64;
const LEAST_TERMS: usize = 128;

/// Returns whether [`multiply`] is faster than products in f32 on this machine.
pub(in super::super) fn takes([m, k, n]: [usize; 3]) -> bool {
    available() && k >= LEAST_TERMS && m.saturating_mul(n) / LEAST >= m.saturating_add(n)
}

/// The place of a result: its first element, and the distance between rows. Elements of a row are contiguous.
#[derive(Clone, Copy)]
pub(in super::super) struct Out {
    pub(in super::super) first: *mut f32,
    pub(in super::super) stride: usize,
    /// Whether the product is added to what is there.
    pub(in super::super) add: bool,
}

impl Out {
    /// # Safety
    /// There must be such an element.
    unsafe fn from(self, row: usize, column: usize) -> Self {
        // SAFETY: the caller upholds the requirement.
        let first = unsafe { self.first.add(row * self.stride + column) };
        Self { first, ..self }
    }
}

/// Computes `out = left · right`, or `out += …`, on this thread. The bits of an element depend on the 16 rows and the 16
/// columns around it alone, if parts of a product begin at multiples of 16.
///
/// # Safety
/// `out` must have an element for each row of `left` and each column, which are the rows of `right`. They must be writable, and
/// nothing else may access them. If `out.add`, they must have been written.
///
/// # Panics
/// Panics if the machine has no AMX, without terms, if the operands have different numbers of them, or if an operand
/// reaches beyond its data.
pub(in super::super) unsafe fn multiply(left: Source<'_, f32>, right: Source<'_, f32>, out: Out) {
    let [m, k, n] = [left.count, left.k, right.count];
    assert!(k > 0 && k == right.k, "{m} × {k} by {} × {n}", right.k);
    left.check();
    right.check();
    if m == 0 || n == 0 {
        return;
    }
    let terms = k.min(TERMS).next_multiple_of(Tile::TERMS);
    let most = MOST_BLOCKS * Tile::LINES;
    let is_resident = n <= most.min(RESIDENT / terms);
    let (rows, columns) = match is_resident {
        true => (BLOCK, n.next_multiple_of(BLOCK)),
        false => (most.min(ELEMENTS / terms / BLOCK * BLOCK), COLUMNS),
    };
    let rows = rows.min(m.next_multiple_of(BLOCK));
    let sizes = [rows, columns].map(|count| PARTS * tiles_of(count, terms));
    let len = (sizes[0] + sizes[1]) * Tile::LEN + Tile::LINES;
    with_memory(len, |memory: &mut [f32]| {
        let (of_rows, of_columns) = aligned(memory).split_at_mut(sizes[0]);
        let memory = &mut [of_rows, of_columns].map(Memory::new);
        for start in (0..k).step_by(TERMS) {
            let some = start..k.min(start + TERMS);
            let left = left.terms(some.clone());
            let right = right.terms(some);
            let add = out.add || start > 0;
            let out = Out { add, ..out };
            // SAFETY: this is the whole result. What it is added to was written by the terms before.
            unsafe {
                match is_resident {
                    true => by_rows(left, right, out, memory),
                    false => by_columns(left, right, out, rows, memory),
                }
            }
        }
    });
}

/// Copies all columns, and multiplies rows as they are copied.
///
/// # Safety
/// The requirements are those of [`multiply`].
unsafe fn by_rows(
    left: Source<'_, f32>,
    right: Source<'_, f32>,
    out: Out,
    [of_rows, of_columns]: &mut [Memory<'_>; 2],
) {
    let right = Operand::new(right, Side::Right, of_columns);
    for row in (0..left.count).step_by(BLOCK) {
        let left = left.part(row..left.count.min(row + BLOCK));
        let left = Operand::new(left, Side::Left, of_rows);
        // SAFETY: these are rows of `out`; the caller upholds the rest.
        unsafe { product(&left, &right, out.from(row, 0)) };
    }
}

/// Copies many rows, and multiplies columns as they are copied.
///
/// # Safety
/// The requirements are those of [`multiply`].
unsafe fn by_columns(
    left: Source<'_, f32>,
    right: Source<'_, f32>,
    out: Out,
    rows: usize,
    [of_rows, of_columns]: &mut [Memory<'_>; 2],
) {
    for row in (0..left.count).step_by(rows) {
        let left = left.part(row..left.count.min(row + rows));
        let left = Operand::new(left, Side::Left, of_rows);
        for column in (0..right.count).step_by(COLUMNS) {
            let right = right.part(column..right.count.min(column + COLUMNS));
            let right = Operand::new(right, Side::Right, of_columns);
            // SAFETY: this is a part of `out`; the caller upholds the rest.
            unsafe { product(&left, &right, out.from(row, column)) };
        }
    }
}

/// An operand in tiles.
struct Operand<'a> {
    source: Source<'a, f32>,
    tiles: &'a [Tile],
    magnitudes: &'a [Magnitudes],
}

/// The memory of an operand.
struct Memory<'a> {
    tiles: &'a mut [Tile],
    magnitudes: [Magnitudes; MOST_BLOCKS],
}

impl<'a> Memory<'a> {
    fn new(tiles: &'a mut [Tile]) -> Self {
        let magnitudes = [Magnitudes::NONE; MOST_BLOCKS];
        Self { tiles, magnitudes }
    }
}

impl<'a> Operand<'a> {
    /// Copies an operand to the first of the tiles.
    fn new(source: Source<'a, f32>, side: Side, memory: &'a mut Memory<'_>) -> Self {
        let tiles = &mut memory.tiles[..PARTS * tiles_of(source.count, source.k)];
        let blocks = source.count.div_ceil(BLOCK) * BLOCK / Tile::LINES;
        let magnitudes = &mut memory.magnitudes[..blocks];
        bf16x3::pack(source, side, tiles, magnitudes);
        Self {
            source,
            tiles,
            magnitudes,
        }
    }

    /// Returns the tiles of 16 rows or columns.
    fn list(&self, first: usize, steps: usize) -> *const Tile {
        self.tiles[first / Tile::LINES * steps * PARTS..][..steps * PARTS].as_ptr()
    }
}

/// Computes the product of two operands.
///
/// # Safety
/// The requirements are those of [`multiply`].
unsafe fn product(left: &Operand<'_>, right: &Operand<'_>, out: Out) {
    let walk = Walk {
        unit: Unit::new(),
        left,
        right,
        steps: left.source.k.div_ceil(Tile::TERMS),
    };
    for row in (0..left.source.count).step_by(BLOCK) {
        for column in (0..right.source.count).step_by(BLOCK) {
            // SAFETY: the element is the first of this block; the caller upholds the requirements.
            unsafe { walk.block([row, column], out.from(row, column)) };
        }
    }
}

struct Walk<'a> {
    unit: Unit,
    left: &'a Operand<'a>,
    right: &'a Operand<'a>,
    /// The number of steps of 32 terms.
    steps: usize,
}

impl Walk<'_> {
    /// Computes a block, whose first row and column are given.
    ///
    /// # Safety
    /// `out` is the place of the block, for whose rows and columns the requirements are those of [`multiply`].
    unsafe fn block(&self, at @ [row, column]: [usize; 2], out: Out) {
        let [m, n] = [
            self.left.source.count - row,
            self.right.source.count - column,
        ];
        let is_whole = n >= BLOCK && (m >= BLOCK || m == Tile::LINES);
        // SAFETY: the caller upholds the requirements. If the block is not whole, its place is not passed on.
        unsafe {
            match is_whole && self.are_in_range(at) {
                true => self.whole_block(at, out),
                false => self.tile_by_tile(at, out),
            }
        }
    }

    /// Computes a block that has a place for 32 columns and, if it has more than 16 rows, for 32 of these.
    ///
    /// # Safety
    /// The requirements are those of [`block`](Self::block), for the whole place.
    unsafe fn whole_block(&self, [row, column]: [usize; 2], out: Out) {
        let place = Place {
            first: out.first,
            stride: out.stride,
        };
        let left = self.left.list(row, self.steps);
        let right = [0, 1].map(|part| self.right.list(column + part * Tile::LINES, self.steps));
        // SAFETY: `list` checks the tiles; the caller upholds the rest.
        unsafe {
            match self.left.source.count - row > Tile::LINES {
                true => {
                    let left = [left, self.left.list(row + Tile::LINES, self.steps)];
                    let next = self.ahead([row, column]);
                    let steps = self.steps;
                    self.unit
                        .two_in_parts(left, right, next, steps, place, out.add);
                }
                false => self
                    .unit
                    .one_in_parts(left, right, self.steps, place, out.add),
            }
        }
    }

    /// Returns what is asked for while a block is computed: a part of the tiles of the next rows, if there are any. A
    /// few blocks of columns together ask for all of them.
    fn ahead(&self, [row, column]: [usize; 2]) -> *const u8 {
        let parts = 2 * PARTS * size_of::<Tile>() / AHEAD;
        let row = match row + BLOCK < self.left.source.count {
            true => row + BLOCK,
            false => row,
        };
        let list = row / Tile::LINES * self.steps * PARTS;
        let first = self.left.tiles.as_ptr().wrapping_add(list);
        let part = column / BLOCK % parts;
        first.cast::<u8>().wrapping_add(part * self.steps * AHEAD)
    }

    /// Computes a block at an edge, or one that may not be computed in parts, beside its place.
    ///
    /// # Safety
    /// The requirements are those of [`block`](Self::block).
    #[cold]
    #[inline(never)]
    unsafe fn tile_by_tile(&self, at @ [row, column]: [usize; 2], out: Out) {
        let [m, n] = [
            self.left.source.count - row,
            self.right.source.count - column,
        ];
        let (m, n) = (m.min(BLOCK), n.min(BLOCK));
        let mut beside = [[0.0_f32; BLOCK]; BLOCK];
        if out.add {
            for (line, sums) in beside.iter_mut().enumerate().take(m) {
                // SAFETY: the line has `n` elements, which are written.
                unsafe { copy(out.from(line, 0).first, sums.as_mut_ptr(), n) };
            }
        }
        let place = Out {
            first: beside.as_flattened_mut().as_mut_ptr(),
            stride: BLOCK,
            add: out.add,
        };
        // SAFETY: a whole block has a place in `beside`.
        unsafe { self.whole_block(at, place) };
        for down in (0..m).step_by(Tile::LINES) {
            for across in (0..n).step_by(Tile::LINES) {
                let rows = down..m.min(down + Tile::LINES);
                let columns = across..n.min(across + Tile::LINES);
                if self.is_in_range([row + down, column + across]) {
                    for line in rows {
                        // SAFETY: these are elements of the tile.
                        unsafe {
                            let to = out.from(line, across).first;
                            copy(beside[line][across..].as_ptr(), to, columns.len());
                        }
                    }
                    continue;
                }
                let left = self.left.source.part(row + rows.start..row + rows.end);
                let columns = column + columns.start..column + columns.end;
                let right = self.right.source.part(columns);
                // SAFETY: this is the place of the tile.
                unsafe { in_f32(left, right, out.from(down, across)) };
            }
        }
    }

    /// Returns whether all tiles of a block may be computed in parts.
    fn are_in_range(&self, [row, column]: [usize; 2]) -> bool {
        let ahead = [0, Tile::LINES];
        let tiles = ahead.map(|down| ahead.map(|across| [row + down, column + across]));
        tiles
            .into_iter()
            .flatten()
            .all(|tile| self.is_in_range(tile))
    }

    /// Returns whether a tile may be computed in parts.
    fn is_in_range(&self, [row, column]: [usize; 2]) -> bool {
        let left = self.left.magnitudes[row / Tile::LINES];
        let right = self.right.magnitudes[column / Tile::LINES];
        let [of_left, of_right] = [left.largest(), right.largest()];
        let largest = of_left * of_right * self.left.source.k as f32;
        let is_lost = |small: Magnitudes, large: f32| small.smallest() < SMALL && large > LARGE;
        let is_zero = of_left == 0.0 || of_right == 0.0;
        let is_small = of_left.min(of_right) < SMALL || largest < SMALL_PRODUCT;
        // Not a number if one is infinite and the other one zero.
        let overflows = largest.is_nan() || largest > f32::MAX / 2.0;
        let is_lost = is_lost(left, of_right) || is_lost(right, of_left);
        !overflows && !is_lost && (is_zero || !is_small)
    }
}

/// Computes a tile without AMX.
///
/// # Safety
/// The requirements are those of [`multiply`].
unsafe fn in_f32(left: Source<'_, f32>, right: Source<'_, f32>, out: Out) {
    left.check();
    right.check();
    // SAFETY: the operands reach no further than their data; the caller upholds the rest.
    unsafe {
        gemm::gemm(
            left.count,
            right.count,
            left.k,
            out.first,
            1,
            out.stride as isize,
            out.add,
            left.data.as_ptr(),
            left.k_stride as isize,
            left.stride as isize,
            right.data.as_ptr(),
            right.stride as isize,
            right.k_stride as isize,
            1.0,
            1.0,
            false,
            false,
            false,
            gemm::Parallelism::None,
        );
    }
}
