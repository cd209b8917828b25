//! Parts of kernels: sums and maxima over a cube, and functions of vectors.

use burn_cubecl::cubecl;
use burn_cubecl::cubecl::prelude::*;

/// Returns the sum of the values of all units of the cube, to each of them. `units` is the number of units, a power of
/// two. Values are added in the same order each time.
#[cube]
pub(crate) fn sum_of_cube(value: f32, #[comptime] units: usize) -> f32 {
    of_cube(value, units, Combine::Sum)
}

/// Returns the largest of the values of all units of the cube, to each of them. NaN may be ignored.
#[cube]
pub(crate) fn largest_of_cube(value: f32, #[comptime] units: usize) -> f32 {
    of_cube(value, units, Combine::Largest)
}

/// The number that two numbers become.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Combine {
    Sum,
    Largest,
}

#[cube]
fn of_cube(value: f32, #[comptime] units: usize, #[comptime] combine: Combine) -> f32 {
    let unit = UNIT_POS as usize;
    let mut values = Shared::<[f32]>::new_slice(units);
    values[unit] = value;
    sync_cube();
    #[unroll]
    for step in 0..comptime!(units.ilog2() as usize) {
        let left = comptime!(units >> (step + 1));
        if unit < left {
            let (one, other) = (values[unit], values[unit + left]);
            values[unit] = match comptime!(combine) {
                Combine::Sum => one + other,
                Combine::Largest => select(one < other, other, one),
            };
        }
        sync_cube();
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

/// Returns the factors of sums whose largest exponents grow, `e^(from − to)`: exactly 1 where they stay, which happens often.
/// Some devices round the exponential of 0.
#[cube]
pub(crate) fn shrinkage<N: Size>(from: Vector<f32, N>, to: Vector<f32, N>) -> Vector<f32, N> {
    select_many(from.less_than(&to), (from - to).exp(), Vector::new(1.0))
}

/// Returns the smaller numbers. NaN stays NaN, as far as the language of the device has it.
#[cube]
pub(crate) fn at_most<N: Size>(v: Vector<f32, N>, limit: Vector<f32, N>) -> Vector<f32, N> {
    select_many(v.greater_than(&limit), limit, v)
}

/// Returns the larger numbers. NaN stays NaN, as far as the language of the device has it.
#[cube]
pub(crate) fn at_least<N: Size>(v: Vector<f32, N>, limit: Vector<f32, N>) -> Vector<f32, N> {
    select_many(v.less_than(&limit), limit, v)
}

/// Returns the even and the odd elements of two neighbouring vectors.
#[cube]
pub(crate) fn apart<N: Size>(
    a: Vector<f32, N>,
    b: Vector<f32, N>,
) -> (Vector<f32, N>, Vector<f32, N>) {
    let (mut even, mut odd) = (Vector::<f32, N>::new(0.0), Vector::<f32, N>::new(0.0));
    #[unroll]
    for k in 0..N::value() {
        even.insert(k, element(a, b, comptime!(2 * k)));
        odd.insert(k, element(a, b, comptime!(2 * k + 1)));
    }
    (even, odd)
}

/// Returns two neighbouring vectors, given their even and their odd elements.
#[cube]
pub(crate) fn by_turns<N: Size>(
    even: Vector<f32, N>,
    odd: Vector<f32, N>,
) -> (Vector<f32, N>, Vector<f32, N>) {
    let (mut a, mut b) = (Vector::<f32, N>::new(0.0), Vector::<f32, N>::new(0.0));
    let size = N::value();
    #[unroll]
    for k in 0..N::value() {
        a.insert(k, pair_element(even, odd, k));
        b.insert(k, pair_element(even, odd, comptime!(size + k)));
    }
    (a, b)
}

/// Returns an element of two neighbouring vectors.
#[cube]
fn element<N: Size>(a: Vector<f32, N>, b: Vector<f32, N>, #[comptime] at: usize) -> f32 {
    let size = N::value();
    if comptime!(at < size) {
        a.extract(at)
    } else {
        b.extract(comptime!(at - size))
    }
}

/// Returns an element of the pairs of the elements of two vectors.
#[cube]
fn pair_element<N: Size>(even: Vector<f32, N>, odd: Vector<f32, N>, #[comptime] at: usize) -> f32 {
    if comptime!(at.is_multiple_of(2)) {
        even.extract(comptime!(at / 2))
    } else {
        odd.extract(comptime!(at / 2))
    }
}
