//! Parts of kernels: sums over a cube, and functions of vectors.

use burn_cubecl::cubecl;
use burn_cubecl::cubecl::prelude::*;

/// Returns the sum of the values of all units of the cube, to each of them. `units` is the number of units, a power of
/// two. Values are added in the same order each time.
#[cube]
pub(crate) fn sum_of_cube(value: f32, #[comptime] units: usize) -> f32 {
    let unit = UNIT_POS as usize;
    let mut values = Shared::<[f32]>::new_slice(units);
    values[unit] = value;
    sync_cube();
    let mut left = comptime!(units / 2).runtime();
    while left > 0 {
        if unit < left {
            let other = values[unit + left];
            values[unit] += other;
        }
        sync_cube();
        left /= 2;
    }
    values[0]
}

/// Returns the logistic function, `1 / (1 + exp(-z))`. No intermediate value is infinite.
#[cube]
pub(crate) fn sigmoid<N: Size>(z: Vector<f32, N>) -> Vector<f32, N> {
    let one = Vector::<f32, N>::new(1.0);
    let small = (-Vector::abs(z)).exp();
    let positive = one / (one + small);
    select_many(z.less_than(&Vector::new(0.0)), small * positive, positive)
}

/// Returns the [logistic function](sigmoid) `σ`, and `1 − σ` without the cancellation of a subtraction.
#[cube]
pub(crate) fn sigmoid_and_rest<N: Size>(z: Vector<f32, N>) -> (Vector<f32, N>, Vector<f32, N>) {
    (sigmoid(z), sigmoid(-z))
}

/// Returns `silu(z) = z · σ(z)` and its slope.
#[cube]
pub(crate) fn silu_with_slope<N: Size>(z: Vector<f32, N>) -> (Vector<f32, N>, Vector<f32, N>) {
    let (s, rest) = sigmoid_and_rest(z);
    (z * s, s * (Vector::new(1.0) + z * rest))
}
