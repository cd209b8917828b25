//! Products of bf16 with AMX (Intel SDM, volume 1, chapter 18). One instruction multiplies a tile of 16 rows by 32 terms with
//! one of 32 terms by 16 columns and adds to a tile of 16 × 16 sums in f32: 8192 multiplications, where one of AVX512-BF16
//! does 32. Without AMX, large products of tensors are computed from the same tiles with AVX512-BF16 ([`vectors`]), and where
//! that is slow, products of many rows with the multiplications of f32 ([`widened`]).
//!
//! Both operands are first copied to [tiles](pack), so that every load of a tile reads 16 adjacent cache lines. Rows
//! are copied once for a product; some weights at a time are copied to the second-level cache.
//!
//! As with [pairs](super::pairs), terms are rounded to bf16. Subnormal numbers may count as zero: AMX and AVX512-BF16 take
//! them for zero where they multiply, and where they round terms in f32. The terms of a sum are added in their order, so
//! sums don't depend on how a product is divided.

mod instructions;
mod multiply;
mod pack;
mod rounded;
pub(super) mod single;
#[cfg(test)]
pub(super) mod tests;
mod vectors;
mod widened;

pub(super) use instructions::available;
pub(super) use multiply::{Out, Parts, multiply};
use pack::aligned;
pub(super) use pack::bf16x3::{self, Magnitudes};
pub(super) use pack::{
    Side, Source, Tile, blocks, leave_remainders, pack, packed, packed_by_threads, tiles_of,
};
pub(super) use rounded::{columns_times, product_rounded};

use super::interleave::Half;
use super::{Matrix, memory::with_memory};
use crate::Element;
use half::bf16;

/// Returns whether products of so many rows, or sums of so many terms in a gradient, are computed here, because no other product
/// of bf16 is faster on this machine.
pub(super) fn takes(count: usize) -> bool {
    (count >= Tile::LINES && available()) || (count >= 2 * Tile::LINES && widened::is_fastest())
}

/// Returns whether a product of tensors, `m × k` times `k × n`, is computed here: for as many rows as [`takes`] asks for, or by
/// pairs, for which each operand must be used often enough to pay for its copy.
pub(super) fn takes_tensors(rows: usize, sizes: [usize; 3]) -> bool {
    takes(rows) || (!available() && vectors::takes(sizes))
}

/// The number of features of weights that are copied to tiles at a time.
const PANEL: usize = 256;

/// Computes `out = rows · weights`, or `out += …` if `add`, for `count` rows in tiles. Rows of `out` are `stride` apart.
///
/// # Panics
/// Panics if the machine has no unit for tiles, or if `out` is too short.
pub(super) fn product<T: Element>(
    (left, count): (&[Tile], usize),
    weights: Matrix<'_, T>,
    out: &mut [f32],
    stride: usize,
    add: bool,
) {
    let width = PANEL.min(weights.features.max(1));
    let len = tiles_of(width, weights.inputs) * Tile::LEN;
    with_memory(len + Tile::LINES, |memory: &mut [f32]| {
        let panel = aligned(memory);
        for start in (0..weights.features).step_by(PANEL) {
            let width = PANEL.min(weights.features - start);
            let right = &mut panel[..tiles_of(width, weights.inputs)];
            pack(
                Source::features(weights.features(start, 1, width)),
                Side::Right,
                right,
            );
            let out = Out {
                sums: super::gemm::places(&mut out[start..]),
                stride,
                add,
            };
            let sizes = [count, weights.inputs, width];
            // SAFETY: `out` is initialised.
            unsafe { multiply(sizes, Parts::One, left, right, out) };
        }
    });
}

/// Computes as [`product`] does, for rows as they are.
///
/// # Panics
/// Panics as [`product`] does, or if the rows reach beyond their data.
pub(super) fn product_of_rows<T: Element>(
    rows: Source<'_, bf16>,
    weights: Matrix<'_, T>,
    out: &mut [f32],
    add: bool,
) {
    let tiles = tiles_of(rows.count, rows.k);
    with_memory(tiles * Tile::LEN + Tile::LINES, |memory: &mut [f32]| {
        let left = &mut aligned(memory)[..tiles];
        pack(rows, Side::Left, left);
        product((left, rows.count), weights, out, weights.features, add);
    });
}

/// Computes `out = left · right`, or `out += …`, for rows in bf16, or in f32 that are rounded to it, and columns in tiles.
///
/// # Safety
/// If `out.add`, the caller must have written its places.
///
/// # Panics
/// Panics if the machine has no unit for tiles, if there are not the tiles of `length` columns, or if `out` is too short.
pub(super) unsafe fn rows_times_tiles<H: Half>(
    left: Source<'_, H>,
    right: &[Tile],
    length: usize,
    out: Out<'_>,
) {
    let tiles = tiles_of(left.count, left.k);
    with_memory(tiles * Tile::LEN + Tile::LINES, |memory: &mut [f32]| {
        let packed = &mut aligned(memory)[..tiles];
        pack(left, Side::Left, packed);
        // SAFETY: the caller upholds the requirements.
        unsafe { multiply([left.count, left.k, length], Parts::One, packed, right, out) };
    });
}
