//! Tiles of a result, summed in registers.

use super::Out;
use std::arch::x86_64::*;

/// The rows and columns of a tile: twelve vectors of sums, which hide the latency of two multiplications at a time, in the 16
/// registers.
pub(super) const ROWS: usize = 6;
pub(super) const COLUMNS: usize = VECTORS * LANES;
const VECTORS: usize = 2;
const LANES: usize = 8;

/// A block of rows, copied into panels of as many as a tile has, and one of columns.
pub(super) struct Block<'a> {
    pub(super) rows: usize,
    pub(super) columns: usize,
    pub(super) depth: usize,
    pub(super) of_rows: &'a [f32],
    pub(super) of_columns: Columns,
}

/// Panels of as many columns as a tile has: copies, or a part of the operand. `panel` is the distance between two panels, and
/// `step` that between the elements of one term and those of the next.
#[derive(Clone, Copy)]
pub(super) struct Columns {
    pub(super) first: *const f32,
    pub(super) panel: usize,
    pub(super) step: usize,
}

impl Block<'_> {
    /// Computes the product of the block, or adds it.
    ///
    /// # Safety
    /// The requirements are those of [`multiply`](super::multiply), for the block. All panels of columns must be whole.
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    pub(super) unsafe fn multiply(&self, out: Out, add: bool) {
        for column in (0..self.columns).step_by(COLUMNS) {
            for row in (0..self.rows).step_by(ROWS) {
                let rows = &self.of_rows[row * self.depth..][..ROWS * self.depth];
                let sizes = [self.rows - row, self.columns - column];
                // SAFETY: the tile is a part of the block; the caller upholds the requirements.
                unsafe {
                    let first = self.of_columns.first;
                    let columns = Columns {
                        first: first.add(column / COLUMNS * self.of_columns.panel),
                        ..self.of_columns
                    };
                    let out = out.from(row, column);
                    if sizes[0] >= ROWS && sizes[1] >= COLUMNS {
                        sum(rows, columns, out, add);
                    } else {
                        sum_part(sizes, rows, columns, out, add);
                    }
                }
            }
        }
    }
}

/// Computes a tile at the end of the rows or columns.
///
/// # Safety
/// The requirements are those of [`multiply`](super::multiply), for as much of the tile as there is.
#[target_feature(enable = "avx2,fma")]
unsafe fn sum_part(
    [rows, columns]: [usize; 2],
    of_rows: &[f32],
    of_columns: Columns,
    out: Out,
    add: bool,
) {
    let mut tile = [0.0; ROWS * COLUMNS];
    let whole = Out {
        first: tile.as_mut_ptr(),
        stride: COLUMNS,
    };
    // SAFETY: `tile` has all elements of a tile.
    unsafe { sum(of_rows, of_columns, whole, false) };
    for (row, sums) in tile.chunks_exact(COLUMNS).take(rows).enumerate() {
        for (column, sum) in sums.iter().take(columns).enumerate() {
            // SAFETY: the caller upholds the requirements.
            unsafe {
                let place = out.from(row, column).first;
                place.write(if add { *place + sum } else { *sum });
            }
        }
    }
}

/// Computes a whole tile from a panel of rows and a panel of columns.
///
/// # Safety
/// The requirements are those of [`multiply`](super::multiply), for the tile.
#[inline]
#[target_feature(enable = "avx2,fma")]
unsafe fn sum(rows: &[f32], columns: Columns, out: Out, add: bool) {
    for row in 0..ROWS {
        // Hints: any address is allowed.
        let first = out.first.wrapping_add(row * out.stride);
        _mm_prefetch::<_MM_HINT_T0>(first.cast());
        _mm_prefetch::<_MM_HINT_T0>(first.wrapping_add(COLUMNS - 1).cast());
    }
    let mut sums = [[_mm256_setzero_ps(); VECTORS]; ROWS];
    let mut term = columns.first;
    for rows in rows.chunks_exact(ROWS) {
        let mut vectors = [_mm256_setzero_ps(); VECTORS];
        for (vector, elements) in vectors.iter_mut().enumerate() {
            // SAFETY: the panel has as many elements of each term.
            *elements = unsafe { _mm256_loadu_ps(term.add(vector * LANES)) };
        }
        term = term.wrapping_add(columns.step);
        for row in 0..ROWS {
            let value = _mm256_broadcast_ss(&rows[row]);
            for vector in 0..VECTORS {
                sums[row][vector] = _mm256_fmadd_ps(value, vectors[vector], sums[row][vector]);
            }
        }
    }
    for (row, sums) in sums.into_iter().enumerate() {
        for (vector, sum) in sums.into_iter().enumerate() {
            // SAFETY: the caller upholds the requirements.
            unsafe {
                let place = out.from(row, vector * LANES).first;
                let sum = match add {
                    true => _mm256_add_ps(_mm256_loadu_ps(place), sum),
                    false => sum,
                };
                _mm256_storeu_ps(place, sum);
            }
        }
    }
}
