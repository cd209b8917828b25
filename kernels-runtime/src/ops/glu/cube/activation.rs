//! The activations.

use crate::gpu::parts::{at_least, at_most, sigmoid_and_rest, silu_with_slope};
use crate::semantics::Activation;
use burn_cubecl::cubecl;
use burn_cubecl::cubecl::prelude::*;
use std::f32::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI, SQRT_2};

/// The factors of `2 · √(2/π) · (a + 0.044715 · a³)`, whose logistic function is `(1 + tanh) / 2` of half of it.
const LINEAR: f32 = FRAC_2_SQRT_PI * SQRT_2;
const CUBIC: f32 = LINEAR * 0.044715;

/// The density of the normal distribution at 0, `1 / √(2π)`.
const DENSITY: f32 = 0.5 * FRAC_2_SQRT_PI * FRAC_1_SQRT_2;

/// The factor of a quick GELU.
const QUICK: f32 = 1.702;

/// Returns the activation of a vector, and its slope.
#[cube]
pub(super) fn with_slope<N: Size>(
    a: Vector<f32, N>,
    #[comptime] activation: Activation,
) -> (Vector<f32, N>, Vector<f32, N>) {
    let (zero, one) = (Vector::<f32, N>::new(0.0), Vector::<f32, N>::new(1.0));
    match comptime!(activation) {
        Activation::Silu => silu_with_slope(a),
        Activation::Gelu => {
            let half = Vector::<f32, N>::new(0.5);
            let phi = half + half * (a * Vector::new(FRAC_1_SQRT_2)).erf();
            let density = Vector::new(DENSITY) * (-half * a * a).exp();
            (a * phi, phi + a * density)
        }
        Activation::GeluTanh => {
            // Beyond, the logistic function is 0 or 1 and flat, and the powers stay finite.
            let b = at_least(at_most(a, Vector::new(20.0)), Vector::new(-20.0));
            let squared = b * b * Vector::new(CUBIC);
            let (s, rest) = sigmoid_and_rest(b * (Vector::new(LINEAR) + squared));
            let inner = Vector::new(LINEAR) + Vector::new(3.0) * squared;
            (a * s, s + s * rest * (b * inner))
        }
        Activation::QuickGelu => {
            let scaled = a * Vector::new(QUICK);
            let (s, rest) = sigmoid_and_rest(scaled);
            (a * s, s * (one + scaled * rest))
        }
        Activation::Relu => {
            let is_positive = a.greater_than(&zero);
            (at_least(a, zero), select_many(is_positive, one, zero))
        }
        Activation::Relu2 => {
            let positive = at_least(a, zero);
            (positive * positive, positive + positive)
        }
        Activation::Sigmoid => {
            let (s, rest) = sigmoid_and_rest(a);
            (s, s * rest)
        }
        Activation::Identity => (a, one),
    }
}
