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
    /// The lowest finite number.
    const LOWEST: Self;

    fn of(value: f64) -> Self;
    fn sqrt(self) -> Self;
    fn exp(self) -> Self;
    /// Returns the natural logarithm. It does not vectorise.
    fn ln(self) -> Self;
    fn tanh(self) -> Self;
    /// Returns the standard normal distribution at this point, `Φ`, which gates a GELU, and its density.
    fn normal(self) -> (Self, Self);

    /// Returns the logistic function `1 / (1 + e^-a)`. Where `e^-a` overflows, the result is 0, as it should be.
    #[inline(always)]
    fn sigmoid(self) -> Self {
        Self::ONE / (Self::ONE + (-self).exp())
    }

    /// Returns the logistic function `σ` and `1 − σ`, without the cancellation of a subtraction.
    #[inline(always)]
    fn sigmoid_and_rest(self) -> (Self, Self) {
        let e = (-self).exp();
        let s = Self::ONE / (Self::ONE + e);
        let rest = if e < Self::of(1e38) { e * s } else { Self::ONE };
        (s, rest)
    }

    /// Returns `silu(a) = a · σ(a)` and its derivative, `σ · (1 + a · (1 − σ))`.
    #[inline(always)]
    fn silu_with_slope(self) -> (Self, Self) {
        let (s, rest) = self.sigmoid_and_rest();
        (self * s, s * (Self::ONE + self * rest))
    }

    /// Returns the smaller number. NaN stays NaN.
    #[inline(always)]
    fn at_most(self, limit: Self) -> Self {
        if self > limit { limit } else { self }
    }

    /// Returns the larger number. NaN stays NaN.
    #[inline(always)]
    fn at_least(self, limit: Self) -> Self {
        if self < limit { limit } else { self }
    }
}

/// The number of independent sums, which let the compiler add with SIMD. Floating-point addition is not
/// associative, so it would not reorder a single sum.
const LANES: usize = 32;

/// Returns `Σ term(left, right, weight)` over rows of the same length.
#[inline(always)]
pub(crate) fn sum_of<L: Copy, R: Copy, A: Real>(
    left: &[L],
    right: &[R],
    weights: &[A],
    term: impl Fn(L, R, A) -> A,
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
    // A copy, because places that are known only at run time would keep the lanes of the loop above in memory.
    let mut ended = lanes;
    let tails = left_tail.iter().zip(right_tail).zip(weight_tail);
    for (i, ((l, r), w)) in tails.enumerate() {
        ended[i] += term(*l, *r, *w);
    }
    fold(ended)
}

/// Returns `Σ value` over a row.
#[inline(always)]
pub(crate) fn sum<T: Copy, A: Real>(row: &[T], value: impl Fn(T) -> A) -> A {
    let mut lanes = [A::ZERO; LANES];
    let (body, tail) = row.as_chunks::<LANES>();
    for chunk in body {
        for i in 0..LANES {
            lanes[i] += value(chunk[i]);
        }
    }
    let mut ended = lanes; // As in `sum_of`.
    for (i, x) in tail.iter().enumerate() {
        ended[i] += value(*x);
    }
    fold(ended)
}

/// Returns `Σ value²` over a row.
#[inline(always)]
pub(crate) fn sum_of_squares<T: Copy, A: Real>(row: &[T], value: impl Fn(T) -> A) -> A {
    sum(row, |x| {
        let v = value(x);
        v * v
    })
}

/// Returns the sums of several terms over a row, in one pass.
#[inline(always)]
pub(crate) fn sums<const N: usize, T: Copy, A: Real>(
    row: &[T],
    terms: impl Fn(T) -> [A; N],
) -> [A; N] {
    let mut lanes = [[A::ZERO; LANES]; N];
    let (body, tail) = row.as_chunks::<LANES>();
    for chunk in body {
        for (i, x) in chunk.iter().enumerate() {
            add(&mut lanes, i, terms(*x));
        }
    }
    let mut ended = lanes; // As in `sum_of`.
    for (i, x) in tail.iter().enumerate() {
        add(&mut ended, i, terms(*x));
    }
    ended.map(fold)
}

/// Returns the sums of several terms `(left, right, weight)` over rows of the same length, in one pass.
#[inline(always)]
pub(crate) fn sums_of<const N: usize, L: Copy, R: Copy, A: Real>(
    left: &[L],
    right: &[R],
    weights: &[A],
    terms: impl Fn(L, R, A) -> [A; N],
) -> [A; N] {
    let mut lanes = [[A::ZERO; LANES]; N];
    let (left_body, left_tail) = left.as_chunks::<LANES>();
    let (right_body, right_tail) = right.as_chunks::<LANES>();
    let (weight_body, weight_tail) = weights.as_chunks::<LANES>();
    for ((l, r), w) in left_body.iter().zip(right_body).zip(weight_body) {
        for i in 0..LANES {
            add(&mut lanes, i, terms(l[i], r[i], w[i]));
        }
    }
    let mut ended = lanes;
    let tails = left_tail.iter().zip(right_tail).zip(weight_tail);
    for (i, ((l, r), w)) in tails.enumerate() {
        add(&mut ended, i, terms(*l, *r, *w));
    }
    ended.map(fold)
}

/// Adds the terms of one element to lane `i` of each sum.
#[inline(always)]
fn add<const N: usize, A: Real>(lanes: &mut [[A; LANES]; N], i: usize, terms: [A; N]) {
    for (lanes, term) in lanes.iter_mut().zip(terms) {
        lanes[i] += term;
    }
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
    const LOWEST: Self = Self::MIN;

    #[inline(always)]
    fn of(value: f64) -> Self {
        value as Self
    }

    #[inline(always)]
    fn sqrt(self) -> Self {
        Self::sqrt(self)
    }

    #[inline(always)]
    fn ln(self) -> Self {
        Self::ln(self)
    }

    #[inline(always)]
    fn tanh(self) -> Self {
        tanh_f32(self)
    }

    #[inline(always)]
    fn exp(self) -> Self {
        exp_f32(self)
    }

    #[inline(always)]
    fn normal(self) -> (Self, Self) {
        normal_f32(self)
    }
}

impl Real for f64 {
    const ZERO: Self = 0.0;
    const ONE: Self = 1.0;
    const LOWEST: Self = Self::MIN;

    #[inline(always)]
    fn of(value: f64) -> Self {
        value
    }

    #[inline(always)]
    fn sqrt(self) -> Self {
        Self::sqrt(self)
    }

    /// Uses the standard library: f64 is for checks, where speed does not matter.
    #[inline(always)]
    fn exp(self) -> Self {
        Self::exp(self)
    }

    #[inline(always)]
    fn ln(self) -> Self {
        Self::ln(self)
    }

    #[inline(always)]
    fn tanh(self) -> Self {
        Self::tanh(self)
    }

    #[inline(always)]
    fn normal(self) -> (Self, Self) {
        let density = Self::exp(-0.5 * self * self) / (2.0 * std::f64::consts::PI).sqrt();
        (
            0.5 * libm::erfc(-self * std::f64::consts::FRAC_1_SQRT_2),
            density,
        )
    }
}

/// Returns `e^x`, without branches, so that it vectorises. The error is within 2 ulp where the result is normal.
///
/// `e^x = 2^n · e^r` with `n = round(x / ln 2)` and `|r| ≤ ln 2 / 2`. `r` is computed with ln 2 in two
/// parts, the first short enough that its product with `n` is exact. `e^r` is its Taylor polynomial of
/// degree 7, whose error (below 6e-9) is a tenth of an ulp. NaN stays NaN. Overflow is infinite
/// and underflow gradual, because `2^n` is applied in two halves.
#[inline(always)]
#[allow(clippy::excessive_precision)] // The constants are written as they are defined.
fn exp_f32(x: f32) -> f32 {
    const SHIFT: f32 = 12_582_912.0; // 1.5 · 2^23: adding it rounds to an integer.
    const LN2_HIGH: f32 = 0.693_359_375; // 355 / 512: nine bits.
    const LN2_LOW: f32 = -2.121_944_400_546_905_8e-4;

    // Beyond these bounds, the result is infinite or zero anyway. NaN fails both comparisons.
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

    // The low bits of `shifted` hold the integer.
    let n = (shifted.to_bits() as i32).wrapping_sub(SHIFT.to_bits() as i32);
    let half = n >> 1;
    p * power_of_two(half) * power_of_two(n.wrapping_sub(half))
}

/// Returns the hyperbolic tangent, without branches, so that it vectorises. The error is within 4 ulp.
///
/// Below one half it is the Taylor polynomial of degree 15, whose error is a tenth of an ulp. From there on it is
/// `(1 − t) / (1 + t)` with `t = e^(−2|x|)`, which no longer cancels.
#[inline(always)]
#[allow(clippy::excessive_precision)] // The constants are written as they are defined.
fn tanh_f32(x: f32) -> f32 {
    const CENTRE: f32 = 0.5;
    const SERIES: [f32; 7] = [
        -0.333_333_333_333,
        0.133_333_333_333,
        -0.053_968_253_968,
        0.021_869_488_536,
        -0.008_863_235_530,
        0.003_592_128_037,
        -0.001_455_834_387,
    ];
    let square = x * x;
    let mut p = SERIES[6];
    p = p * square + SERIES[5];
    p = p * square + SERIES[4];
    p = p * square + SERIES[3];
    p = p * square + SERIES[2];
    p = p * square + SERIES[1];
    p = p * square + SERIES[0];
    let inner = x + x * square * p;

    let a = if x < 0.0 { -x } else { x };
    let t = exp_f32(-2.0 * a);
    let outer = (1.0 - t) / (1.0 + t);
    let outer = if x < 0.0 { -outer } else { outer };
    // NaN fails the comparison, and `outer` is NaN too.
    if a < CENTRE { inner } else { outer }
}

/// Returns `2^n` for `-126 ≤ n ≤ 127`.
#[inline(always)]
fn power_of_two(n: i32) -> f32 {
    f32::from_bits((n.wrapping_add(127) as u32) << 23)
}

/// Returns `Φ(x) = erfc(−x/√2) / 2` and `e^(−x²/2) / √(2π)`, without branches. The errors are within 5 and 4 ulp where
/// the results are normal numbers, also in the tail, and within 2 ulp for `Φ` above a half.
///
/// Near zero, `Φ` is `1/2 + x · C(x²)`. Elsewhere, the tail `Q(a)` with `a = |x|` is
/// `e^(−a²/2) · t · P(t)` with `t = 1 / (1 + a/2)`, the form of Hastings (Approximations for Digital
/// Computers, 1955). `C` and `P` interpolate at Chebyshev nodes and are within 4e-8 of the
/// quotients. In `e^(−a²/2)`, `a²` is split into its f32 value and the rest, which multiplies as
/// `1 − rest/2`; otherwise the rounding error would grow with `a²`.
#[inline(always)]
#[allow(clippy::excessive_precision)] // The constants are written as they were computed.
fn normal_f32(x: f32) -> (f32, f32) {
    const CENTRE: f32 = 0.75;
    const C: [f32; 5] = [
        0.398_942_279_469,
        -0.066_490_296_843,
        0.009_972_365_569,
        -0.001_181_332_043,
        0.000_102_982_181,
    ];
    const P: [f32; 10] = [
        0.199_471_146_275,
        0.199_469_660_610,
        0.149_659_255_491,
        0.049_144_751_353,
        -0.058_988_120_717,
        -0.107_881_291_919,
        -0.136_751_622_775,
        0.542_274_987_391,
        -0.484_128_617_480,
        0.148_235_471_259,
    ];
    const DENSITY: f32 = 0.398_942_280_4; // 1 / √(2π)

    // Beyond 15 the tail is zero; the bound keeps the rest of the split finite. NaN passes the bounds.
    let x = x.at_most(15.0).at_least(-15.0);
    let a = if x < 0.0 { -x } else { x };
    // The upper half of the bits of `a`, so that the products below are exact.
    let high = f32::from_bits(a.to_bits() & 0xffff_f000);
    let low = a - high;
    let square = a * a;
    let rest = ((high * high - square) + 2.0 * high * low) + low * low;
    let gauss = exp_f32(-0.5 * square) * (1.0 - 0.5 * rest);

    let t = 1.0 / (1.0 + 0.5 * a);
    let mut p = P[9];
    p = p * t + P[8];
    p = p * t + P[7];
    p = p * t + P[6];
    p = p * t + P[5];
    p = p * t + P[4];
    p = p * t + P[3];
    p = p * t + P[2];
    p = p * t + P[1];
    p = p * t + P[0];
    let tail = gauss * t * p;
    let outer = if x < 0.0 { tail } else { 1.0 - tail };

    let mut c = C[4];
    c = c * square + C[3];
    c = c * square + C[2];
    c = c * square + C[1];
    c = c * square + C[0];
    let inner = 0.5 + x * c;
    let phi = if a < CENTRE { inner } else { outer };
    (phi, gauss * DENSITY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_normal_distribution_is_within_its_ulp() {
        let ulp = |exact: f64| {
            let rounded = exact as f32;
            f64::from(rounded.next_up()) - f64::from(rounded)
        };
        let mut worst = [0.0_f64; 3];
        let mut x = -12.5_f32;
        while x < 12.5 {
            let (phi, density) = normal_f32(x);
            let (exact, exact_density) = f64::from(x).normal();
            let errors = [
                (f64::from(phi) - exact).abs() / ulp(exact),
                (f64::from(density) - exact_density).abs() / ulp(exact_density),
            ];
            let upper = usize::from(x > 0.0);
            worst[upper] = worst[upper].max(errors[0]);
            worst[2] = worst[2].max(errors[1]);
            x += 0.000_317;
        }
        let [tail, upper, density] = worst;
        assert!(tail < 5.0 && upper < 2.0 && density < 4.0, "{worst:?} ulp");
    }

    #[test]
    fn the_normal_distribution_at_its_ends() {
        assert_eq!(normal_f32(f32::INFINITY), (1.0, 0.0));
        assert_eq!(normal_f32(f32::NEG_INFINITY), (0.0, 0.0));
        assert_eq!(normal_f32(1e30).0, 1.0);
        let (phi, density) = normal_f32(f32::NAN);
        assert!(phi.is_nan() && density.is_nan());
        assert!((normal_f32(0.0).0 - 0.5).abs() < 1e-7);
        assert_eq!(normal_f32(0.0), normal_f32(-0.0));
    }

    #[test]
    fn the_logistic_function_and_its_rest_are_within_four_ulp() {
        let mut x = -80.0_f32;
        while x < 80.0 {
            let exact = 1.0 / (1.0 + f64::from(-x).exp());
            let exact_rest = 1.0 / (1.0 + f64::from(x).exp());
            let (s, rest) = x.sigmoid_and_rest();
            for (got, exact) in [(s, exact), (rest, exact_rest), (x.sigmoid(), exact)] {
                let ulp = f64::from((exact as f32).next_up()) - f64::from(exact as f32);
                assert!(
                    (f64::from(got) - exact).abs() < 4.0 * ulp,
                    "{x}: {got:e}, {exact:e}"
                );
            }
            x += 0.001_7;
        }
        assert_eq!(200.0_f32.sigmoid_and_rest(), (1.0, 0.0));
        assert_eq!((-200.0_f32).sigmoid_and_rest(), (0.0, 1.0));
        assert!(f32::NAN.sigmoid_and_rest().0.is_nan());
    }

    #[test]
    fn bounds_keep_what_is_not_a_number() {
        assert_eq!(1.0_f32.at_most(0.5), 0.5);
        assert_eq!((-1.0_f32).at_least(0.5), 0.5);
        assert!(f32::NAN.at_most(0.5).at_least(0.0).is_nan());
    }

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
    fn tanh_is_within_four_ulp() {
        let mut worst = 0.0_f64;
        let mut x = -12.0_f32;
        while x < 12.0 {
            let exact = f64::from(x).tanh();
            let ulp = f64::from((exact.abs() as f32).next_up()) - f64::from(exact.abs() as f32);
            worst = worst.max((f64::from(tanh_f32(x)) - exact).abs() / ulp);
            x += 0.000_317;
        }
        assert!(worst < 4.0, "{worst} ulp");
        assert_eq!(tanh_f32(f32::INFINITY), 1.0);
        assert_eq!(tanh_f32(f32::NEG_INFINITY), -1.0);
        assert_eq!(tanh_f32(1e-30), 1e-30);
        assert!(tanh_f32(f32::NAN).is_nan());
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
            let triangle = n * (n + 1.0) / 2.0;
            assert_eq!(sum(&row, |x| x), triangle);
            assert_eq!(sums(&row, |x| [x, 1.0]), [triangle, n]);
            let terms = |a: f64, b: f64, w: f64| [a - b + 1.0, w];
            assert_eq!(sums_of(&row, &row, &row, terms), [n, triangle]);
        }
    }
}
