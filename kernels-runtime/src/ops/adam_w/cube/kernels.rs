//! The kernel: a unit of a cube computes one vector of the parameter and of both moments.

use crate::gpu::elements::{narrow, wide};
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
pub(super) fn step<E: Float, N: Size>(
    parameter: &[Vector<E, N>],
    moment_1: &[Vector<E, N>],
    moment_2: &[Vector<E, N>],
    gradient: &[Vector<E, N>],
    next_parameter: &mut [Vector<E, N>],
    next_1: &mut [Vector<E, N>],
    next_2: &mut [Vector<E, N>],
    numbers: &Numbers,
    #[define(E)] _element: ElemType,
) {
    let i = ABSOLUTE_POS;
    if i >= numbers.vectors {
        terminate!();
    }
    let (p, g) = (wide(parameter[i]), wide(gradient[i]));
    let m = Vector::new(numbers.beta_1) * wide(moment_1[i]) + Vector::new(numbers.rest_1) * g;
    let v = Vector::new(numbers.beta_2) * wide(moment_2[i]) + Vector::new(numbers.rest_2) * (g * g);
    let below = v.sqrt() * Vector::new(numbers.root) + Vector::new(numbers.epsilon);
    let next = p * Vector::new(numbers.kept) - Vector::new(numbers.rate) * m / below;
    next_parameter[i] = narrow(next);
    next_1[i] = narrow(m);
    next_2[i] = narrow(v);
}
