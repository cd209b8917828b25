//! The kernels. A unit of a cube computes one vector.

use crate::gpu::elements::{narrow, wide};
use crate::gpu::parts::{at_least, at_most, sigmoid_and_rest};
use burn_cubecl::cubecl;
use burn_cubecl::cubecl::prelude::*;

/// Writes the results of `all` vectors.
#[cube(launch_unchecked)]
pub(super) fn forward<E: Float, N: Size>(
    x: &[Vector<E, N>],
    y: &mut [Vector<E, N>],
    all: usize,
    cap: f32,
    #[define(E)] _element: ElemType,
) {
    let i = ABSOLUTE_POS;
    if i >= all {
        terminate!();
    }
    let cap = Vector::<f32, N>::new(cap);
    // Beyond 20, the tangent is 1, and some devices return NaN for large numbers.
    let z = at_most(wide(x[i]) / cap, Vector::new(20.0));
    y[i] = narrow(at_least(z, Vector::new(-20.0)).tanh() * cap);
}

/// Writes the gradients of `all` vectors.
#[cube(launch_unchecked)]
pub(super) fn backward<E: Float, N: Size>(
    dy: &[Vector<E, N>],
    x: &[Vector<E, N>],
    dx: &mut [Vector<E, N>],
    all: usize,
    cap: f32,
    #[define(E)] _element: ElemType,
) {
    let i = ABSOLUTE_POS;
    if i >= all {
        terminate!();
    }
    let z = wide(x[i]) / Vector::<f32, N>::new(cap);
    let (s, rest) = sigmoid_and_rest(z + z);
    dx[i] = narrow(wide(dy[i]) * (Vector::new(4.0) * s * rest));
}
