//! Arithmetic on single values, for each type that operators compute in.
//!
//! Integers wrap. A quotient or remainder by zero, which CANN leaves undefined, is 0. Maximum, minimum and clamps pass
//! NaN on. `remainder` has the divisor's sign, and `fmod` the dividend's.

/// Arithmetic of one or two values.
pub(crate) trait Arithmetic: Sized {
    fn add(self, rhs: Self) -> Self;
    fn sub(self, rhs: Self) -> Self;
    fn mul(self, rhs: Self) -> Self;
    fn maximum(self, rhs: Self) -> Self;
    fn minimum(self, rhs: Self) -> Self;
    fn power(self, rhs: Self) -> Self;
    fn remainder(self, rhs: Self) -> Self;
    fn fmod(self, rhs: Self) -> Self;
    /// Returns the quotient rounded towards zero.
    fn div_trunc(self, rhs: Self) -> Self;
    /// Returns the quotient rounded down.
    fn div_floor(self, rhs: Self) -> Self;
    fn neg(self) -> Self;
    fn abs(self) -> Self;
    /// Returns -1, 0 or 1; NaN for NaN.
    fn sign(self) -> Self;
    fn round(self) -> Self;
    fn floor(self) -> Self;
    fn relu(self) -> Self;
    /// Returns `true` if the value is neither infinite nor NaN.
    fn finite(self) -> bool;
}

/// Functions of floats.
pub(crate) trait Float: Arithmetic {
    fn div(self, rhs: Self) -> Self;
    fn exp(self) -> Self;
    fn ln(self) -> Self;
    fn log1p(self) -> Self;
    fn expm1(self) -> Self;
    fn log2(self) -> Self;
    fn log10(self) -> Self;
    fn exp2(self) -> Self;
    fn sqrt(self) -> Self;
    fn rsqrt(self) -> Self;
    fn reciprocal(self) -> Self;
    fn sin(self) -> Self;
    fn cos(self) -> Self;
    fn tan(self) -> Self;
    fn tanh(self) -> Self;
    fn sinh(self) -> Self;
    fn cosh(self) -> Self;
    fn asin(self) -> Self;
    fn acos(self) -> Self;
    fn atan(self) -> Self;
    fn asinh(self) -> Self;
    fn acosh(self) -> Self;
    fn atanh(self) -> Self;
    /// Returns the angle of a point with height `self` and width `rhs`.
    fn atan2(self, rhs: Self) -> Self;
    fn erf(self) -> Self;
    fn ceil(self) -> Self;
    fn trunc(self) -> Self;
    fn sigmoid(self) -> Self;
    fn silu(self) -> Self;
    /// Returns `x · Φ(x)`.
    fn gelu(self) -> Self;
    /// Returns its approximation, `x/2 · (1 + tanh(√(2/π) · (x + 0.044715·x³)))`.
    fn gelu_tanh(self) -> Self;
    /// Returns `dy · σ(x) · (1 + x · (1 − σ(x)))`, where dy is `self`.
    fn silu_backward(self, x: Self) -> Self;
}

mod libm {
    // SAFETY: these are the prototypes of C's mathematical library, which every program with std links.
    unsafe extern "C" {
        pub(super) safe fn erff(x: f32) -> f32;
        pub(super) safe fn erf(x: f64) -> f64;
    }
}

macro_rules! floats {
    ($type:ident, $erf:ident) => {
        impl Arithmetic for $type {
            fn add(self, rhs: Self) -> Self {
                self + rhs
            }
            fn sub(self, rhs: Self) -> Self {
                self - rhs
            }
            fn mul(self, rhs: Self) -> Self {
                self * rhs
            }
            fn maximum(self, rhs: Self) -> Self {
                if self > rhs || self.is_nan() {
                    self
                } else {
                    rhs
                }
            }
            fn minimum(self, rhs: Self) -> Self {
                if self < rhs || self.is_nan() {
                    self
                } else {
                    rhs
                }
            }
            fn power(self, rhs: Self) -> Self {
                self.powf(rhs)
            }
            fn remainder(self, rhs: Self) -> Self {
                let rest = self % rhs;
                if rest != 0.0 && (rest < 0.0) != (rhs < 0.0) {
                    rest + rhs
                } else {
                    rest
                }
            }
            fn fmod(self, rhs: Self) -> Self {
                self % rhs
            }
            fn div_trunc(self, rhs: Self) -> Self {
                (self / rhs).trunc()
            }
            fn div_floor(self, rhs: Self) -> Self {
                (self / rhs).floor()
            }
            fn neg(self) -> Self {
                -self
            }
            fn abs(self) -> Self {
                $type::abs(self)
            }
            fn sign(self) -> Self {
                if self == 0.0 || self.is_nan() {
                    self
                } else {
                    self.signum()
                }
            }
            fn round(self) -> Self {
                self.round_ties_even()
            }
            fn floor(self) -> Self {
                $type::floor(self)
            }
            fn relu(self) -> Self {
                if self < 0.0 { 0.0 } else { self }
            }
            fn finite(self) -> bool {
                $type::is_finite(self)
            }
        }

        impl Float for $type {
            fn div(self, rhs: Self) -> Self {
                self / rhs
            }
            fn exp(self) -> Self {
                $type::exp(self)
            }
            fn ln(self) -> Self {
                $type::ln(self)
            }
            fn log1p(self) -> Self {
                self.ln_1p()
            }
            fn expm1(self) -> Self {
                self.exp_m1()
            }
            fn log2(self) -> Self {
                $type::log2(self)
            }
            fn log10(self) -> Self {
                $type::log10(self)
            }
            fn exp2(self) -> Self {
                $type::exp2(self)
            }
            fn sqrt(self) -> Self {
                $type::sqrt(self)
            }
            fn rsqrt(self) -> Self {
                1.0 / $type::sqrt(self)
            }
            fn reciprocal(self) -> Self {
                1.0 / self
            }
            fn sin(self) -> Self {
                $type::sin(self)
            }
            fn cos(self) -> Self {
                $type::cos(self)
            }
            fn tan(self) -> Self {
                $type::tan(self)
            }
            fn tanh(self) -> Self {
                $type::tanh(self)
            }
            fn sinh(self) -> Self {
                $type::sinh(self)
            }
            fn cosh(self) -> Self {
                $type::cosh(self)
            }
            fn asin(self) -> Self {
                $type::asin(self)
            }
            fn acos(self) -> Self {
                $type::acos(self)
            }
            fn atan(self) -> Self {
                $type::atan(self)
            }
            fn asinh(self) -> Self {
                $type::asinh(self)
            }
            fn acosh(self) -> Self {
                $type::acosh(self)
            }
            fn atanh(self) -> Self {
                $type::atanh(self)
            }
            fn atan2(self, rhs: Self) -> Self {
                $type::atan2(self, rhs)
            }
            fn erf(self) -> Self {
                libm::$erf(self)
            }
            fn ceil(self) -> Self {
                $type::ceil(self)
            }
            fn trunc(self) -> Self {
                $type::trunc(self)
            }
            fn sigmoid(self) -> Self {
                1.0 / (1.0 + $type::exp(-self))
            }
            fn silu(self) -> Self {
                self / (1.0 + $type::exp(-self))
            }
            fn gelu(self) -> Self {
                0.5 * self * (1.0 + libm::$erf(self * std::$type::consts::FRAC_1_SQRT_2))
            }
            fn gelu_tanh(self) -> Self {
                let inner =
                    (2.0 / std::$type::consts::PI).sqrt() * (self + 0.044715 * self.powi(3));
                0.5 * self * (1.0 + $type::tanh(inner))
            }
            fn silu_backward(self, x: Self) -> Self {
                let sigmoid = 1.0 / (1.0 + $type::exp(-x));
                self * sigmoid * (1.0 + x * (1.0 - sigmoid))
            }
        }
    };
}

floats!(f32, erff);
floats!(f64, erf);

impl Arithmetic for i64 {
    fn add(self, rhs: Self) -> Self {
        self.wrapping_add(rhs)
    }
    fn sub(self, rhs: Self) -> Self {
        self.wrapping_sub(rhs)
    }
    fn mul(self, rhs: Self) -> Self {
        self.wrapping_mul(rhs)
    }
    fn maximum(self, rhs: Self) -> Self {
        self.max(rhs)
    }
    fn minimum(self, rhs: Self) -> Self {
        self.min(rhs)
    }
    /// Returns the whole part for a negative exponent: 0, but not for ±1.
    fn power(self, rhs: Self) -> Self {
        match (self, rhs) {
            (1, _) => 1,
            (-1, _) => 1 - 2 * (rhs & 1),
            (_, ..0) => 0,
            _ => {
                let (mut result, mut base, mut left) = (1i64, self, rhs);
                while left > 0 {
                    if left & 1 == 1 {
                        result = result.wrapping_mul(base);
                    }
                    base = base.wrapping_mul(base);
                    left >>= 1;
                }
                result
            }
        }
    }
    fn remainder(self, rhs: Self) -> Self {
        let rest = self.fmod(rhs);
        if rest != 0 && (rest < 0) != (rhs < 0) {
            rest + rhs
        } else {
            rest
        }
    }
    fn fmod(self, rhs: Self) -> Self {
        if rhs == 0 { 0 } else { self.wrapping_rem(rhs) }
    }
    fn div_trunc(self, rhs: Self) -> Self {
        if rhs == 0 { 0 } else { self.wrapping_div(rhs) }
    }
    fn div_floor(self, rhs: Self) -> Self {
        let rest = self.fmod(rhs);
        self.div_trunc(rhs) - Self::from(rest != 0 && (rest < 0) != (rhs < 0))
    }
    fn neg(self) -> Self {
        self.wrapping_neg()
    }
    fn abs(self) -> Self {
        self.wrapping_abs()
    }
    fn sign(self) -> Self {
        self.signum()
    }
    fn round(self) -> Self {
        self
    }
    fn floor(self) -> Self {
        self
    }
    fn relu(self) -> Self {
        self.max(0)
    }
    fn finite(self) -> bool {
        true
    }
}

/// Returns `low` or `high` if the value is beyond them. If both apply, `high` counts.
pub(crate) fn clamp<T: PartialOrd + Copy>(value: T, low: Option<T>, high: Option<T>) -> T {
    let value = low.filter(|low| value < *low).unwrap_or(value);
    high.filter(|high| value > *high).unwrap_or(value)
}
