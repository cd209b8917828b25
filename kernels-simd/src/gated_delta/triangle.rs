//! Products of the lower triangles of a chunk.

use super::CHUNK;
use crate::product::{Block, Gemm, multiply_blocks};

/// The number of rows of a lower triangle that are multiplied at once.
const ROWS: usize = 32;

/// Computes the product of a lower triangle, whose rows are `CHUNK` apart, and `len` rows, or adds it.
pub(super) fn below<A: Gemm>(
    len: usize,
    left: &[A],
    (right, width): (&[A], usize),
    out: &mut [A],
    add: bool,
) {
    for start in (0..len).step_by(ROWS) {
        let end = len.min(start + ROWS);
        multiply_blocks(
            [end - start, end, width],
            Block::rows(&left[start * CHUNK..], CHUNK),
            Block::rows(right, width),
            (&mut out[start * width..], width),
            add,
        );
    }
}

/// Computes the product of a transposed lower triangle and `len` rows, or adds it.
pub(super) fn above<A: Gemm>(
    len: usize,
    left: &[A],
    (right, width): (&[A], usize),
    out: &mut [A],
    add: bool,
) {
    for start in (0..len).step_by(ROWS) {
        let end = len.min(start + ROWS);
        multiply_blocks(
            [end - start, len - start, width],
            Block::rows(&left[start * CHUNK + start..], CHUNK).transposed(),
            Block::rows(&right[start * width..], width),
            (&mut out[start * width..], width),
            add,
        );
    }
}
