use std::ops::{Add, Div, Mul, Sub};

/// A number, or several of them in lanes. Functions on it have no branches.
pub trait Number:
    Copy + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self> + Div<Output = Self>
{
    /// Returns a constant, in every lane.
    fn like(self, value: f64) -> Self;
    /// Returns `self · factor + term`. Lanes round once if the machine can.
    fn mul_add(self, factor: Self, term: Self) -> Self;
    fn exp(self) -> Self;
    fn tanh(self) -> Self;
    /// Returns `ln(1 + x)` for `x` from 0 to 1.
    fn ln_1p(self) -> Self;
    /// Returns the standard normal distribution at this point, `Φ`, which gates a GELU, and its density.
    fn normal(self) -> (Self, Self);
    /// Returns the smaller number. NaN stays NaN.
    fn at_most(self, limit: Self) -> Self;
    /// Returns the larger number. NaN stays NaN.
    fn at_least(self, limit: Self) -> Self;
    /// Returns `yes` where the number is at most `limit`, and `no` elsewhere, also for NaN.
    fn where_at_most(self, limit: Self, yes: Self, no: Self) -> Self;

    /// Returns the logistic function `1 / (1 + e^-a)`. Where `e^-a` overflows, the result is 0, as it should be.
    #[inline(always)]
    fn sigmoid(self) -> Self {
        let one = self.like(1.0);
        one / (one + (self.like(0.0) - self).exp())
    }

    /// Returns the logistic function `σ` and `1 − σ`, without the cancellation of a subtraction.
    #[inline(always)]
    fn sigmoid_and_rest(self) -> (Self, Self) {
        let one = self.like(1.0);
        let e = (self.like(0.0) - self).exp();
        let s = one / (one + e);
        (s, e.where_at_most(self.like(1e38), e * s, one))
    }

    /// Returns `silu(a) = a · σ(a)` and its derivative, `σ · (1 + a · (1 − σ))`.
    #[inline(always)]
    fn silu_with_slope(self) -> (Self, Self) {
        let (s, rest) = self.sigmoid_and_rest();
        (self * s, s * self.mul_add(rest, self.like(1.0)))
    }
}

/// Numbers in f32.
pub trait Single: Number {
    /// Returns the number without the lower half of its mantissa.
    fn upper_half(self) -> Self;
}

/// Returns the sum of `coefficients[i] · x^i`.
#[inline(always)]
pub(super) fn polynomial<N: Number, const D: usize>(x: N, coefficients: [f64; D]) -> N {
    let mut sum = x.like(coefficients[D - 1]);
    for coefficient in coefficients.iter().rev().skip(1) {
        sum = sum.mul_add(x, x.like(*coefficient));
    }
    sum
}

/// ln 2 in two parts, the first of nine bits, so that its product with a whole number is exact.
pub(super) const LN2: [f64; 2] = [0.693_359_375, -2.121_944_400_546_905_8e-4];

/// The results of `e^x` are infinite above the second bound, and zero below the first.
pub(super) const EXP_BOUNDS: [f64; 2] = [-104.0, 89.0];

/// Returns `e^r` for `|r| ≤ ln 2 / 2`: its Taylor polynomial of degree 7, whose error, below 6e-9, is a tenth of an ulp.
#[inline(always)]
pub(super) fn exp_near_zero<N: Single>(r: N) -> N {
    let coefficients = [
        1.0,
        1.0,
        1.0 / 2.0,
        1.0 / 6.0,
        1.0 / 24.0,
        1.0 / 120.0,
        1.0 / 720.0,
        1.0 / 5040.0,
    ];
    polynomial(r, coefficients)
}

/// Returns the hyperbolic tangent. The error is within 4 ulp.
///
/// Below one half it is the Taylor polynomial of degree 15, whose error is a tenth of an ulp. From there on it is
/// `(1 − t) / (1 + t)` with `t = e^(−2|x|)`, which no longer cancels.
#[inline(always)]
pub(super) fn tanh<N: Single>(x: N) -> N {
    const CENTRE: f64 = 0.5;
    const SERIES: [f64; 7] = [
        -0.333_333_333_333,
        0.133_333_333_333,
        -0.053_968_253_968,
        0.021_869_488_536,
        -0.008_863_235_530,
        0.003_592_128_037,
        -0.001_455_834_387,
    ];
    let (zero, one) = (x.like(0.0), x.like(1.0));
    let square = x * x;
    let inner = (x * square).mul_add(polynomial(square, SERIES), x);

    let a = x.where_at_most(zero, zero - x, x);
    let t = (x.like(-2.0) * a).exp();
    let outer = (one - t) / (one + t);
    let outer = x.where_at_most(zero, zero - outer, outer);
    // NaN fails the comparison, and `outer` is NaN too.
    a.where_at_most(x.like(CENTRE), inner, outer)
}

/// Returns `ln(1 + x)` for `x` from 0 to 1, within 3 ulp: `2 artanh(s)` with `s = x / (2 + x)`, by its Taylor polynomial, whose
/// error is below a fiftieth of an ulp.
#[inline(always)]
pub(super) fn ln_1p<N: Single>(x: N) -> N {
    let coefficients = [
        2.0,
        2.0 / 3.0,
        2.0 / 5.0,
        2.0 / 7.0,
        2.0 / 9.0,
        2.0 / 11.0,
        2.0 / 13.0,
        2.0 / 15.0,
    ];
    let s = x / (x.like(2.0) + x);
    s * polynomial(s * s, coefficients)
}

/// Returns `Φ(x) = erfc(−x/√2) / 2` and `e^(−x²/2) / √(2π)`. The errors are within 6 and 4 ulp where the results are
/// normal numbers, also in the tail, and within 2 ulp for `Φ` above a half.
///
/// Near zero, `Φ` is `1/2 + x · C(x²)`. Elsewhere, the tail `Q(a)` with `a = |x|` is
/// `e^(−a²/2) · t · P(t)` with `t = 1 / (1 + a/2)`, the form of Hastings (Approximations for Digital
/// Computers, 1955). `C` and `P` interpolate at Chebyshev nodes and are within 4e-8 of the
/// quotients. In `e^(−a²/2)`, `a²` is split into its f32 value and the rest, which multiplies as
/// `1 − rest/2`; otherwise the rounding error would grow with `a²`.
#[inline(always)]
#[allow(clippy::excessive_precision)] // The constants are written as they were computed.
pub(super) fn normal<N: Single>(x: N) -> (N, N) {
    const CENTRE: f64 = 0.75;
    const C: [f64; 5] = [
        0.398_942_279_469,
        -0.066_490_296_843,
        0.009_972_365_569,
        -0.001_181_332_043,
        0.000_102_982_181,
    ];
    const P: [f64; 10] = [
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
    const DENSITY: f64 = 0.398_942_280_401_432_7; // 1 / √(2π)

    let (zero, one) = (x.like(0.0), x.like(1.0));
    // Beyond 15 the tail is zero; the bound keeps the rest of the split finite. NaN passes the bounds.
    let x = x.at_most(x.like(15.0)).at_least(x.like(-15.0));
    let a = x.where_at_most(zero, zero - x, x);
    let high = a.upper_half();
    let low = a - high;
    let square = a * a;
    let rest = ((high * high - square) + x.like(2.0) * high * low) + low * low;
    let gauss = (x.like(-0.5) * square).exp() * (one - x.like(0.5) * rest);

    let t = one / (one + x.like(0.5) * a);
    let tail = gauss * t * polynomial(t, P);
    let outer = x.where_at_most(zero, tail, one - tail);
    let inner = x.mul_add(polynomial(square, C), x.like(0.5));
    let phi = a.where_at_most(x.like(CENTRE), inner, outer);
    (phi, gauss * x.like(DENSITY))
}
