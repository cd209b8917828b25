//! Few rows times weights whose inputs lie together: dot products, four features at a time, so
//! that every weight is read from memory once, in order, and nothing is packed.

use super::{Gemm, Matrix, panel};
use crate::cpu::Element;
use pulp::Simd;

/// From this many rows on, packing them for `gemm` pays.
pub(super) const ROWS: usize = 24;

/// Features of a tile: with [`TALL`] rows their sums fill the registers of AVX-512.
const WIDE: usize = 4;
const TALL: usize = 6;

/// Features that are converted together.
const CONVERTED: usize = 4 * WIDE;

/// Whether there is a kernel for the type. f64 is for checking, not for speed.
pub(super) fn has<A: Gemm>() -> bool {
    A::as_f32(&[]).is_some()
}

/// As [`super::serial`], for f32.
pub(super) fn dot<T: Element>(
    rows: &[T::Acc],
    count: usize,
    weights: Matrix<'_, T>,
    out: &mut [T::Acc],
    stride: usize,
    add: bool,
) where
    T::Acc: Gemm,
{
    let rows = T::Acc::as_f32(rows).expect("asked before");
    let out = T::Acc::as_f32_mut(out).expect("asked before");
    let mut scratch = Vec::new();
    let arch = pulp::Arch::new();
    for start in (0..weights.features).step_by(CONVERTED) {
        let width = CONVERTED.min(weights.features - start);
        let panel = panel::read(weights.features(start, 1, width), &mut scratch);
        let data = T::Acc::as_f32(panel.data).expect("asked before");
        arch.dispatch(Dot {
            rows,
            count,
            inputs: panel.inputs,
            weights: data,
            features: width,
            feature_stride: panel.feature_stride,
            out: &mut out[start..],
            stride,
            add,
        });
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

impl pulp::WithSimd for Dot<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let mut feature = 0;
        while feature < self.features {
            let wide = if self.features - feature >= WIDE {
                self.tiles::<S, WIDE>(simd, feature);
                WIDE
            } else {
                self.tiles::<S, 1>(simd, feature);
                1
            };
            feature += wide;
        }
    }
}

impl Dot<'_> {
    /// `W` features of every row.
    #[inline(always)]
    fn tiles<S: Simd, const W: usize>(&mut self, simd: S, feature: usize) {
        let mut row = 0;
        while row < self.count {
            let tall = TALL.min(self.count - row);
            match tall {
                6 => self.tile::<S, 6, W>(simd, row, feature),
                5 => self.tile::<S, 5, W>(simd, row, feature),
                4 => self.tile::<S, 4, W>(simd, row, feature),
                3 => self.tile::<S, 3, W>(simd, row, feature),
                2 => self.tile::<S, 2, W>(simd, row, feature),
                _ => self.tile::<S, 1, W>(simd, row, feature),
            }
            row += tall;
        }
    }

    /// `R` rows by `W` features.
    #[inline(always)]
    fn tile<S: Simd, const R: usize, const W: usize>(
        &mut self,
        simd: S,
        row: usize,
        feature: usize,
    ) {
        let zero = simd.splat_f32s(0.0);
        let mut sums = [[zero; W]; R];
        let rows: [_; R] = std::array::from_fn(|i| {
            let start = (row + i) * self.inputs;
            S::as_simd_f32s(&self.rows[start..start + self.inputs])
        });
        let weights: [_; W] = std::array::from_fn(|i| {
            let start = (feature + i) * self.feature_stride;
            S::as_simd_f32s(&self.weights[start..start + self.inputs])
        });
        let whole = rows[0].0.len();
        // The same length for all, where the compiler sees it: no bounds are checked inside.
        let row_parts = rows.map(|(parts, _)| &parts[..whole]);
        let weight_parts = weights.map(|(parts, _)| &parts[..whole]);
        for i in 0..whole {
            let w = weight_parts.map(|parts| parts[i]);
            for r in 0..R {
                let x = row_parts[r][i];
                for c in 0..W {
                    sums[r][c] = simd.mul_add_e_f32s(x, w[c], sums[r][c]);
                }
            }
        }
        for r in 0..R {
            let start = (row + r) * self.stride + feature;
            let out = &mut self.out[start..start + W];
            for c in 0..W {
                let rest: f32 = rows[r].1.iter().zip(weights[c].1).map(|(x, w)| x * w).sum();
                let sum = simd.reduce_sum_f32s(sums[r][c]) + rest;
                out[c] = if self.add { out[c] + sum } else { sum };
            }
        }
    }
}
