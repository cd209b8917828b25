//! Products of f32 with AVX2: of matrices that are large enough to be copied first, and of blocks that are in the cache.
//!
//! Both operands are copied into panels, in the order in which [`tile`] reads them: parts of them that stay in the first and
//! second level of the cache while they are used again (Goto and van de Geijn, "Anatomy of High-Performance Matrix
//! Multiplication", 2008). Copies are as fast across the rows of an operand as along them, so products of gradients have
//! the rate of the others. A block in the cache is multiplied with a copy of its left operand only.
//!
//! The terms of an element are added in groups of [`DEPTH`], whatever part of the result a call computes. Bits don't depend on
//! the parts.

mod copy;
#[cfg(test)]
mod tests;
mod tile;

use super::gemm::Strides;
use super::memory::with_memory;
use std::any::TypeId;
use tile::{Block, COLUMNS, Columns, ROWS};

/// Returns whether this machine has the instructions of [`multiply`].
pub(super) fn has_instructions() -> bool {
    is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")
}

/// Returns whether [`multiply`] is this machine's product of large matrices. With AVX-512, the wider vectors of `gemm` are.
pub(super) fn is_fastest() -> bool {
    has_instructions() && !is_x86_feature_detected!("avx512f")
}

/// The largest number of elements of a right operand that is read in place: an eighth of the second-level cache.
const IN_CACHE: usize = 1 << 14;

/// Returns whether [`multiply_block`] is the fastest product of `m × k` with `k × n` on this machine, if it is one of `T` and
/// `right` are the strides of its right operand.
pub(super) fn takes_block<T: 'static>([m, k, n]: [usize; 3], right: Strides) -> bool {
    let is_whole = right.column == 1 && n > 0 && n.is_multiple_of(COLUMNS);
    let is_in_cache = k <= DEPTH && m <= BLOCK_ROWS && k.saturating_mul(n) <= IN_CACHE;
    let is_large = m >= ROWS && k >= COLUMNS;
    is_whole && is_in_cache && is_large && TypeId::of::<T>() == TypeId::of::<f32>() && is_fastest()
}

/// The number of terms that are added before a sum is added to the result. A panel of columns then takes half of the
/// first-level cache.
const DEPTH: usize = 256;

/// The number of rows that are copied at once, for a part of the second-level cache. Tiles divide it.
const BLOCK_ROWS: usize = 24 * ROWS;

/// The number of columns that are copied at once. They are read again for each block of rows. Tiles divide it.
const BLOCK_COLUMNS: usize = 64 * COLUMNS;

/// The number of f32 of a cache line.
const LINE: usize = 16;

/// The lines of an operand: rows of the left one, columns of the right one. `stride` is the distance between two lines and
/// `step` that between two elements of one.
#[derive(Clone, Copy)]
struct Lines {
    first: *const f32,
    stride: usize,
    step: usize,
}

impl Lines {
    fn rows((first, strides): (*const f32, Strides)) -> Self {
        Self {
            first,
            stride: strides.row,
            step: strides.column,
        }
    }

    fn columns((first, strides): (*const f32, Strides)) -> Self {
        Self {
            first,
            stride: strides.column,
            step: strides.row,
        }
    }

    /// Returns the lines from `line` on, each from element `start` on.
    ///
    /// # Safety
    /// There must be such an element.
    unsafe fn from(self, line: usize, start: usize) -> Self {
        let ahead = line * self.stride + start * self.step;
        // SAFETY: the caller upholds the requirement.
        let first = unsafe { self.first.add(ahead) };
        Self { first, ..self }
    }
}

/// The place of a result: its first element, and the distance between rows. Elements of a row are contiguous.
#[derive(Clone, Copy)]
pub(super) struct Out {
    pub(super) first: *mut f32,
    pub(super) stride: usize,
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

/// Computes `out = left · right`, or `out += …` if `add`, for `m × k` times `k × n`, on this thread.
///
/// # Safety
/// The machine must have the [instructions](has_instructions). Every element that sizes and strides reach from the first one of
/// an operand must be readable, and every one of `out` writable. Nothing else may access those of `out` meanwhile. If
/// `add`, they must have been written.
pub(super) unsafe fn multiply(
    [m, k, n]: [usize; 3],
    left: (*const f32, Strides),
    right: (*const f32, Strides),
    out: Out,
    add: bool,
) {
    if m == 0 || n == 0 {
        return;
    }
    if k == 0 {
        for row in (0..m).filter(|_| !add) {
            // SAFETY: the caller upholds the requirements.
            unsafe { out.from(row, 0).first.write_bytes(0, n) };
        }
        return;
    }
    let depth = k.min(DEPTH);
    let rows = m.min(BLOCK_ROWS).next_multiple_of(ROWS);
    let columns = n.min(BLOCK_COLUMNS).next_multiple_of(COLUMNS);
    let sizes = [columns, rows].map(|lines| lines * depth + copy::BEYOND);
    with_memory(LINE + sizes[0] + sizes[1], |memory: &mut [f32]| {
        let to_line = memory.as_ptr().align_offset(LINE * size_of::<f32>());
        let (of_columns, of_rows) = memory[to_line.min(LINE)..].split_at_mut(sizes[0]);
        let product = Product {
            left: Lines::rows(left),
            right: Lines::columns(right),
            of_rows,
            of_columns,
        };
        // SAFETY: the caller upholds the requirements.
        unsafe { product.run([m, k, n], out, add) };
    });
}

/// Computes as [`multiply`] does for a small block that is in the cache. Only the left operand is copied.
///
/// # Safety
/// The requirements are those of [`multiply`]. `m` may be [`BLOCK_ROWS`] at most, and `k` [`DEPTH`]. Columns of the right operand
/// must be contiguous, and `n` a multiple of [`COLUMNS`].
pub(super) unsafe fn multiply_block(
    [m, k, n]: [usize; 3],
    left: (*const f32, Strides),
    (right, right_strides): (*const f32, Strides),
    out: Out,
    add: bool,
) {
    let len = m.next_multiple_of(ROWS) * k + copy::BEYOND;
    with_memory(len, |of_rows: &mut [f32]| {
        // SAFETY: the caller upholds the requirements.
        unsafe { copy::panels::<ROWS>(Lines::rows(left), m, k, of_rows) };
        let block = Block {
            rows: m,
            columns: n,
            depth: k,
            of_rows,
            of_columns: Columns {
                first: right,
                panel: COLUMNS,
                step: right_strides.row,
            },
        };
        // SAFETY: the caller upholds the requirements.
        unsafe { block.multiply(out, add) };
    });
}

/// A product, and the memory for the copies of its operands.
struct Product<'a> {
    left: Lines,
    right: Lines,
    of_rows: &'a mut [f32],
    of_columns: &'a mut [f32],
}

impl Product<'_> {
    /// # Safety
    /// The requirements are those of [`multiply`]. The memory must have as many elements as a block of rows and a block of
    /// columns, and [`copy::BEYOND`] after each.
    #[target_feature(enable = "avx2,fma")]
    unsafe fn run(self, [m, k, n]: [usize; 3], out: Out, add: bool) {
        for column in (0..n).step_by(BLOCK_COLUMNS) {
            let columns = BLOCK_COLUMNS.min(n - column);
            for start in (0..k).step_by(DEPTH) {
                let depth = DEPTH.min(k - start);
                // SAFETY: the block is a part of the product; the caller upholds the requirements.
                unsafe {
                    let lines = self.right.from(column, start);
                    copy::panels::<COLUMNS>(lines, columns, depth, self.of_columns);
                }
                for row in (0..m).step_by(BLOCK_ROWS) {
                    let rows = BLOCK_ROWS.min(m - row);
                    // SAFETY: as above. Places that are added to were written by the part before, which covers the
                    // same columns.
                    unsafe {
                        let lines = self.left.from(row, start);
                        copy::panels::<ROWS>(lines, rows, depth, self.of_rows);
                        let block = Block {
                            rows,
                            columns,
                            depth,
                            of_rows: self.of_rows,
                            of_columns: Columns {
                                first: self.of_columns.as_ptr(),
                                panel: COLUMNS * depth,
                                step: COLUMNS,
                            },
                        };
                        block.multiply(out.from(row, column), add || start > 0);
                    }
                }
            }
        }
    }
}
