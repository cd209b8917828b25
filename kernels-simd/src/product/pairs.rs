//! Products of bf16 with AVX512-BF16, which multiplies two adjacent elements of each operand and adds both products
//! to a sum in f32. On AMD's processors this has twice the rate of f32, and weights whose inputs are contiguous are read
//! without conversion. In the kernels and in their operands, a pair takes the place of an f32. Tiles multiply more rows
//! where they are faster ([`amx`]).
//!
//! Rows are rounded to bf16 first. This is exact for rows from a tensor; gradients and
//! results between two products are rounded as the modules round them. The instruction treats
//! subnormal numbers as zero.

use super::amx::{self, Side, Source, Tile};
use super::gemm::{Kind, Strides, Terms};
use super::interleave::Interleave;
use super::memory::with_memory;
use super::quads::Quads;
use super::rows::{Rows, whole};
use super::transpose::Transpose;
use super::{Gemm, Matrix, tiles};
use crate::Element;
use crate::lanes::vectorize;
use half::bf16;
use std::borrow::Cow;
use std::sync::OnceLock;

/// Returns whether this machine has the instructions and `T` is bf16.
pub(super) fn available<T: Element>() -> bool {
    std::any::TypeId::of::<T>() == std::any::TypeId::of::<bf16>()
        && tiles::available()
        && is_x86_feature_detected!("avx512bf16")
}

/// Rows in bf16, with adjacent elements in pairs.
pub struct Pairs<'a> {
    /// The pairs, row by row.
    values: Cow<'a, [f32]>,
    count: usize,
    /// The number of pairs of a row.
    length: usize,
    whole: usize,
    transposed: OnceLock<Vec<f32>>,
    quads: OnceLock<Quads>,
    tiles: OnceLock<Vec<Tile>>,
}

impl<'a> Pairs<'a> {
    /// Rounds rows to bf16. Returns `None` if they have an odd length.
    pub(super) fn new(rows: &[f32], count: usize, inputs: usize) -> Option<Self> {
        if !inputs.is_multiple_of(2) {
            return None;
        }
        let mut values = vec![0.0; rows.len() / 2];
        vectorize(RoundTo {
            from: rows,
            to: bytemuck::cast_slice_mut(&mut values),
        });
        Some(Self::of(Cow::Owned(values), count, inputs))
    }

    /// Reads rows in bf16 where they are. Returns `None` if the machine has no instruction for them, or if the rows, or
    /// the inputs of a feature of the weights, are not whole pairs.
    pub(super) fn in_place<T: Element>(
        rows: &'a [T],
        count: usize,
        weights: Matrix<'_, T>,
    ) -> Option<Self> {
        let inputs = weights.inputs;
        if !available::<T>() || !inputs.is_multiple_of(2) {
            return None;
        }
        if weights.input_stride == 1 {
            adjacent(weights)?;
        }
        let rows = bytemuck::try_cast_slice(rows).ok()?;
        Some(Self::of(Cow::Borrowed(rows), count, inputs))
    }

    fn of(values: Cow<'a, [f32]>, count: usize, inputs: usize) -> Self {
        Self {
            values,
            count,
            length: inputs / 2,
            whole: whole::<f32>(count, inputs / 2),
            transposed: OnceLock::new(),
            quads: OnceLock::new(),
            tiles: OnceLock::new(),
        }
    }

    /// Returns the rows in tiles.
    pub(super) fn tiles(&self) -> &[Tile] {
        self.tiles.get_or_init(|| {
            let rows = bytemuck::cast_slice::<f32, bf16>(&self.values);
            amx::packed(Source::rows(rows, self.count, 2 * self.length), Side::Left)
        })
    }

    fn lanes(&self) -> usize {
        self.whole.next_multiple_of(tiles::LANES)
    }

    fn transposed(&self) -> &[f32] {
        self.transposed.get_or_init(|| {
            let mut to = vec![0.0; self.length * self.lanes()];
            let transpose = Transpose {
                from: &self.values,
                rows: self.whole,
                columns: self.length,
                stride: self.length,
                to: &mut to,
                to_stride: self.lanes(),
                add: false,
            };
            transpose.run();
            to
        })
    }

    fn quads(&self) -> &Quads {
        let rest = &self.values[self.whole * self.length..];
        self.quads.get_or_init(|| Quads::new(rest, self.length))
    }
}

struct RoundTo<'a> {
    from: &'a [f32],
    to: &'a mut [bf16],
}

impl pulp::WithSimd for RoundTo<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _: S) {
        for (to, from) in self.to.iter_mut().zip(self.from) {
            *to = <bf16 as Element>::round(*from);
        }
    }
}

/// Computes `out = rows · weights` or `out += …` as [`super::serial`] does, if this machine and these operands
/// allow it. Returns whether they do.
pub(super) fn product<T: Element>(
    rows: &Rows<'_, T::Acc>,
    weights: Matrix<'_, T>,
    out: &mut [T::Acc],
    stride: usize,
    add: bool,
) -> bool
where
    T::Acc: Gemm,
{
    if !available::<T>() {
        return false;
    }
    let (Some(pairs), Some(out)) = (rows.pairs(), T::Acc::as_f32_mut(out)) else {
        return false;
    };
    multiply(pairs, weights, out, stride, add)
}

/// Computes as [`product`] does.
///
/// # Panics
/// Panics if the weights are not bf16, or if the machine has no instruction for pairs.
pub(super) fn multiply<T: Element>(
    pairs: &Pairs<'_>,
    weights: Matrix<'_, T>,
    out: &mut [f32],
    stride: usize,
    add: bool,
) -> bool {
    assert!(
        available::<T>(),
        "this machine has no products of these pairs"
    );
    if pairs.count == 0 {
        return true;
    }
    if amx::takes(pairs.count) {
        let rows = (pairs.tiles(), pairs.count);
        amx::product(rows, weights, out, stride, add);
        return true;
    }
    if weights.input_stride == 1 {
        let Some(weights) = adjacent(weights) else {
            return false;
        };
        by_features(pairs, weights, out, stride, add);
    } else {
        let data: &[bf16] = bytemuck::cast_slice(weights.data);
        by_rows(pairs, weights, data, out, stride, add);
    }
    true
}

/// Returns weights in bf16 whose inputs are contiguous as weights of pairs. Returns `None` if a feature begins within a
/// pair.
fn adjacent<T: Element>(weights: Matrix<'_, T>) -> Option<Matrix<'_, f32>> {
    let data: &[bf16] = bytemuck::cast_slice(weights.data);
    let data = bytemuck::try_cast_slice(&data[..data.len() / 2 * 2]).ok()?;
    weights.feature_stride.is_multiple_of(2).then_some(Matrix {
        data,
        inputs: weights.inputs / 2,
        features: weights.features,
        input_stride: 1,
        feature_stride: weights.feature_stride / 2,
    })
}

fn by_features(
    pairs: &Pairs<'_>,
    weights: Matrix<'_, f32>,
    out: &mut [f32],
    stride: usize,
    add: bool,
) {
    for start in (0..weights.features).step_by(super::PANEL) {
        let width = super::PANEL.min(weights.features - start);
        let weights = weights.features(start, 1, width);
        let out = &mut out[start..];
        if pairs.whole > 0 {
            tiled(
                Kind::ByFeatures,
                [pairs.whole, pairs.length, width],
                (
                    pairs.transposed(),
                    Strides {
                        row: 1,
                        column: pairs.lanes(),
                    },
                ),
                (
                    weights.data,
                    Strides {
                        row: 1,
                        column: weights.feature_stride,
                    },
                ),
                (out, stride),
                add,
            );
        }
        if pairs.whole < pairs.count {
            let out = &mut out[pairs.whole * stride..];
            pairs
                .quads()
                .multiply(weights, out, stride, add, Terms::Pairs);
        }
    }
}

/// The number of features of a panel of weights whose inputs are not adjacent and are copied to pairs.
const PANEL: usize = 128;

fn by_rows<T>(
    pairs: &Pairs<'_>,
    weights: Matrix<'_, T>,
    data: &[bf16],
    out: &mut [f32],
    stride: usize,
    add: bool,
) {
    let width = PANEL.min(weights.features);
    with_memory(pairs.length * width, |panel| {
        by_panels(pairs, weights, data, panel, (out, stride), add);
    });
}

/// Computes as [`by_rows`] does, in memory for a panel.
fn by_panels<T>(
    pairs: &Pairs<'_>,
    weights: Matrix<'_, T>,
    data: &[bf16],
    panel: &mut [f32],
    (out, stride): (&mut [f32], usize),
    add: bool,
) {
    for start in (0..weights.features).step_by(PANEL) {
        let width = PANEL.min(weights.features - start);
        let panel = &mut panel[..pairs.length * width];
        vectorize(Interleave {
            // Without inputs, the weights have no elements to start at.
            from: &data[(start * weights.feature_stride).min(data.len())..],
            lines: 2 * pairs.length,
            length: width,
            line_stride: weights.input_stride,
            stride: weights.feature_stride,
            to: panel,
        });
        tiled(
            Kind::ByRows,
            [pairs.count, pairs.length, width],
            (
                &pairs.values,
                Strides {
                    row: pairs.length,
                    column: 1,
                },
            ),
            (
                panel,
                Strides {
                    row: width,
                    column: 1,
                },
            ),
            (&mut out[start..], stride),
            add,
        );
    }
}

fn tiled(
    kind: Kind,
    sizes: [usize; 3],
    left: (&[f32], Strides),
    right: (&[f32], Strides),
    (out, stride): (&mut [f32], usize),
    add: bool,
) {
    let strides = Strides {
        row: stride,
        column: 1,
    };
    let out = (super::gemm::places(out), strides);
    // SAFETY: `out` is initialised.
    let done = unsafe { super::gemm::tiled(kind, sizes, left, right, out, add, Terms::Pairs) };
    assert!(done, "the strides are those of the kernels");
}

#[cfg(test)]
mod tests {
    use super::super::{amx::tests::without_and_with, tested};
    use super::*;

    /// Returns whole numbers, which bf16 holds. Sums of their products are exact in f32.
    fn value(i: usize) -> f32 {
        ((i * 7919) % 101) as f32 - 50.0
    }

    /// Returns strides of weights: contiguous inputs or features, with gaps, or neither.
    fn strides(inputs: usize, features: usize) -> [(usize, usize); 6] {
        [
            (1, inputs),
            (1, inputs + 6),
            (features, 1),
            (features + 3, 1),
            (2 * features + 1, 2),
            (3, 3 * inputs),
        ]
    }

    /// Multiplies rows by weights that are `input_stride` and `feature_stride` apart, if the kernel
    /// takes them, and compares the result with the product in f64. Every slice has exactly the required
    /// length.
    fn check(
        [count, inputs, features]: [usize; 3],
        (input_stride, feature_stride): (usize, usize),
        row: impl Fn(usize) -> f32,
    ) -> bool {
        let values: Vec<f32> = (0..count * inputs).map(row).collect();
        let length = (inputs - 1) * input_stride + (features - 1) * feature_stride + 1;
        let data: Vec<bf16> = (0..length).map(|i| bf16::from_f32(value(i + 13))).collect();
        let weights = Matrix {
            data: &data,
            inputs,
            features,
            input_stride,
            feature_stride,
        };
        let rows = Rows::new(&values, count, inputs);
        for (stride, add) in [(features, false), (features, true), (features + 3, true)] {
            let mut out = vec![7.0; (count - 1) * stride + features];
            if !product(&rows, weights, &mut out, stride, add) {
                assert!(out.iter().all(|out| *out == 7.0), "refused, but written");
                return false;
            }
            for (at, out) in out.into_iter().enumerate() {
                let (row, feature) = (at / stride, at % stride);
                let exact: f64 = (0..inputs)
                    .map(|input| {
                        let x = bf16::from_f32(values[row * inputs + input]);
                        let w =
                            data[input * input_stride + feature.min(features - 1) * feature_stride];
                        x.to_f64() * w.to_f64()
                    })
                    .sum();
                let expected = match (feature < features, add) {
                    // An element between rows.
                    (false, _) => 7.0,
                    (true, add) => exact + if add { 7.0 } else { 0.0 },
                };
                assert_eq!(
                    f64::from(out),
                    expected,
                    "{count} × {inputs} × {features}, {input_stride} and {feature_stride} apart: row \
                     {row}, feature {feature}"
                );
            }
        }
        true
    }

    /// Tests numbers of rows around quads and vectors, inputs that are and are not a multiple of these,
    /// and features around panels of both kinds.
    #[test]
    fn products_of_all_sizes() {
        if !tested(available::<bf16>(), "AVX512-BF16") {
            return;
        }
        without_and_with(|| {
            for count in [1, 3, 4, 5, 12, 13, 15, 16, 17, 28, 29, 33, 51] {
                for inputs in [2, 6, 8, 10, 24, 66] {
                    for features in [1, 5, 8, 9, 63, 65, 127, 129] {
                        for at in strides(inputs, features) {
                            if at == (1, 1) {
                                continue; // One feature with inputs an odd number apart: see below.
                            }
                            let sizes = [count, inputs, features];
                            assert!(check(sizes, at, value), "{sizes:?} at {at:?} are not taken");
                        }
                    }
                }
            }
        });
    }

    /// Tests many inputs. A tile takes only some of them at a time.
    #[test]
    fn products_of_many_inputs() {
        if !tested(available::<bf16>(), "AVX512-BF16") {
            return;
        }
        without_and_with(|| {
            for count in [2, 16, 31] {
                for inputs in [1026, 2056] {
                    for at in strides(inputs, 7) {
                        assert!(check([count, inputs, 7], at, |i| value(i) / 8.0));
                    }
                }
            }
        });
    }

    /// Tests that rows are rounded to bf16, to the nearest, ties to even.
    #[test]
    fn rows_are_rounded_first() {
        if !tested(available::<bf16>(), "AVX512-BF16") {
            return;
        }
        without_and_with(|| {
            let row = |i: usize| 128.0 + (i % 16) as f32 / 8.0;
            for at in strides(6, 9) {
                assert!(check([18, 6, 9], at, row));
            }
        });
    }

    /// Tests that nothing is written where pairs are impossible; other kernels take these products.
    #[test]
    fn odd_lengths_are_not_taken() {
        if !tested(available::<bf16>(), "AVX512-BF16") {
            return;
        }
        for inputs in [1, 3, 65] {
            for at in strides(inputs, 5) {
                assert!(!check([4, inputs, 5], at, value), "an odd number of inputs");
            }
        }
        for features in [1, 5] {
            assert!(
                !check([4, 6, features], (1, 7), value),
                "features an odd number apart"
            );
            assert!(check([4, 6, features], (1, 8), value));
        }
    }
}
