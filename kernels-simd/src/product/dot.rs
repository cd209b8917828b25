//! Products of few rows with weights whose inputs are contiguous: dot products, four features at a time, so
//! that every weight is read from memory once, in order, and nothing is packed.

use super::transpose::{SQUARE, Turn, With, with_turn};
use super::{Gemm, Matrix, Rows, panel};
use crate::Element;
use pulp::Simd;

/// The number of rows from which packing them for `gemm` pays.
pub(super) const ROWS: usize = 8;

/// The number of features of a tile. With [`TALL`] rows, their sums fill the registers of AVX-512.
const WIDE: usize = 4;
const TALL: usize = 6;

/// The number of features that are read and converted together. They stay in the second-level cache while each
/// tile of rows, which is in the first-level cache, is multiplied with them.
const PANEL: usize = 16 * WIDE;

/// Returns `true` if there is a kernel for the type. f64 has none: it is for checks, where speed does not matter.
pub(super) fn has<A: Gemm>() -> bool {
    A::as_f32(&[]).is_some()
}

/// Computes the product as [`super::serial`] does, for f32.
pub(super) fn dot<T: Element>(
    rows: &Rows<'_, T::Acc>,
    weights: Matrix<'_, T>,
    out: &mut [T::Acc],
    stride: usize,
    add: bool,
) where
    T::Acc: Gemm,
{
    let count = rows.count();
    let rows = T::Acc::as_f32(rows.values()).expect("asked before");
    let out = T::Acc::as_f32_mut(out).expect("asked before");
    let mut scratch = Vec::new();
    for start in (0..weights.features).step_by(PANEL) {
        let width = PANEL.min(weights.features - start);
        let panel = panel::read(weights.features(start, 1, width), &mut scratch);
        let data = T::Acc::as_f32(panel.data).expect("asked before");
        let task = Dot {
            rows,
            count,
            inputs: panel.inputs,
            weights: data,
            features: width,
            feature_stride: panel.feature_stride,
            out: &mut out[start..],
            stride,
            add,
        };
        task.run();
    }
}

struct Dot<'a> {
    rows: &'a [f32],
    count: usize,
    inputs: usize,
    weights: &'a [f32],
    features: usize,
    feature_stride: usize,
    out: &'a mut [f32],
    stride: usize,
    add: bool,
}

impl<T: Turn> pulp::WithSimd for With<Dot<'_>, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let (mut task, turn) = (self.task, self.turn);
        let mut row = 0;
        while row < task.count {
            let tall = TALL.min(task.count - row);
            match tall {
                6 => task.row_tile::<S, T, 6>(simd, turn, row),
                5 => task.row_tile::<S, T, 5>(simd, turn, row),
                4 => task.row_tile::<S, T, 4>(simd, turn, row),
                3 => task.row_tile::<S, T, 3>(simd, turn, row),
                2 => task.row_tile::<S, T, 2>(simd, turn, row),
                _ => task.row_tile::<S, T, 1>(simd, turn, row),
            }
            row += tall;
        }
    }
}

/// The lane sums of a tile. Each row has a square, features by lanes.
type Squares<const R: usize> = [[[f32; SQUARE]; SQUARE]; R];

impl Dot<'_> {
    fn run(self) {
        with_turn!(self);
    }

    /// Multiplies `R` rows by all features.
    #[inline(always)]
    fn row_tile<S: Simd, T: Turn, const R: usize>(&mut self, simd: S, turn: T, row: usize) {
        for start in (0..self.features).step_by(SQUARE) {
            let count = SQUARE.min(self.features - start);
            // With vectors of fewer lanes, the others stay zero.
            let mut squares = [[[0.0; SQUARE]; SQUARE]; R];
            let mut feature = 0;
            while count - feature >= WIDE {
                self.tile::<S, R, WIDE>(simd, row, start, feature, &mut squares);
                feature += WIDE;
            }
            while feature < count {
                self.tile::<S, R, 1>(simd, row, start, feature, &mut squares);
                feature += 1;
            }
            for (r, square) in squares.into_iter().enumerate() {
                let mut sums = turn.sum_lines(square);
                self.add_rest::<S>(row + r, start, &mut sums[..count]);
                let out = (row + r) * self.stride + start;
                let out = &mut self.out[out..out + count];
                if self.add {
                    out.iter_mut()
                        .zip(&sums)
                        .for_each(|(out, sum)| *out += *sum);
                } else {
                    out.copy_from_slice(&sums[..count]);
                }
            }
        }
    }

    /// Computes the lane sums of `R` rows by `W` features, without the inputs that don't fill a vector.
    #[inline(always)]
    fn tile<S: Simd, const R: usize, const W: usize>(
        &self,
        simd: S,
        row: usize,
        start: usize,
        feature: usize,
        squares: &mut Squares<R>,
    ) {
        let zero = simd.splat_f32s(0.0);
        let mut sums = [[zero; W]; R];
        let rows: [_; R] = std::array::from_fn(|i| self.row::<S>(row + i).0);
        let weights: [_; W] = std::array::from_fn(|i| self.weight::<S>(start + feature + i).0);
        let whole = rows[0].len();
        // All lengths are the same, visibly for the compiler, so that the loop has no bounds checks.
        assert!(rows.iter().all(|parts| parts.len() == whole));
        assert!(weights.iter().all(|parts| parts.len() == whole));
        for i in 0..whole {
            // Written as a loop: `map` is not inlined and would pass vectors through memory.
            let mut w = [zero; W];
            for c in 0..W {
                w[c] = weights[c][i];
            }
            for r in 0..R {
                let x = rows[r][i];
                for c in 0..W {
                    sums[r][c] = simd.mul_add_e_f32s(x, w[c], sums[r][c]);
                }
            }
        }
        for r in 0..R {
            for c in 0..W {
                let lanes: &[f32] = bytemuck::cast_slice(std::slice::from_ref(&sums[r][c]));
                squares[r][feature + c][..lanes.len()].copy_from_slice(lanes);
            }
        }
    }

    /// Adds the products of the inputs that don't fill a vector.
    #[inline(always)]
    fn add_rest<S: Simd>(&self, row: usize, start: usize, sums: &mut [f32]) {
        let (_, row) = self.row::<S>(row);
        if row.is_empty() {
            return;
        }
        for (feature, sum) in sums.iter_mut().enumerate() {
            let (_, weight) = self.weight::<S>(start + feature);
            *sum += row.iter().zip(weight).map(|(x, w)| x * w).sum::<f32>();
        }
    }

    #[inline(always)]
    fn row<S: Simd>(&self, row: usize) -> (&[S::f32s], &[f32]) {
        S::as_simd_f32s(&self.rows[row * self.inputs..(row + 1) * self.inputs])
    }

    #[inline(always)]
    fn weight<S: Simd>(&self, feature: usize) -> (&[S::f32s], &[f32]) {
        let start = feature * self.feature_stride;
        S::as_simd_f32s(&self.weights[start..start + self.inputs])
    }
}
