use std::ops::{Add, AddAssign, Div, Mul, Neg, Sub};

/// The type that kernels compute in: f32, or f64 for f64 tensors.
pub(crate) trait Real:
    Copy
    + Send
    + Sync
    + PartialOrd
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
    + AddAssign
{
    const ZERO: Self;
    const ONE: Self;

    fn of(value: f64) -> Self;
    fn sqrt(self) -> Self;
    fn exp(self) -> Self;
}

/// Independent sums, so that the compiler may add in SIMD: floating-point addition is not
/// associative and it would not reorder a single sum.
const LANES: usize = 32;

/// `Σ term(a, b)` over two rows of the same length.
#[inline(always)]
pub(crate) fn sum_of<T: Copy, A: Real>(
    left: &[T],
    right: &[T],
    weights: &[A],
    term: impl Fn(T, T, A) -> A,
) -> A {
    let mut lanes = [A::ZERO; LANES];
    let (left_body, left_tail) = left.as_chunks::<LANES>();
    let (right_body, right_tail) = right.as_chunks::<LANES>();
    let (weight_body, weight_tail) = weights.as_chunks::<LANES>();
    for ((l, r), w) in left_body.iter().zip(right_body).zip(weight_body) {
        for i in 0..LANES {
            lanes[i] += term(l[i], r[i], w[i]);
        }
    }
    for (i, ((l, r), w)) in left_tail
        .iter()
        .zip(right_tail)
        .zip(weight_tail)
        .enumerate()
    {
        lanes[i] += term(*l, *r, *w);
    }
    fold(lanes)
}

/// `Σ value²` over a row.
#[inline(always)]
pub(crate) fn sum_of_squares<T: Copy, A: Real>(row: &[T], value: impl Fn(T) -> A) -> A {
    let mut lanes = [A::ZERO; LANES];
    let (body, tail) = row.as_chunks::<LANES>();
    for chunk in body {
        for i in 0..LANES {
            let v = value(chunk[i]);
            lanes[i] += v * v;
        }
    }
    for (i, x) in tail.iter().enumerate() {
        let v = value(*x);
        lanes[i] += v * v;
    }
    fold(lanes)
}

/// Adds the lanes pairwise, which also keeps the rounding error small.
#[inline(always)]
fn fold<A: Real>(mut lanes: [A; LANES]) -> A {
    let mut width = LANES / 2;
    while width > 0 {
        for i in 0..width {
            lanes[i] += lanes[i + width];
        }
        width /= 2;
    }
    lanes[0]
}

impl Real for f32 {
    const ZERO: Self = 0.0;
    const ONE: Self = 1.0;

    #[inline(always)]
    fn of(value: f64) -> Self {
        value as Self
    }

    #[inline(always)]
    fn sqrt(self) -> Self {
        Self::sqrt(self)
    }

    #[inline(always)]
    fn exp(self) -> Self {
        exp_f32(self)
    }
}

impl Real for f64 {
    const ZERO: Self = 0.0;
    const ONE: Self = 1.0;

    #[inline(always)]
    fn of(value: f64) -> Self {
        value
    }

    #[inline(always)]
    fn sqrt(self) -> Self {
        Self::sqrt(self)
    }

    /// f64 is for checking, not for speed: the standard library's.
    #[inline(always)]
    fn exp(self) -> Self {
        Self::exp(self)
    }
}

/// `e^x` without branches, so that it vectorises; within 2 ulp where the result is normal.
///
/// `e^x = 2^n · e^r` with `n = round(x / ln 2)` and `|r| ≤ ln 2 / 2`. `r` is made with ln 2 in two
/// parts, the first short enough that `n` times it is exact; `e^r` is its Taylor polynomial of
/// degree 7, whose error (below 6e-9) is a tenth of an ulp. NaN stays NaN; overflow is infinite
/// and underflow gradual, because `2^n` is applied in two halves.
#[inline(always)]
#[allow(clippy::excessive_precision)] // The constants are written as they are defined.
fn exp_f32(x: f32) -> f32 {
    const SHIFT: f32 = 12_582_912.0; // 1.5 · 2^23: adding it rounds to an integer.
    const LN2_HIGH: f32 = 0.693_359_375; // 355 / 512: nine bits.
    const LN2_LOW: f32 = -2.121_944_400_546_905_8e-4;

    // Beyond these the result is infinite or zero all the same. NaN fails both comparisons.
    let x = if x > 89.0 { 89.0 } else { x };
    let x = if x < -104.0 { -104.0 } else { x };

    let shifted = x * std::f32::consts::LOG2_E + SHIFT;
    let n = shifted - SHIFT;
    let r = (x - n * LN2_HIGH) - n * LN2_LOW;

    let mut p = 1.0 / 5040.0;
    p = p * r + 1.0 / 720.0;
    p = p * r + 1.0 / 120.0;
    p = p * r + 1.0 / 24.0;
    p = p * r + 1.0 / 6.0;
    p = p * r + 0.5;
    p = p * r + 1.0;
    p = p * r + 1.0;

    // The integer stands in the low bits of `shifted`.
    let n = (shifted.to_bits() as i32).wrapping_sub(SHIFT.to_bits() as i32);
    let half = n >> 1;
    p * power_of_two(half) * power_of_two(n.wrapping_sub(half))
}

/// `2^n` for `-126 ≤ n ≤ 127`.
#[inline(always)]
fn power_of_two(n: i32) -> f32 {
    f32::from_bits((n.wrapping_add(127) as u32) << 23)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exp_is_within_two_ulp() {
        let mut worst = 0.0_f64;
        let mut x = -87.3_f32;
        while x < 88.7 {
            let exact = f64::from(x).exp();
            let ulp = f64::from((exact as f32).next_up()) - f64::from(exact as f32);
            worst = worst.max((f64::from(exp_f32(x)) - exact).abs() / ulp);
            x += 0.000_317;
        }
        assert!(worst < 2.0, "{worst} ulp");
    }

    #[test]
    fn exp_at_its_ends() {
        assert_eq!(exp_f32(0.0), 1.0);
        assert_eq!(exp_f32(-0.0), 1.0);
        assert_eq!(exp_f32(f32::INFINITY), f32::INFINITY);
        assert_eq!(exp_f32(100.0), f32::INFINITY);
        assert_eq!(exp_f32(f32::NEG_INFINITY), 0.0);
        assert_eq!(exp_f32(-110.0), 0.0);
        assert!(exp_f32(f32::NAN).is_nan());
        let subnormal = exp_f32(-100.0);
        assert!(
            subnormal > 0.0 && (subnormal - 3.78e-44).abs() < 2e-45,
            "{subnormal:e}"
        );
    }

    #[test]
    fn sums_take_every_element_once() {
        for len in [0, 1, 31, 32, 33, 64, 100] {
            let row: Vec<f64> = (1..=len).map(f64::from).collect();
            let n = f64::from(len);
            assert_eq!(
                sum_of_squares(&row, |x| x),
                n * (n + 1.0) * (2.0 * n + 1.0) / 6.0
            );
            assert_eq!(sum_of(&row, &row, &row, |a, _, w| a - w + 1.0), n, "{len}");
        }
    }
}
