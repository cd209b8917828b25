//! Products of tensors in bf16 that are rounded once.

use super::super::memory::with_memory;
use super::super::rounded::{finish, in_columns};
use super::super::{Gemm, Matrix, panel};
use super::instructions::available;
use super::pack::pack_by_threads;
use super::{Out, Parts, Side, Source, Tile, aligned, multiply, pack, tiles_of};
use crate::{Element, Unwritten};
use half::bf16;

/// The number of rows whose sums are computed before they are rounded. They stay in the second-level cache.
const ROWS: usize = 64;

/// The smallest and the largest number of columns that a thread takes at a time.
const NARROW: usize = 64;
const WIDE: usize = 256;

/// Returns the number of parts that are enough. Vectors take longer for a part, and threads wait for the last one.
fn enough() -> usize {
    match available() {
        true => 8,
        false => 16,
    }
}

/// Computes as [`super::super::product_rounded`] does, for weights in bf16.
///
/// # Panics
/// Panics if the machine has no unit for tiles, if `T` is not bf16, or if the sizes don't go together.
pub(in super::super) fn product_rounded<T: Element>(
    rows: &[T],
    weights: Matrix<'_, T>,
    bias: Option<&[T::Acc]>,
    out: Unwritten<'_, T>,
    parallel: bool,
) where
    T::Acc: Gemm,
{
    let count = out.len() / weights.features;
    let left = Source::rows(terms(rows), count, weights.inputs);
    run(left, Source::features(weights), bias, out, parallel);
}

/// Computes as [`super::super::columns_times`] does, for matrices in bf16.
///
/// # Panics
/// The conditions are those of [`product_rounded`].
pub(in super::super) fn columns_times<T: Element>(
    count: usize,
    (left, lines): (&[T], usize),
    (right, length): (&[T], usize),
    out: Unwritten<'_, T>,
    parallel: bool,
) where
    T::Acc: Gemm,
{
    let left = Source::columns(terms(left), count, lines, 0..lines);
    let right = Source::columns(terms(right), count, length, 0..length);
    run(left, right, None, out, parallel);
}

fn terms<T: Element>(values: &[T]) -> &[bf16] {
    panel::same(values).expect("tiles are of bf16")
}

fn run<T: Element>(
    left: Source<'_, bf16>,
    right: Source<'_, bf16>,
    bias: Option<&[T::Acc]>,
    out: Unwritten<'_, T>,
    parallel: bool,
) where
    T::Acc: Gemm,
{
    let [m, k, n] = [left.count, left.k, right.count];
    assert!(k == right.k && out.len() == m * n, "{m} × {k} by {k} × {n}");
    let tiles = tiles_of(m, k) * Tile::LEN;
    with_memory(tiles + Tile::LINES, |memory: &mut [f32]| {
        let packed = &mut aligned(memory)[..tiles_of(m, k)];
        pack_by_threads(left, Side::Left, packed, parallel);
        let width = (n / enough()).next_multiple_of(NARROW).clamp(NARROW, WIDE);
        in_columns(out, n, width, parallel, |mut part| {
            let right = right.part(part.start()..part.start() + part.width());
            let (tiles, width) = (tiles_of(right.count, k), right.count);
            let sums = ROWS.min(m) * width;
            let all = tiles + sums.div_ceil(Tile::LEN);
            with_memory(all * Tile::LEN + Tile::LINES, |memory: &mut [f32]| {
                // Sums are aligned as tiles are, so that lines of 16 sums are cache lines.
                let (panel, rest) = aligned(memory).split_at_mut(tiles);
                let sums = &mut bytemuck::cast_slice_mut(rest)[..sums];
                pack(right, Side::Right, panel);
                for first in (0..m).step_by(ROWS) {
                    let rows = ROWS.min(m - first);
                    let left = &packed[tiles_of(first, k)..tiles_of(first + rows, k)];
                    let sums = &mut sums[..rows * width];
                    let out = Out {
                        sums: super::super::gemm::places(sums),
                        stride: width,
                        add: false,
                    };
                    // SAFETY: nothing is added.
                    unsafe { multiply([rows, k, width], Parts::One, left, panel, out) };
                    let sums = T::Acc::of_f32(sums).expect("bf16 is summed in f32");
                    finish(sums, bias, &mut part);
                }
            });
        });
    });
}
