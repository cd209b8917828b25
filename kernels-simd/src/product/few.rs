//! Products of few rows with weights whose features are contiguous. Every weight is read from memory once, in order.
//!
//! The weights are divided into parts, which threads take one by one: some features, so that their sums stay in the
//! first-level cache, of some inputs, whose weights follow one another in memory if the part has all features.

use super::{Gemm, Matrix};
use crate::lanes::{Task, dispatch};
use crate::{Context, Element, LANES, Lanes as _, Number as _, Real, Whole, block};
use std::mem::size_of;

/// The number of rows from which other products are faster.
pub(super) const ROWS: usize = 8;

/// The number of inputs whose products are added before they are added to the sums. Sums of thousands of products, one by
/// one, would be several times less exact than those of other products.
const INPUTS: usize = 8;

/// The largest number of features of a part.
const FEATURES: usize = 4096;

/// The smallest number of bytes of a part, if there are as many, and the number of parts that are enough.
const BYTES: usize = 64 << 10;
const ENOUGH: usize = 16;

/// The sizes of the parts of weights. They depend only on the shape, and so do the sums.
#[derive(Clone, Copy)]
pub(super) struct Parts {
    pub(super) features: usize,
    pub(super) inputs: usize,
}

impl Parts {
    pub(super) fn of<T>(weights: Matrix<'_, T>) -> Self {
        let groups = weights.features.div_ceil(FEATURES).max(1);
        let features = weights.features.div_ceil(groups).max(1);
        let features = features.next_multiple_of(LANES);
        // Equal parts, in a number that two or four threads divide evenly: one part too many is a part that others wait for.
        let bytes = weights.inputs * features * size_of::<T>();
        let most = (bytes / BYTES).clamp(1, (ENOUGH / groups).max(1));
        let count = 1 << most.ilog2();
        let inputs = weights.inputs.div_ceil(count).max(1);
        Self {
            features,
            inputs: inputs.next_multiple_of(INPUTS),
        }
    }
}

/// Adds the products of rows, which are `stride` apart, with weights to `sums`, `rows × features`.
///
/// # Panics
/// Panics if the features are not contiguous, or if an operand is too short.
pub(super) fn add_products<T: Element>(
    (rows, stride): (&[T::Acc], usize),
    weights: Matrix<'_, T>,
    sums: &mut [T::Acc],
) where
    T::Acc: Gemm,
{
    assert!(weights.feature_stride == 1, "features are not contiguous");
    if weights.inputs == 0 || weights.features == 0 {
        return;
    }
    dispatch(Few {
        rows,
        stride,
        weights,
        sums,
    });
}

/// Adds sums of parts, which follow one another with the same number of elements each, to the first of them, in their
/// order. Returns the total.
pub(super) fn total<A: Gemm + Element<Acc = A>>(sums: &mut [A], each: usize) -> &[A] {
    let (total, others) = sums.split_at_mut(each);
    dispatch(Total { total, others });
    total
}

struct Total<'a, A> {
    total: &'a mut [A],
    others: &'a [A],
}

impl<A: Gemm + Element<Acc = A>> Task for Total<'_, A> {
    type Acc = A;
    type Output = ();

    #[inline(always)]
    fn run<C: Context>(self, _: C) {
        for sums in self.others.chunks_exact(self.total.len().max(1)) {
            for (total, sum) in self.total.iter_mut().zip(sums) {
                *total += *sum;
            }
        }
    }
}

struct Few<'a, T: Element> {
    rows: &'a [T::Acc],
    stride: usize,
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
            features,
            input_stride,
            ..
        } = self.weights;
        let mut lines: [&[T]; N] = [&[]; N];
        for (i, line) in lines.iter_mut().enumerate() {
            *line = &data[(input + i) * input_stride..][..features];
        }
        for (number, sums) in self.sums.chunks_exact_mut(features).enumerate() {
            let row = &self.rows[number * self.stride + input..][..N];
            let mut factors = [C::Of::<T::Acc>::splat(c, row[0]); N];
            for (factor, x) in factors.iter_mut().zip(row) {
                *factor = C::Of::<T::Acc>::splat(c, *x);
            }
            let (blocks, rest) = sums.as_chunks_mut::<LANES>();
            let whole = blocks.len();
            for (at, sums) in blocks.iter_mut().enumerate() {
                if number == 0 && (at * LANES * size_of::<T>()).is_multiple_of(CACHE_LINE) {
                    for i in 0..N {
                        let line = (input + N + i) * input_stride;
                        ask_for(data.as_ptr().wrapping_add(line + at * LANES));
                    }
                }
                let mut sum = C::Of::<T::Acc>::splat(c, <T::Acc as Real>::ZERO);
                for (line, factor) in lines.iter().zip(&factors) {
                    sum = block::<C, T, Whole>(c, line, at).mul_add(*factor, sum);
                }
                *sums = (C::Of::<T::Acc>::read(c, sums) + sum).values();
            }
            for (i, sum) in rest.iter_mut().enumerate() {
                let mut products = <T::Acc as Real>::ZERO;
                for (line, x) in lines.iter().zip(row) {
                    products += line[whole * LANES + i].load() * *x;
                }
                *sum += products;
            }
        }
    }
}

/// The number of bytes of a cache line.
const CACHE_LINE: usize = 64;

/// Asks for the cache line of an element that is needed soon. The processor does not foresee lines of some kilobytes that are
/// read side by side. The element may lie beyond the weights.
#[inline(always)]
fn ask_for<T>(place: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint takes any address.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T1>(place.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}

#[cfg(test)]
mod tests {
    use super::*;
    use half::{bf16, f16};

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
                add_products((&rows, inputs), weights, &mut sums);
                for (at, sum) in sums.into_iter().enumerate() {
                    let (row, feature) = (at / features, at % features);
                    let terms = (0..inputs)
                        .map(|i| value(row * inputs + i) * value(i * stride + feature + 13));
                    assert_eq!(
                        sum.into_f64(),
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

    /// The sum of 8192 products, one by one, would have errors of 8e-6 of the sums here.
    #[test]
    fn long_sums_are_exact_enough() {
        const INPUTS: usize = 8192;
        const FEATURES: usize = 200;
        let random = |i: usize| {
            let mixed = (i as u32 ^ 0x9E37_79B9).wrapping_mul(0x85EB_CA6B);
            let mixed = (mixed ^ mixed >> 13).wrapping_mul(0xC2B2_AE35);
            (mixed ^ mixed >> 16) as f32 / u32::MAX as f32 - 0.5
        };
        let row: Vec<f32> = (0..INPUTS).map(random).collect();
        let data: Vec<f32> = (0..INPUTS * FEATURES).map(|i| random(i + INPUTS)).collect();
        let weights = Matrix {
            data: &data,
            inputs: INPUTS,
            features: FEATURES,
            input_stride: FEATURES,
            feature_stride: 1,
        };
        let mut sums = vec![0.0_f32; FEATURES];
        add_products((&row, INPUTS), weights, &mut sums);
        let exact = |feature: usize| -> f64 {
            let product = |i: usize| f64::from(row[i]) * f64::from(data[i * FEATURES + feature]);
            (0..INPUTS).map(product).sum()
        };
        let exact: Vec<f64> = (0..FEATURES).map(exact).collect();
        let size = (exact.iter().map(|y| y * y).sum::<f64>() / FEATURES as f64).sqrt();
        for (y, exact) in sums.iter().zip(&exact) {
            let error = (f64::from(*y) - exact).abs();
            assert!(error < 4e-6 * size, "{error} of {size}");
        }
    }

    #[test]
    fn parts_cover_the_weights_and_are_neither_small_nor_many() {
        for inputs in [0, 1, 64, 576, 1024, 8192] {
            for features in [1, 64, 192, 576, 3072, 5000, 49_152] {
                let weights = Matrix::<f32> {
                    data: &[],
                    inputs,
                    features,
                    input_stride: features,
                    feature_stride: 1,
                };
                let parts = Parts::of(weights);
                assert!(parts.features <= FEATURES && parts.inputs.is_multiple_of(INPUTS));
                let groups = features.div_ceil(parts.features);
                let along = inputs.div_ceil(parts.inputs);
                let name = format!("{inputs} × {features}: {groups} × {along}");
                assert!(groups * along <= ENOUGH.max(groups), "{name}");
                let bytes = parts.features * parts.inputs * size_of::<f32>();
                assert!(along < 2 || bytes >= BYTES, "{name}, {bytes}");
                // All parts but the last, which can be smaller by the rounding to whole blocks.
                let last = inputs - along.saturating_sub(1) * parts.inputs;
                assert!(
                    last + along * INPUTS >= parts.inputs.min(inputs),
                    "{name}, {last}"
                );
            }
        }
    }
}
