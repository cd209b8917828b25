//! Products of operands in tiles.

use super::super::memory::with_memory;
use super::instructions::{self, Place};
use super::pack::bf16x3;
use super::vectors::{self, Vectors};
use super::widened::Widened;
use super::{Tile, aligned, tiles_of};
use std::mem::MaybeUninit;
use std::ops::Range;

/// The unit of the machine that multiplies tiles.
enum Unit<'a> {
    Amx(instructions::Unit),
    Vectors(Vectors),
    Widened(Widened<'a>),
}

impl Unit<'_> {
    /// Passes the unit for numbers of these parts to `work`.
    ///
    /// # Panics
    /// Panics if the machine has none.
    fn with(parts: Parts, work: impl FnOnce(Unit<'_>)) {
        if instructions::available() || parts == Parts::Three {
            return work(Unit::Amx(instructions::Unit::new()));
        }
        if vectors::are_fast() {
            return work(Unit::Vectors(Vectors::new()));
        }
        with_memory(Widened::MEMORY + Tile::LINES, |memory: &mut [f32]| {
            let memory = bytemuck::cast_slice_mut(aligned(memory));
            work(Unit::Widened(Widened::new(memory)));
        });
    }

    /// Returns the largest number of steps, each of 32 terms, that are summed at a time. The tiles that are read again for
    /// each block then stay in the first-level cache: with AMX those of 32 rows, with vectors those of 32 columns, too.
    fn steps(&self) -> usize {
        match self {
            Self::Amx(_) => 16,
            Self::Vectors(_) => 8,
            Self::Widened(_) => Widened::STEPS,
        }
    }
}

/// The parts of each number of the operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Parts {
    /// A number of bf16.
    One,
    /// A number of f32 in [three parts](super::pack::bf16x3).
    Three,
}

impl Parts {
    /// Returns the number of tiles of a step.
    pub(in super::super) const fn count(self) -> usize {
        match self {
            Self::One => 1,
            Self::Three => bf16x3::PARTS,
        }
    }
}

/// The sums of a product: lines that are `stride` apart, which are added to if `add`.
pub(in super::super) struct Out<'a> {
    pub(in super::super) sums: &'a mut [MaybeUninit<f32>],
    pub(in super::super) stride: usize,
    pub(in super::super) add: bool,
}

/// Computes `out = left · right`, or `out += …`, for `m × k` times `k × n` elements that are [packed](super::pack), each in
/// some parts.
///
/// Numbers in three parts must be in the [range](bf16x3::Magnitudes::are_in_range) in which no part is lost.
///
/// # Safety
/// If `out.add`, the caller must have written its places.
///
/// # Panics
/// Panics if the machine has no unit for the parts, if an operand has another number of tiles, or if `out` is too short.
pub(in super::super) unsafe fn multiply(
    [m, k, n]: [usize; 3],
    parts: Parts,
    left: &[Tile],
    right: &[Tile],
    out: Out<'_>,
) {
    if m == 0 || n == 0 {
        return;
    }
    let tiles = |count| parts.count() * tiles_of(count, k);
    assert!(
        left.len() == tiles(m) && right.len() == tiles(n),
        "{} and {} tiles don't fit a product of {m} × {k} by {k} × {n}",
        left.len(),
        right.len()
    );
    let last = (m - 1).checked_mul(out.stride);
    let reach = last.and_then(|last| last.checked_add(n));
    assert!(
        (m == 1 || out.stride >= n) && reach.is_some_and(|reach| reach <= out.sums.len()),
        "{m} × {n} sums have no place in {} elements, {} apart",
        out.sums.len(),
        out.stride
    );
    let steps = k.div_ceil(Tile::TERMS);
    if steps == 0 {
        return clear([m, n], out);
    }
    Unit::with(parts, |unit| {
        let mut walk = Walk {
            together: steps.div_ceil(steps.div_ceil(unit.steps())),
            unit,
            parts,
            left,
            right,
            steps,
            are_many: m * out.stride >= MANY,
            sizes: [m, n],
        };
        // SAFETY: the assertions show that all lines are in `out`; the caller upholds the rest.
        unsafe { walk.run(out) };
    });
}

/// Writes the sums of no terms.
fn clear([m, n]: [usize; 2], out: Out<'_>) {
    if out.add {
        return;
    }
    for line in out.sums.chunks_mut(out.stride.max(1)).take(m) {
        line[..n].fill(MaybeUninit::new(0.0));
    }
}

struct Walk<'a> {
    unit: Unit<'a>,
    parts: Parts,
    left: &'a [Tile],
    right: &'a [Tile],
    /// The number of steps of a block of rows or columns.
    steps: usize,
    /// The number of steps that are summed at a time. Sums are read and written again for the next ones, so that a few
    /// are not left over.
    together: usize,
    /// Whether sums are more than the second-level cache holds beside the operands.
    are_many: bool,
    sizes: [usize; 2],
}

/// The number of rows, and of columns, that are computed at a time.
const BLOCK: usize = 2 * Tile::LINES;

/// The number of sums that are many: 1 MiB of them.
const MANY: usize = 1 << 18;

/// The number of tiles of columns that are read again for each block of rows: a quarter of the second-level cache.
const RESIDENT: usize = 512;

impl Walk<'_> {
    /// # Safety
    /// The lines of `out` must be in its places, and written if it is added to.
    unsafe fn run(&mut self, out: Out<'_>) {
        let n = self.sizes[1];
        let place = Place {
            first: out.sums.as_mut_ptr().cast::<f32>(),
            stride: out.stride,
        };
        let width =
            (RESIDENT / (self.parts.count() * self.steps) * Tile::LINES).max(BLOCK) / BLOCK * BLOCK;
        for first in (0..n).step_by(width) {
            // SAFETY: the caller upholds the requirements.
            unsafe { self.columns(first..n.min(first + width), place, out.add) };
        }
    }

    /// Computes some columns.
    ///
    /// # Safety
    /// The requirements are those of [`run`](Self::run).
    unsafe fn columns(&mut self, columns: Range<usize>, out: Place, add: bool) {
        for row in (0..self.sizes[0]).step_by(BLOCK) {
            for start in (0..self.steps).step_by(self.together) {
                self.take_rows(row, start);
                for column in columns.clone().step_by(BLOCK) {
                    let place = Place {
                        // SAFETY: the element is the first of this block.
                        first: unsafe { out.first.add(row * out.stride + column) },
                        ..out
                    };
                    // SAFETY: the caller upholds the requirements; the first steps write what others are added to.
                    unsafe { self.block([row, column], start, place, add || start > 0) };
                }
            }
        }
    }

    /// Has the unit widen some steps of the rows of a block, if it does. All columns are multiplied by them.
    fn take_rows(&mut self, row: usize, start: usize) {
        let list = |row| self.list(self.left, row, start);
        let below = (self.sizes[0] - row > Tile::LINES).then(|| list(row + Tile::LINES));
        let lists = [Some(list(row)), below];
        if let Unit::Widened(unit) = &mut self.unit {
            unit.take(lists);
        }
    }

    /// Computes some steps of one block, whose first row and column are given.
    ///
    /// # Safety
    /// `out` is the place of the block, for whose rows and columns the requirements are those of [`run`](Self::run).
    unsafe fn block(&self, at @ [row, column]: [usize; 2], start: usize, out: Place, add: bool) {
        let [m, n] = [self.sizes[0] - row, self.sizes[1] - column];
        // SAFETY: the caller upholds the requirements. If the block is not whole, its place is not passed on.
        unsafe {
            match n >= BLOCK && (m >= BLOCK || m == Tile::LINES) {
                true => self.whole_block(at, start, out, add),
                false => self.edge(at, start, out, add),
            }
        }
    }

    /// Computes some steps of a block at an edge, beside its place. Its sums have the bits of those of a whole block.
    ///
    /// # Safety
    /// The requirements are those of [`block`](Self::block).
    #[cold]
    #[inline(never)]
    unsafe fn edge(&self, at @ [row, column]: [usize; 2], start: usize, out: Place, add: bool) {
        let lines = BLOCK.min(self.sizes[0] - row);
        let length = BLOCK.min(self.sizes[1] - column);
        let mut beside = [[0.0_f32; BLOCK]; BLOCK];
        // The sums so far come first in each sum, as they do in a whole block.
        for (line, sums) in beside.iter_mut().enumerate().take(lines).filter(|_| add) {
            // SAFETY: the line is one of this block, and the caller has written it.
            let so_far = unsafe { out.first.add(line * out.stride) };
            // SAFETY: as above; `beside` is another place.
            unsafe { so_far.copy_to_nonoverlapping(sums.as_mut_ptr(), length) };
        }
        let place = Place {
            first: beside.as_flattened_mut().as_mut_ptr(),
            stride: BLOCK,
        };
        // SAFETY: a whole block has a place in `beside`.
        unsafe { self.whole_block(at, start, place, add) };
        for (line, sums) in beside.iter().enumerate().take(lines) {
            // SAFETY: the line is one of this block.
            let to = unsafe { out.first.add(line * out.stride) };
            // SAFETY: as above; `beside` is another place.
            unsafe { to.copy_from_nonoverlapping(sums.as_ptr(), length) };
        }
    }

    /// Computes some steps of a block that has a place for 32 columns and, if it has more than 16 rows, for 32 of these.
    ///
    /// # Safety
    /// The requirements are those of [`block`](Self::block), for the whole place.
    unsafe fn whole_block(&self, [row, column]: [usize; 2], start: usize, out: Place, add: bool) {
        let steps = self.together.min(self.steps - start);
        let list = |operand, first| self.list(operand, first, start).as_ptr();
        let left = list(self.left, row);
        let right = [0, 1].map(|part| list(self.right, column + part * Tile::LINES));
        let below =
            (self.sizes[0] - row > Tile::LINES).then(|| [left, list(self.left, row + Tile::LINES)]);
        // SAFETY: `list` checks the tiles; the caller upholds the rest.
        unsafe {
            match (&self.unit, self.parts, below) {
                (Unit::Vectors(unit), _, Some(left)) => unit.two(left, right, steps, out, add),
                (Unit::Vectors(unit), _, None) => unit.one(left, right, steps, out, add),
                (Unit::Widened(unit), _, Some(_)) => unit.two(right, steps, out, add),
                (Unit::Widened(unit), _, None) => unit.one(right, steps, out, add),
                (Unit::Amx(unit), Parts::One, Some(left)) if self.are_many => {
                    unit.two_of_many(left, right, steps, out, add);
                }
                (Unit::Amx(unit), Parts::One, Some(left)) => unit.two(left, right, steps, out, add),
                (Unit::Amx(unit), Parts::One, None) => unit.one(left, right, steps, out, add),
                (Unit::Amx(unit), Parts::Three, Some(left)) => {
                    // The rows that follow are in the cache.
                    let next = left[0].cast();
                    unit.two_in_parts(left, right, next, steps, out, add);
                }
                (Unit::Amx(unit), Parts::Three, None) => {
                    unit.one_in_parts(left, right, steps, out, add);
                }
            }
        }
    }

    /// Returns the tiles of 16 rows or columns, from a step on.
    fn list<'t>(&self, operand: &'t [Tile], first: usize, start: usize) -> &'t [Tile] {
        let parts = self.parts.count();
        let tiles = &operand[(first / Tile::LINES * self.steps + start) * parts..];
        &tiles[..self.together.min(self.steps - start) * parts]
    }
}
