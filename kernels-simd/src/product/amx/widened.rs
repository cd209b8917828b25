//! Products of tiles of bf16 with the multiplications of f32, for machines without AMX that multiply pairs more slowly. Rows are
//! widened to f32 once for all columns, and columns as they are read. Products of two numbers of bf16 are exact in f32.

use super::super::tiles;
use super::instructions::{self, Place};
use super::{Tile, vectors};
use std::arch::x86_64::*;

/// Returns whether this machine has the instructions.
pub(super) fn available() -> bool {
    tiles::available()
}

/// Returns whether they are this machine's fastest products of tiles.
pub(super) fn is_fastest() -> bool {
    available() && !instructions::available() && !vectors::are_fast()
}

/// Rows of two tiles in f32, and the unit that multiplies them.
pub(super) struct Widened<'a> {
    lines: &'a mut [[Line; 2]],
}

/// The first terms of the pairs of a row, and the second ones.
type Line = [f32; Tile::LINES];

/// The number of rows.
const ROWS: usize = 2 * Tile::LINES;

impl<'a> Widened<'a> {
    /// The largest number of steps.
    pub(super) const STEPS: usize = 4;
    /// The number of elements of the memory that rows are widened in.
    pub(super) const MEMORY: usize = ROWS * Tile::TERMS * Self::STEPS;

    /// # Panics
    /// Panics if the machine has no AVX-512, or if `memory` has less than [`MEMORY`](Self::MEMORY) elements.
    pub(super) fn new(memory: &'a mut [f32]) -> Self {
        assert!(available(), "this machine has no AVX-512");
        let lines = bytemuck::cast_slice_mut(&mut memory[..Self::MEMORY]);
        Self { lines }
    }

    /// Widens the rows of two lists of tiles, the second one of which may be missing. Each has a tile for each step.
    ///
    /// # Panics
    /// Panics if there are more tiles than [`STEPS`](Self::STEPS).
    pub(super) fn take(&mut self, lists: [Option<&[Tile]>; 2]) {
        for (list, tiles) in lists.into_iter().enumerate() {
            for (step, tile) in tiles.unwrap_or_default().iter().enumerate() {
                let first = step * ROWS + list * Tile::LINES;
                let lines = &mut self.lines[first..first + Tile::LINES];
                // SAFETY: `new` asserts that the machine has the instructions.
                unsafe { widen(tile, lines) };
            }
        }
    }

    /// Computes the sums of all rows by two lists of columns, or adds them if `add`.
    ///
    /// # Safety
    /// [`take`](Self::take) must have taken two lists of `steps` tiles, and so many must be in each list of columns. `out` must
    /// have 32 lines of 32 elements, which nothing else accesses, and which are written if `add`.
    #[inline]
    pub(super) unsafe fn two(&self, right: [*const Tile; 2], steps: usize, out: Place, add: bool) {
        let lines = self.lines.as_ptr();
        // SAFETY: the machine has the instructions; the caller upholds the rest.
        unsafe {
            rows::<0, 11>(lines, right, steps, out, add);
            rows::<11, 11>(lines, right, steps, out, add);
            rows::<22, 10>(lines, right, steps, out, add);
        }
    }

    /// Computes as [`two`](Self::two) does, for the rows of the first list.
    ///
    /// # Safety
    /// The requirements are those of [`two`](Self::two), for one list of rows and 16 lines.
    #[inline]
    pub(super) unsafe fn one(&self, right: [*const Tile; 2], steps: usize, out: Place, add: bool) {
        let lines = self.lines.as_ptr();
        // SAFETY: the machine has the instructions; the caller upholds the rest.
        unsafe {
            rows::<0, 8>(lines, right, steps, out, add);
            rows::<8, 8>(lines, right, steps, out, add);
        }
    }
}

/// Returns the first terms of pairs of bf16 in f32, and the second ones.
#[inline]
#[target_feature(enable = "avx512f")]
fn halves(pairs: __m512i) -> [__m512; 2] {
    let second = _mm512_and_si512(pairs, _mm512_set1_epi32(0xffff_0000_u32.cast_signed()));
    [_mm512_slli_epi32::<16>(pairs), second].map(|half| _mm512_castsi512_ps(half))
}

/// Widens the rows of a tile.
#[target_feature(enable = "avx512f")]
fn widen(tile: &Tile, to: &mut [[Line; 2]]) {
    for (from, to) in tile.lines().iter().zip(to) {
        // SAFETY: a line of a tile is a vector.
        let pairs = unsafe { _mm512_loadu_si512(from.as_ptr().cast()) };
        for (half, to) in halves(pairs).into_iter().zip(to) {
            // SAFETY: a line is a vector.
            unsafe { _mm512_storeu_ps(to.as_mut_ptr(), half) };
        }
    }
}

/// Computes the sums of `COUNT` widened rows, from the row `FIRST` on, by two tiles of columns.
///
/// # Safety
/// The machine must have AVX-512. At `lines` must be [`ROWS`] rows for each step, of which these are written. The other
/// requirements are those of [`Widened::two`], for these rows.
#[target_feature(enable = "avx512f")]
unsafe fn rows<const FIRST: usize, const COUNT: usize>(
    lines: *const [Line; 2],
    right: [*const Tile; 2],
    steps: usize,
    out: Place,
    add: bool,
) {
    let place = |row: usize| out.first.wrapping_add((FIRST + row) * out.stride);
    let mut sums = [[_mm512_setzero_ps(); 2]; COUNT];
    if add {
        for (row, sums) in sums.iter_mut().enumerate() {
            // SAFETY: the caller has written these sums.
            *sums = unsafe {
                [
                    _mm512_loadu_ps(place(row)),
                    _mm512_loadu_ps(place(row).add(Tile::LINES)),
                ]
            };
        }
    }
    for step in 0..steps {
        // SAFETY: there are lines and tiles for each step.
        let (lines, right) = unsafe {
            let lines = lines.add(step * ROWS + FIRST).cast::<f32>();
            (lines, right.map(|list| list.add(step).cast::<f32>()))
        };
        for pair in 0..Tile::LINES {
            // SAFETY: a tile has a line of 16 columns for each pair of terms.
            let columns = unsafe {
                right.map(|tile| halves(_mm512_loadu_si512(tile.add(pair * Tile::LINES).cast())))
            };
            for half in 0..2 {
                for (row, sums) in sums.iter_mut().enumerate() {
                    let at = row * Tile::TERMS + half * Tile::LINES + pair;
                    // SAFETY: a row has 16 terms in each half.
                    let term = _mm512_set1_ps(unsafe { *lines.add(at) });
                    for (sum, columns) in sums.iter_mut().zip(&columns) {
                        *sum = _mm512_fmadd_ps(columns[half], term, *sum);
                    }
                }
            }
        }
    }
    for (row, sums) in sums.into_iter().enumerate() {
        // SAFETY: the caller's place has these lines.
        unsafe {
            _mm512_storeu_ps(place(row), sums[0]);
            _mm512_storeu_ps(place(row).add(Tile::LINES), sums[1]);
        }
    }
}
