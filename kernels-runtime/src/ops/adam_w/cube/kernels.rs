//! The kernel: a unit of a cube computes one vector of the parameter and of both moments.

use burn_cubecl::cubecl;
use burn_cubecl::cubecl::prelude::*;

/// The numbers of a step.
#[derive(CubeType, CubeLaunch)]
pub(super) struct Numbers {
    /// The number of vectors of each tensor.
    vectors: usize,
    beta_1: f32,
    /// `1 − β₁`.
    rest_1: f32,
    beta_2: f32,
    /// `1 − β₂`.
    rest_2: f32,
    /// `1 − η·λ`.
    kept: f32,
    /// `η / (1 − β₁ᵗ)`.
    rate: f32,
    /// `1 / √(1 − β₂ᵗ)`.
    root: f32,
    epsilon: f32,
}

/// Writes the parameter and the moments after the step. Each may be the tensor that it is read from.
#[cube(launch_unchecked)]
pub(super) fn step<N: Size>(
    parameter: &[Vector<f32, N>],
    moment_1: &[Vector<f32, N>],
    moment_2: &[Vector<f32, N>],
    gradient: &[Vector<f32, N>],
    next_parameter: &mut [Vector<f32, N>],
    next_1: &mut [Vector<f32, N>],
    next_2: &mut [Vector<f32, N>],
    numbers: &Numbers,
) {
    let i = ABSOLUTE_POS;
    if i >= numbers.vectors {
        terminate!();
    }
    let (p, g) = (parameter[i], gradient[i]);
    let m = Vector::new(numbers.beta_1) * moment_1[i] + Vector::new(numbers.rest_1) * g;
    let v = Vector::new(numbers.beta_2) * moment_2[i] + Vector::new(numbers.rest_2) * (g * g);
    let below = v.sqrt() * Vector::new(numbers.root) + Vector::new(numbers.epsilon);
    next_parameter[i] = p * Vector::new(numbers.kept) - Vector::new(numbers.rate) * m / below;
    next_1[i] = m;
    next_2[i] = v;
}
