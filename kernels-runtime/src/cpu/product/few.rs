//! Products of few rows with weights whose features are contiguous. Every weight is read from memory once, in order. The
//! sums of a part of the features stay in the first-level cache.

use super::{Gemm, Matrix};
use crate::cpu::lanes::{Task, dispatch};
use crate::cpu::{Context, Element, LANES, Lanes as _, Number as _, Whole, block};

/// The number of rows from which other products are faster.
pub(super) const ROWS: usize = 8;

/// The number of inputs whose weights are added to the sums at a time.
const INPUTS: usize = 8;

/// Returns the number of features of a part that is computed by itself. It depends only on the shape, and so do the sums.
pub(super) fn part(features: usize) -> usize {
    features.div_ceil(16).next_multiple_of(64).clamp(64, 512)
}

/// Adds the products of rows with weights to `sums`, `rows × features`.
///
/// # Panics
/// Panics if the rows have another number of inputs than the weights, if the features are not contiguous, or if an operand
/// is too short.
pub(super) fn add_products<T: Element>(rows: &[T::Acc], weights: Matrix<'_, T>, sums: &mut [T::Acc])
where
    T::Acc: Gemm,
{
    assert!(weights.feature_stride == 1, "features are not contiguous");
    if weights.inputs == 0 || weights.features == 0 {
        return;
    }
    let (count, rest) = (rows.len() / weights.inputs, rows.len() % weights.inputs);
    assert!(
        rest == 0 && sums.len() == count * weights.features,
        "{} elements and {} sums are not rows of {} inputs and {} features",
        rows.len(),
        sums.len(),
        weights.inputs,
        weights.features
    );
    dispatch(Few {
        rows,
        weights,
        sums,
    });
}

struct Few<'a, T: Element> {
    rows: &'a [T::Acc],
    weights: Matrix<'a, T>,
    sums: &'a mut [T::Acc],
}

impl<T: Element> Task for Few<'_, T>
where
    T::Acc: Element<Acc = T::Acc>,
{
    type Acc = T::Acc;
    type Output = ();

    #[inline(always)]
    fn run<C: Context>(mut self, c: C) {
        let mut input = 0;
        while input + INPUTS <= self.weights.inputs {
            self.add::<C, INPUTS>(c, input);
            input += INPUTS;
        }
        while input < self.weights.inputs {
            self.add::<C, 1>(c, input);
            input += 1;
        }
    }
}

impl<T: Element> Few<'_, T>
where
    T::Acc: Element<Acc = T::Acc>,
{
    /// Adds the products with `N` inputs.
    #[inline(always)]
    fn add<C: Context, const N: usize>(&mut self, c: C, input: usize) {
        let Matrix {
            data,
            inputs,
            features,
            input_stride,
            ..
        } = self.weights;
        let mut lines: [&[T]; N] = [&[]; N];
        for (i, line) in lines.iter_mut().enumerate() {
            *line = &data[(input + i) * input_stride..][..features];
        }
        let rows = self.rows.chunks_exact(inputs);
        for (row, sums) in rows.zip(self.sums.chunks_exact_mut(features)) {
            let mut factors = [C::Of::<T::Acc>::splat(c, row[input]); N];
            for (i, factor) in factors.iter_mut().enumerate() {
                *factor = C::Of::<T::Acc>::splat(c, row[input + i]);
            }
            let (blocks, rest) = sums.as_chunks_mut::<LANES>();
            let whole = blocks.len();
            for (at, sums) in blocks.iter_mut().enumerate() {
                let mut sum = C::Of::<T::Acc>::read(c, sums);
                for (line, factor) in lines.iter().zip(&factors) {
                    sum = block::<C, T, Whole>(c, line, at).mul_add(*factor, sum);
                }
                *sums = sum.values();
            }
            for (i, sum) in rest.iter_mut().enumerate() {
                for (line, factor) in lines.iter().zip(&row[input..]) {
                    *sum += line[whole * LANES + i].load() * *factor;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::Real;
    use burn::tensor::{bf16, f16};

    fn value(i: usize) -> f64 {
        ((i * 7919) % 101) as f64 - 50.0
    }

    /// Compares products of whole numbers, whose sums are exact in every type.
    fn check<T: Element>(of: fn(f64) -> T)
    where
        T::Acc: Gemm,
    {
        for count in 1..ROWS {
            for (inputs, features) in [(1, 1), (7, 15), (8, 16), (9, 40), (24, 64), (33, 65)] {
                let stride = features + 3;
                let rows: Vec<T> = (0..count * inputs).map(|i| of(value(i))).collect();
                let rows: Vec<T::Acc> = rows.into_iter().map(Element::load).collect();
                let length = (inputs - 1) * stride + features;
                let data: Vec<T> = (0..length).map(|i| of(value(i + 13))).collect();
                let weights = Matrix {
                    data: &data,
                    inputs,
                    features,
                    input_stride: stride,
                    feature_stride: 1,
                };
                let mut sums = vec![<T::Acc as Real>::ONE; count * features];
                add_products(&rows, weights, &mut sums);
                for (at, sum) in sums.into_iter().enumerate() {
                    let (row, feature) = (at / features, at % features);
                    let terms = (0..inputs)
                        .map(|i| value(row * inputs + i) * value(i * stride + feature + 13));
                    assert_eq!(
                        burn::tensor::ElementConversion::elem::<f64>(sum),
                        terms.sum::<f64>() + 1.0,
                        "{count} × {inputs} × {features}"
                    );
                }
            }
        }
    }

    #[test]
    fn products_of_every_type() {
        check::<f32>(|x| x as f32);
        check::<f64>(|x| x);
        check::<bf16>(bf16::from_f64);
        check::<f16>(f16::from_f64);
    }

    #[test]
    fn parts_are_whole_blocks() {
        for features in [1, 63, 64, 576, 1536, 5000, 49_152] {
            assert!(part(features).is_multiple_of(64) && part(features) <= 512);
        }
    }
}
