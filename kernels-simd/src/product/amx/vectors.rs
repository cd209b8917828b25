//! Products of tiles of bf16 with AVX512-BF16, for machines without AMX. One instruction multiplies a pair of terms of a row,
//! in all lanes, with those of 16 columns.

use super::super::tiles::{self, add_pairs};
use super::Tile;
use super::instructions::Place;
use std::arch::x86_64::*;
use std::sync::OnceLock;

/// Returns whether this machine has the instructions.
pub(super) fn available() -> bool {
    tiles::available() && is_x86_feature_detected!("avx512bf16")
}

/// Returns whether the machine has them, and they take less time than the multiplications of f32 that they replace. On a
/// processor of Intel's with AVX512-BF16 (Emerald Rapids, 173 GFLOP/s on two cores, where products in f32 have up to 342) they
/// take twice as long, on AMD's half as long.
pub(super) fn are_fast() -> bool {
    #[cfg(test)]
    if let Some(instead) = super::tests::instead() {
        return available() && instead == super::tests::Instead::Pairs;
    }
    static IS_INTEL: OnceLock<bool> = OnceLock::new();
    available() && !*IS_INTEL.get_or_init(is_intel)
}

/// Returns whether the processor is Intel's (Intel SDM, volume 2, `CPUID`).
fn is_intel() -> bool {
    let CpuidResult { ebx, ecx, edx, .. } = __cpuid(0);
    [ebx, edx, ecx].map(u32::to_le_bytes).concat() == b"GenuineIntel"
}

/// The least number of rows, of terms and of columns for which copying the operands pays.
const LEAST: usize = 256;

/// Returns whether products of tensors, `m × k` times `k × n`, are faster in tiles than in place on this machine.
pub(super) fn takes(sizes: [usize; 3]) -> bool {
    sizes.into_iter().all(|size| size >= LEAST) && are_fast()
}

/// The vectors of a machine that has the instructions.
pub(super) struct Vectors(());

impl Vectors {
    /// # Panics
    /// Panics if the machine has no [AVX512-BF16](available).
    pub(super) fn new() -> Self {
        assert!(available(), "this machine has no products of pairs of bf16");
        Self(())
    }

    /// Computes as [`Unit::two`](super::instructions::Unit::two) does.
    ///
    /// # Safety
    /// The requirements are those of [`Unit::two`](super::instructions::Unit::two).
    #[inline]
    pub(super) unsafe fn two(
        &self,
        left: [*const Tile; 2],
        right: [*const Tile; 2],
        steps: usize,
        out: Place,
        add: bool,
    ) {
        // SAFETY: the machine has the instructions; the caller upholds the rest.
        unsafe {
            rows::<0, 11>(left, right, steps, out, add);
            rows::<11, 11>(left, right, steps, out, add);
            rows::<22, 10>(left, right, steps, out, add);
        }
    }

    /// Computes as [`Unit::one`](super::instructions::Unit::one) does.
    ///
    /// # Safety
    /// The requirements are those of [`Unit::one`](super::instructions::Unit::one).
    #[inline]
    pub(super) unsafe fn one(
        &self,
        left: *const Tile,
        right: [*const Tile; 2],
        steps: usize,
        out: Place,
        add: bool,
    ) {
        // SAFETY: the machine has the instructions; the caller upholds the rest.
        unsafe {
            rows::<0, 8>([left; 2], right, steps, out, add);
            rows::<8, 8>([left; 2], right, steps, out, add);
        }
    }
}

/// Computes the sums of `ROWS` rows, from the row `FIRST` of two tiles on, by two tiles of columns.
///
/// # Safety
/// The machine must have AVX512-BF16. The other requirements are those of [`Vectors::two`], for these rows.
#[target_feature(enable = "avx512f,avx512bf16")]
unsafe fn rows<const FIRST: usize, const ROWS: usize>(
    left: [*const Tile; 2],
    right: [*const Tile; 2],
    steps: usize,
    out: Place,
    add: bool,
) {
    let place = |row: usize| out.first.wrapping_add((FIRST + row) * out.stride);
    let mut sums = [[_mm512_setzero_ps(); 2]; ROWS];
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
        // SAFETY: each list has a tile for each step.
        let (left, right) = unsafe {
            let tile = |list: *const Tile| list.add(step).cast::<f32>();
            (left.map(tile), right.map(tile))
        };
        for pair in 0..Tile::LINES {
            // SAFETY: a tile has a line of 16 columns for each pair of terms.
            let columns = unsafe { right.map(|tile| _mm512_load_ps(tile.add(pair * Tile::LINES))) };
            for (row, sums) in sums.iter_mut().enumerate() {
                let row = FIRST + row;
                let at = row % Tile::LINES * Tile::LINES + pair;
                // SAFETY: a tile has a line of 16 pairs for each of its rows.
                let terms = _mm512_set1_ps(unsafe { *left[row / Tile::LINES].add(at) });
                for (sum, columns) in sums.iter_mut().zip(columns) {
                    *sum = add_pairs(*sum, columns, terms);
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
