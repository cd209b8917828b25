//! Products of few rows with weights whose inputs are contiguous, with AVX-512. A vector holds four inputs of each of
//! four rows. It is multiplied by four inputs of a feature, which the load repeats for
//! each row. A dozen rows thus use the registers as well as whole vectors of rows do. Every weight is
//! read once, in order, and no weight is copied.

use super::Matrix;
use super::gemm::{BEYOND, Terms};
use std::arch::x86_64::{
    __m512, _MM_HINT_T0, _mm_loadu_ps, _mm_prefetch, _mm512_add_ps, _mm512_broadcast_f32x4,
    _mm512_castpd_ps, _mm512_castps_pd, _mm512_fmadd_ps, _mm512_loadu_ps, _mm512_setzero_ps,
    _mm512_storeu_ps, _mm512_unpackhi_pd, _mm512_unpackhi_ps, _mm512_unpacklo_pd,
    _mm512_unpacklo_ps,
};

/// The number of rows of a vector, and of inputs of each row.
pub(super) const QUAD: usize = 4;

/// The number of elements of a vector.
const LANES: usize = QUAD * QUAD;

/// The number of vectors of rows of the largest tile.
const TALL: usize = 3;

/// The number of rows that are multiplied at a time.
pub(super) const ROWS: usize = TALL * QUAD;

/// The number of features of a tile. Their sums are added four features at a time.
const WIDE: usize = 2 * QUAD;

/// Rows in the order in which they are multiplied: by four rows, then by four inputs, then by row,
/// then by input. Missing rows of the last four are zero.
pub(super) struct Quads {
    values: Vec<f32>,
    rows: usize,
    inputs: usize,
}

/// Calls the kernel for the size of a tile.
macro_rules! sizes {
    ($tile:ident, $features:ident, $run:ident) => {
        match ($tile.count.div_ceil(QUAD), $features > QUAD) {
            (1, true) => $tile.$run::<1, WIDE>(),
            (2, true) => $tile.$run::<2, WIDE>(),
            (_, true) => $tile.$run::<TALL, WIDE>(),
            (1, false) => $tile.$run::<1, QUAD>(),
            (2, false) => $tile.$run::<2, QUAD>(),
            (_, false) => $tile.$run::<TALL, QUAD>(),
        }
    };
}

impl Quads {
    /// Copies contiguous rows, whose number of inputs must be a multiple of [`QUAD`].
    pub(super) fn new(rows: &[f32], inputs: usize) -> Self {
        debug_assert!(inputs.is_multiple_of(QUAD) && inputs > 0);
        let count = rows.len() / inputs;
        let mut values = vec![0.0; count.next_multiple_of(QUAD) * inputs];
        let rows = rows.chunks_exact(inputs);
        for (row, from) in rows.enumerate() {
            let to = &mut values[row / QUAD * QUAD * inputs + row % QUAD * QUAD..];
            let (from, _) = from.as_chunks::<QUAD>();
            for (to, from) in to.chunks_mut(LANES).zip(from) {
                to[..QUAD].copy_from_slice(from);
            }
        }
        Self {
            values,
            rows: count,
            inputs,
        }
    }

    /// Computes the product with weights whose inputs are contiguous. Rows of `out` are `stride` apart.
    ///
    /// # Panics
    /// Panics if the machine does not have AVX-512 (or, for pairs, AVX512-BF16), if the numbers of inputs differ, or if
    /// `out` or the weights are too short.
    pub(super) fn multiply(
        &self,
        weights: Matrix<'_, f32>,
        out: &mut [f32],
        stride: usize,
        add: bool,
        terms: Terms,
    ) {
        assert!(super::tiles::available());
        let pairs = terms == Terms::Pairs;
        assert!(!pairs || is_x86_feature_detected!("avx512bf16"));
        assert!(weights.input_stride == 1 && weights.inputs == self.inputs);
        if self.rows == 0 || weights.features == 0 {
            return;
        }
        assert!((self.rows - 1) * stride + weights.features <= out.len());
        let last = (weights.features - 1).saturating_mul(weights.feature_stride);
        assert!(
            last.saturating_add(weights.inputs) <= weights.data.len(),
            "{BEYOND}"
        );
        let mut feature = 0;
        while feature < weights.features {
            let features = WIDE.min(weights.features - feature);
            for row in (0..self.rows).step_by(ROWS) {
                let tile = Tile {
                    rows: &self.values[row * self.inputs..],
                    inputs: self.inputs,
                    weights: &weights.data[feature * weights.feature_stride..],
                    feature_stride: weights.feature_stride,
                    features,
                    out: &mut out[row * stride + feature..],
                    stride,
                    count: ROWS.min(self.rows - row),
                    add,
                };
                // SAFETY: the instructions were checked above; the assertions show that rows and features of the tile
                // are in their slices.
                unsafe {
                    if pairs {
                        sizes!(tile, features, run_pairs)
                    } else {
                        sizes!(tile, features, run)
                    }
                }
            }
            feature += features;
        }
    }
}

/// Some rows by some features.
struct Tile<'a> {
    rows: &'a [f32],
    inputs: usize,
    weights: &'a [f32],
    feature_stride: usize,
    features: usize,
    out: &'a mut [f32],
    stride: usize,
    count: usize,
    add: bool,
}

/// Defines a kernel for tiles, given the instruction that adds a product.
macro_rules! kernel {
    ($name:ident, $features:literal, $add:expr) => {
        /// Computes `V` vectors of rows by `N` features.
        ///
        /// # Safety
        /// The machine must have the instructions. There must be `V` vectors of rows and `features` features,
        /// at least one and at most `N`.
        #[target_feature(enable = $features)]
        unsafe fn $name<const V: usize, const N: usize>(mut self) {
            let mut sums = [[_mm512_setzero_ps(); N]; V];
            let rows = self.rows.as_ptr();
            // Missing features repeat the last one.
            let at: [usize; N] =
                std::array::from_fn(|n| n.min(self.features - 1) * self.feature_stride);
            let weights = at.map(|at| self.weights.as_ptr().wrapping_add(at));
            for start in (0..self.inputs).step_by(LANES) {
                for feature in weights {
                    // A hint: any address is allowed.
                    let ahead = feature.wrapping_add(N * self.feature_stride + start);
                    _mm_prefetch::<_MM_HINT_T0>(ahead.cast());
                }
                for input in (start..self.inputs.min(start + LANES)).step_by(QUAD) {
                    let mut vectors = [_mm512_setzero_ps(); V];
                    for v in 0..V {
                        let at = QUAD * (v * self.inputs + input);
                        // SAFETY: the caller upholds the requirements.
                        vectors[v] = unsafe { _mm512_loadu_ps(rows.add(at)) };
                    }
                    for n in 0..N {
                        // SAFETY: the caller upholds the requirements.
                        let four = unsafe { _mm_loadu_ps(weights[n].add(input)) };
                        let four = _mm512_broadcast_f32x4(four);
                        for v in 0..V {
                            sums[v][n] = $add(sums[v][n], vectors[v], four);
                        }
                    }
                }
            }
            for (v, sums) in sums.iter().enumerate() {
                let (parts, _) = sums.as_chunks::<QUAD>();
                for (part, sums) in parts.iter().enumerate() {
                    let mut lanes = [0.0; LANES];
                    // SAFETY: `lanes` has as many elements as a vector.
                    unsafe { _mm512_storeu_ps(lanes.as_mut_ptr(), add_up(*sums)) };
                    self.write(v, part, &lanes);
                }
            }
        }
    };
}

impl Tile<'_> {
    kernel!(run, "avx512f", |sum, x, y| _mm512_fmadd_ps(x, y, sum));
    kernel!(run_pairs, "avx512f,avx512bf16", |sum, x, y| {
        super::tiles::add_pairs(sum, x, y)
    });

    /// Writes the sums of a vector of rows by four features.
    #[inline(always)]
    fn write(&mut self, vector: usize, part: usize, lanes: &[f32; LANES]) {
        let features = self.features.saturating_sub(part * QUAD).min(QUAD);
        let rows = self.count.saturating_sub(vector * QUAD).min(QUAD);
        for (row, sums) in lanes.chunks_exact(QUAD).take(rows).enumerate() {
            let start = (vector * QUAD + row) * self.stride + part * QUAD;
            let out = &mut self.out[start..start + features];
            if self.add {
                out.iter_mut().zip(sums).for_each(|(out, sum)| *out += *sum);
            } else {
                out.copy_from_slice(&sums[..features]);
            }
        }
    }
}

/// Returns the sums over the four inputs of each row, for four features: by row, then by feature.
#[inline]
#[target_feature(enable = "avx512f")]
fn add_up([a, b, c, d]: [__m512; QUAD]) -> __m512 {
    let ab = _mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
    let cd = _mm512_add_ps(_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d));
    let (ab, cd) = (_mm512_castps_pd(ab), _mm512_castps_pd(cd));
    let low = _mm512_castpd_ps(_mm512_unpacklo_pd(ab, cd));
    let high = _mm512_castpd_ps(_mm512_unpackhi_pd(ab, cd));
    _mm512_add_ps(low, high)
}

#[cfg(test)]
mod tests {
    use super::super::tested;
    use super::*;
    use half::bf16;

    /// Returns whole numbers, which bf16 holds. Sums of their products are exact in f32.
    fn value(i: usize) -> f32 {
        ((i * 7919) % 101) as f32 - 50.0
    }

    /// Returns numbers of rows up to more than two tiles, and numbers of features around those of a tile.
    fn sizes() -> impl Iterator<Item = [usize; 3]> {
        let rows = [1, 2, 3, 4, 5, 7, 8, 9, 11, 12, 13, 16, 23, 24, 25, 29];
        let inputs = [4, 8, 12, 16, 20, 36, 68];
        let features = [1, 2, 3, 4, 5, 7, 8, 9, 12, 13, 16, 19, 31];
        rows.into_iter().flat_map(move |rows| {
            inputs
                .into_iter()
                .flat_map(move |inputs| features.map(|features| [rows, inputs, features]))
        })
    }

    /// Multiplies `rows` by `weights`, whose features are `feature_stride` apart, and compares the result with
    /// `exact`, by row and feature. Every slice has exactly the required length, so a memory checker
    /// detects a read beyond it.
    fn check(
        [count, inputs, features]: [usize; 3],
        (rows, weights, feature_stride): (&[f32], &[f32], usize),
        terms: Terms,
        exact: impl Fn(usize, usize) -> f64,
    ) {
        let weights = Matrix {
            data: weights,
            inputs,
            features,
            input_stride: 1,
            feature_stride,
        };
        for (stride, add) in [(features, false), (features, true), (features + 3, true)] {
            let mut out = vec![7.0; (count - 1) * stride + features];
            Quads::new(rows, inputs).multiply(weights, &mut out, stride, add, terms);
            for (at, out) in out.into_iter().enumerate() {
                let (row, feature) = (at / stride, at % stride);
                let expected = match (feature < features, add) {
                    // An element between rows.
                    (false, _) => 7.0,
                    (true, add) => exact(row, feature) + if add { 7.0 } else { 0.0 },
                };
                assert_eq!(
                    f64::from(out),
                    expected,
                    "{count} × {inputs} × {features}, {feature_stride} and {stride} apart: row {row}, \
                     feature {feature}"
                );
            }
        }
    }

    #[test]
    fn few_rows_of_all_sizes() {
        if !tested(super::super::tiles::available(), "AVX-512") {
            return;
        }
        for [count, inputs, features] in sizes() {
            for feature_stride in [inputs, inputs + 5] {
                let rows: Vec<f32> = (0..count * inputs).map(value).collect();
                let length = (features - 1) * feature_stride + inputs;
                let weights: Vec<f32> = (0..length).map(|i| value(i + 13)).collect();
                let exact = |row: usize, feature: usize| {
                    let row = &rows[row * inputs..][..inputs];
                    let feature = &weights[feature * feature_stride..][..inputs];
                    let products = row.iter().zip(feature);
                    products.map(|(x, w)| f64::from(*x) * f64::from(*w)).sum()
                };
                let operands = (&rows[..], &weights[..], feature_stride);
                check([count, inputs, features], operands, Terms::Single, exact);
            }
        }
    }

    #[test]
    fn few_rows_of_pairs_of_all_sizes() {
        if !tested(super::super::pairs::available::<bf16>(), "AVX512-BF16") {
            return;
        }
        let pair = |first: f32, second: f32| {
            let bits = |value| u32::from(bf16::from_f32(value).to_bits());
            f32::from_bits(bits(first) | bits(second) << 16)
        };
        let pairs = |count: usize, seed: usize| -> Vec<f32> {
            (0..count)
                .map(|i| pair(value(2 * i + seed), value(2 * i + 1 + seed)))
                .collect()
        };
        for [count, inputs, features] in sizes() {
            for feature_stride in [inputs, inputs + 5] {
                let rows = pairs(count * inputs, 0);
                let weights = pairs((features - 1) * feature_stride + inputs, 13);
                let exact = |row: usize, feature: usize| {
                    let (row, feature) = (2 * row * inputs, 2 * feature * feature_stride + 13);
                    (0..2 * inputs)
                        .map(|i| f64::from(value(row + i)) * f64::from(value(feature + i)))
                        .sum()
                };
                let operands = (&rows[..], &weights[..], feature_stride);
                check([count, inputs, features], operands, Terms::Pairs, exact);
            }
        }
    }

    #[test]
    fn no_rows_and_no_features_write_nothing() {
        if !tested(super::super::tiles::available(), "AVX-512") {
            return;
        }
        for (rows, features) in [(0, 3), (2, 0)] {
            let weights = Matrix {
                data: &[1.0; 12][..features * 4],
                inputs: 4,
                features,
                input_stride: 1,
                feature_stride: 4,
            };
            let mut out = [7.0; 6];
            let quads = Quads::new(&[1.0; 8][..rows * 4], 4);
            quads.multiply(weights, &mut out, 3, false, Terms::Single);
            assert_eq!(out, [7.0; 6]);
        }
    }

    /// Tests that slices which are too short are refused, since the kernel reads through pointers.
    #[test]
    fn slices_that_are_too_short_are_refused() {
        if !tested(super::super::tiles::available(), "AVX-512") {
            return;
        }
        let refused = |weights: usize, inputs: usize, input_stride: usize, out: usize| {
            let call = || {
                let weights = Matrix {
                    data: &[1.0; 12][..weights],
                    inputs,
                    features: 3,
                    input_stride,
                    feature_stride: 4,
                };
                let mut out = vec![0.0; out];
                let quads = Quads::new(&[1.0; 8], 4);
                quads.multiply(weights, &mut out, 3, false, Terms::Single);
            };
            std::panic::catch_unwind(call).is_err()
        };
        assert!(!refused(12, 4, 1, 6));
        assert!(refused(11, 4, 1, 6), "a weight too few");
        assert!(refused(12, 4, 1, 5), "a place too few");
        assert!(refused(12, 8, 1, 6), "other inputs");
        assert!(refused(12, 4, 2, 6), "inputs apart");
    }
}
