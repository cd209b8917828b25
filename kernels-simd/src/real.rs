#[cfg(any(not(target_arch = "x86_64"), miri))]
use super::lanes::in_arrays;
#[cfg(all(target_arch = "x86_64", not(miri)))]
use super::lanes::in_registers;
#[cfg(target_arch = "x86_64")]
use super::lanes::{Array, Avx2, Avx512, Lanes};
use super::lanes::{Task, plain};
use super::number::{self, EXP_BOUNDS, LN2, Number, Single, exp_near_zero};
use std::ops::{AddAssign, Neg};

/// The type that kernels compute in: f32, or f64 for f64 tensors.
pub trait Real:
    Number + Send + Sync + PartialOrd + Neg<Output = Self> + AddAssign + 'static
{
    /// The registers of AVX2 for sixteen of these numbers.
    #[cfg(target_arch = "x86_64")]
    type Avx2: Lanes<Self, pulp::x86::V3>;
    /// The registers of AVX-512 for sixteen of these numbers.
    #[cfg(target_arch = "x86_64")]
    type Avx512: Lanes<Self, pulp::x86::V4>;

    const ZERO: Self;
    const ONE: Self;
    /// The lowest finite number.
    const LOWEST: Self;

    fn of(value: f64) -> Self;
    fn into_f64(self) -> f64;
    fn sqrt(self) -> Self;
    /// Returns the natural logarithm. It does not vectorise.
    fn ln(self) -> Self;

    /// Runs a task that computes in this type.
    fn dispatch<K: Task>(task: K) -> K::Output;
}

macro_rules! compared {
    () => {
        #[inline(always)]
        fn like(self, value: f64) -> Self {
            value as Self
        }

        /// Does not use the fused instruction, because processors without it would call a function.
        #[inline(always)]
        fn mul_add(self, factor: Self, term: Self) -> Self {
            self * factor + term
        }

        #[inline(always)]
        fn at_most(self, limit: Self) -> Self {
            if self > limit { limit } else { self }
        }

        #[inline(always)]
        fn at_least(self, limit: Self) -> Self {
            if self < limit { limit } else { self }
        }

        #[inline(always)]
        fn where_at_most(self, limit: Self, yes: Self, no: Self) -> Self {
            if self <= limit { yes } else { no }
        }
    };
}

impl Number for f32 {
    compared!();

    #[inline(always)]
    fn exp(self) -> Self {
        exp_f32(self)
    }

    #[inline(always)]
    fn tanh(self) -> Self {
        number::tanh(self)
    }

    #[inline(always)]
    fn ln_1p(self) -> Self {
        number::ln_1p(self)
    }

    #[inline(always)]
    fn normal(self) -> (Self, Self) {
        number::normal(self)
    }
}

impl Single for f32 {
    #[inline(always)]
    fn upper_half(self) -> Self {
        Self::from_bits(self.to_bits() & 0xffff_f000)
    }
}

/// Uses the standard library: f64 is for checks, where speed does not matter.
impl Number for f64 {
    compared!();

    #[inline(always)]
    fn exp(self) -> Self {
        Self::exp(self)
    }

    #[inline(always)]
    fn tanh(self) -> Self {
        Self::tanh(self)
    }

    #[inline(always)]
    fn ln_1p(self) -> Self {
        Self::ln_1p(self)
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

macro_rules! real {
    ($Float:ident, $Avx2:ty, $Avx512:ty, $dispatch:path) => {
        impl Real for $Float {
            #[cfg(target_arch = "x86_64")]
            type Avx2 = $Avx2;
            #[cfg(target_arch = "x86_64")]
            type Avx512 = $Avx512;

            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;
            const LOWEST: Self = Self::MIN;

            #[inline(always)]
            fn of(value: f64) -> Self {
                value as Self
            }

            #[inline(always)]
            fn into_f64(self) -> f64 {
                f64::from(self)
            }

            #[inline(always)]
            fn sqrt(self) -> Self {
                Self::sqrt(self)
            }

            #[inline(always)]
            fn ln(self) -> Self {
                Self::ln(self)
            }

            fn dispatch<K: Task>(task: K) -> K::Output {
                $dispatch(task)
            }
        }
    };
}
#[cfg(all(target_arch = "x86_64", not(miri)))]
real!(f32, Avx2, Avx512, in_registers);
#[cfg(all(target_arch = "x86_64", miri))]
real!(f32, Avx2, Avx512, in_arrays);
#[cfg(not(target_arch = "x86_64"))]
real!(f32, (), (), in_arrays);
// Each set of instructions would add a tenth to what this crate compiles, for tensors that tests compute.
real!(f64, Array<f64>, Array<f64>, plain);

/// Returns `e^x`, without branches, so that it vectorises. The error is within 2 ulp where the result is normal.
///
/// `e^x = 2^n · e^r` with `n = round(x / ln 2)` and `|r| ≤ ln 2 / 2`. NaN stays NaN. Overflow is infinite
/// and underflow gradual, because `2^n` is applied in two halves. Below the bounds it is zero without an underflow, for which
/// some processors need a hundred cycles: hidden keys of attention have exponents of `-∞`.
#[inline(always)]
fn exp_f32(x: f32) -> f32 {
    const SHIFT: f32 = 12_582_912.0; // 1.5 · 2^23: adding it rounds to an integer.
    let [lowest, highest] = EXP_BOUNDS.map(|bound| bound as f32);
    let x = x.at_most(highest).at_least(lowest);

    let shifted = x * std::f32::consts::LOG2_E + SHIFT;
    let n = shifted - SHIFT;
    let [high, low] = LN2.map(|part| part as f32);
    let r = (x - n * high) - n * low;

    // The low bits of `shifted` hold the integer.
    let n = (shifted.to_bits() as i32).wrapping_sub(SHIFT.to_bits() as i32);
    let half = n >> 1;
    let near_zero = x.where_at_most(lowest, 0.0, exp_near_zero(r));
    near_zero * power_of_two(half) * power_of_two(n.wrapping_sub(half))
}

/// Returns `2^n` for `-126 ≤ n ≤ 127`.
#[inline(always)]
fn power_of_two(n: i32) -> f32 {
    f32::from_bits((n.wrapping_add(127) as u32) << 23)
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
            let (phi, density) = number::normal(x);
            let (exact, exact_density) = f64::from(x).normal();
            let errors = [
                (f64::from(phi) - exact).abs() / ulp(exact),
                (f64::from(density) - exact_density).abs() / ulp(exact_density),
            ];
            assert!(errors.iter().all(|error| error.is_finite()), "{x}");
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
        assert_eq!(number::normal(f32::INFINITY), (1.0, 0.0));
        assert_eq!(number::normal(f32::NEG_INFINITY), (0.0, 0.0));
        assert_eq!(number::normal(1e30).0, 1.0);
        let (phi, density) = number::normal(f32::NAN);
        assert!(phi.is_nan() && density.is_nan());
        assert!((number::normal(0.0).0 - 0.5).abs() < 1e-7);
        assert_eq!(number::normal(0.0), number::normal(-0.0));
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
            let error = (f64::from(exp_f32(x)) - exact).abs() / ulp;
            assert!(error.is_finite(), "{x}");
            worst = worst.max(error);
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
            let error = (f64::from(number::tanh(x)) - exact).abs() / ulp;
            assert!(error.is_finite(), "{x}");
            worst = worst.max(error);
            x += 0.000_317;
        }
        assert!(worst < 4.0, "{worst} ulp");
        assert_eq!(number::tanh(f32::INFINITY), 1.0);
        assert_eq!(number::tanh(f32::NEG_INFINITY), -1.0);
        assert_eq!(number::tanh(1e-30), 1e-30);
        assert!(number::tanh(f32::NAN).is_nan());
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
}
