//! The activations of gated units.

mod gate;

pub(crate) use gate::{Gate, PIECE, with_function};

use super::Number;

/// An activation function of the gate. It has no branches, so that its loops vectorise.
pub trait Function: Send + Sync {
    /// Returns `f(a)`.
    fn value<A: Number>(a: A) -> A;
    /// Returns the value and its derivative.
    fn with_slope<A: Number>(a: A) -> (A, A);
}

pub struct Silu;
pub struct Gelu;
pub struct GeluTanh;
pub struct QuickGelu;
pub struct Relu;
pub struct Relu2;
pub struct Sigmoid;
pub struct Identity;

impl Function for Silu {
    #[inline(always)]
    fn value<A: Number>(a: A) -> A {
        a * a.sigmoid()
    }

    #[inline(always)]
    fn with_slope<A: Number>(a: A) -> (A, A) {
        a.silu_with_slope()
    }
}

impl Function for Gelu {
    #[inline(always)]
    fn value<A: Number>(a: A) -> A {
        a * a.normal().0
    }

    #[inline(always)]
    fn with_slope<A: Number>(a: A) -> (A, A) {
        let (phi, density) = a.normal();
        (a * phi, a.mul_add(density, phi))
    }
}

/// Uses `(1 + tanh(z)) / 2 = σ(2z)`, with `2z = a · (LINEAR + CUBIC · a²)`.
impl GeluTanh {
    /// `2 · √(2/π)`.
    const LINEAR: f64 = std::f64::consts::FRAC_2_SQRT_PI * std::f64::consts::SQRT_2;
    const CUBIC: f64 = Self::LINEAR * 0.044715;

    /// Clamps to ±20. Beyond that the sigmoid is 0 or 1 and flat; the bound keeps its powers finite.
    #[inline(always)]
    fn bounded<A: Number>(a: A) -> A {
        a.at_most(a.like(20.0)).at_least(a.like(-20.0))
    }

    /// Returns `2z`.
    #[inline(always)]
    fn argument<A: Number>(b: A) -> A {
        b * (b.like(Self::CUBIC) * b).mul_add(b, b.like(Self::LINEAR))
    }
}

impl Function for GeluTanh {
    #[inline(always)]
    fn value<A: Number>(a: A) -> A {
        a * Self::argument(Self::bounded(a)).sigmoid()
    }

    #[inline(always)]
    fn with_slope<A: Number>(a: A) -> (A, A) {
        let b = Self::bounded(a);
        let (s, rest) = Self::argument(b).sigmoid_and_rest();
        let inner = (b.like(3.0 * Self::CUBIC) * b).mul_add(b, b.like(Self::LINEAR));
        (a * s, s + s * rest * (b * inner))
    }
}

impl QuickGelu {
    const ALPHA: f64 = 1.702;
}

impl Function for QuickGelu {
    #[inline(always)]
    fn value<A: Number>(a: A) -> A {
        a * (a.like(Self::ALPHA) * a).sigmoid()
    }

    #[inline(always)]
    fn with_slope<A: Number>(a: A) -> (A, A) {
        let scaled = a.like(Self::ALPHA) * a;
        let (s, rest) = scaled.sigmoid_and_rest();
        (a * s, s * scaled.mul_add(rest, a.like(1.0)))
    }
}

impl Function for Relu {
    #[inline(always)]
    fn value<A: Number>(a: A) -> A {
        a.at_least(a.like(0.0))
    }

    #[inline(always)]
    fn with_slope<A: Number>(a: A) -> (A, A) {
        let zero = a.like(0.0);
        let slope = a.where_at_most(zero, zero, a.like(1.0));
        (a.at_least(zero), slope)
    }
}

impl Function for Relu2 {
    #[inline(always)]
    fn value<A: Number>(a: A) -> A {
        let positive = a.at_least(a.like(0.0));
        positive * positive
    }

    #[inline(always)]
    fn with_slope<A: Number>(a: A) -> (A, A) {
        let positive = a.at_least(a.like(0.0));
        (positive * positive, positive + positive)
    }
}

impl Function for Sigmoid {
    #[inline(always)]
    fn value<A: Number>(a: A) -> A {
        a.sigmoid()
    }

    #[inline(always)]
    fn with_slope<A: Number>(a: A) -> (A, A) {
        let (s, rest) = a.sigmoid_and_rest();
        (s, s * rest)
    }
}

impl Function for Identity {
    #[inline(always)]
    fn value<A: Number>(a: A) -> A {
        a
    }

    #[inline(always)]
    fn with_slope<A: Number>(a: A) -> (A, A) {
        (a, a.like(1.0))
    }
}
