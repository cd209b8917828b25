//! The kernels. Logits are slices of vectors: the rows of the tokens, one after the other, of `vectors` vectors each. All
//! other numbers are in f32.

use crate::gpu::elements::{narrow, wide};
use crate::gpu::parts::{at_least, at_most, largest_of_cube, sum_of_cube};
use crate::semantics::LogitCap;
use burn_cubecl::cubecl;
use burn_cubecl::cubecl::prelude::*;

/// The class of a token that is ignored.
pub(super) const IGNORED: i32 = -1;

/// The least finite number in f32, at which running maxima start. Differences to it are no NaN, as those of two negative
/// infinities are.
const LEAST: f32 = f32::MIN;

/// The variant of a loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Terms {
    pub(super) cap: LogitCap,
    /// True if there is label smoothing. A product with zero would not be zero for an infinite mean.
    pub(super) is_smooth: bool,
    /// True if there is a z-loss.
    pub(super) has_z_loss: bool,
}

/// The numbers of a call.
#[derive(CubeType, CubeLaunch)]
pub(super) struct Numbers {
    tokens: usize,
    /// The number of vectors of the logits of a token.
    vectors: usize,
    smoothing: f32,
    cap: f32,
    z_loss: f32,
    /// No number: the loss and the gradient of a token whose target is a mistake.
    nan: f32,
}

/// Writes the loss of one token, and its `lse`.
#[cube(launch_unchecked)]
pub(super) fn forward<E: Float, N: Size>(
    logits: &[Vector<E, N>],
    classes: &[i32],
    losses: &mut [f32],
    lse: &mut [f32],
    numbers: &Numbers,
    #[comptime] terms: Terms,
    #[comptime] units: usize,
    #[define(E)] _element: ElemType,
) {
    let token = CUBE_POS;
    if token >= numbers.tokens {
        terminate!();
    }
    let start = token * numbers.vectors;
    // The largest logit so far, the sum of the exponentials of the differences to it, and the sum of all logits.
    let mut largest = Vector::<f32, N>::new(LEAST);
    let mut sum = Vector::<f32, N>::new(0.0);
    let mut all = Vector::<f32, N>::new(0.0);
    let mut at = UNIT_POS as usize;
    while at < numbers.vectors {
        let x = capped(wide(logits[start + at]), numbers, terms);
        let next = at_least(x, largest);
        sum = sum * (largest - next).exp() + (x - next).exp();
        largest = next;
        if comptime!(terms.is_smooth) {
            all += x;
        }
        at += units;
    }
    let top = largest_of_cube(largest_element(largest), units);
    let sum = sum * (largest - Vector::new(top)).exp();
    let log_sum = sum_of_cube(sum.vector_sum(), units).ln();
    let mut spread = 0.0f32;
    if comptime!(terms.is_smooth) {
        let width = f32::cast_from(numbers.vectors * N::value());
        spread = (sum_of_cube(all.vector_sum(), units) / width - top) * numbers.smoothing;
    }
    if UNIT_POS == 0 {
        let class = classes[token];
        if class >= 0 {
            let class = class as usize;
            let x = wide(logits[start + class / N::value()]);
            let x = capped(x, numbers, terms);
            let below = element_at(x, class % N::value()) - top;
            let mut loss = log_sum - below * (1.0 - numbers.smoothing) - spread;
            if comptime!(terms.has_z_loss) {
                let l = log_sum + top;
                loss += numbers.z_loss * l * l;
            }
            losses[token] = loss;
            lse[token] = log_sum + top;
        } else {
            losses[token] = select(class == IGNORED, 0.0, numbers.nan);
            lse[token] = 0.0;
        }
    }
}

/// Writes the sum of all losses, or their mean over the tokens that are not ignored. One cube does all.
#[cube(launch_unchecked)]
pub(super) fn reduce(
    losses: &[f32],
    classes: &[i32],
    result: &mut [f32],
    tokens: usize,
    #[comptime] is_mean: bool,
    #[comptime] units: usize,
) {
    let mut sum = 0.0f32;
    let mut at = UNIT_POS as usize;
    while at < tokens {
        sum += losses[at];
        at += units;
    }
    let mut total = sum_of_cube(sum, units);
    if comptime!(is_mean) {
        total *= 1.0 / counted(classes, tokens, units);
    }
    if UNIT_POS == 0 {
        result[0] = total;
    }
}

/// Writes the gradient of each token's loss, given that of their mean. One cube does all.
#[cube(launch_unchecked)]
pub(super) fn share(
    dy: &[f32],
    classes: &[i32],
    result: &mut [f32],
    tokens: usize,
    #[comptime] units: usize,
) {
    let count = counted(classes, tokens, units);
    if UNIT_POS == 0 {
        result[0] = dy[0] / count;
    }
}

/// Writes one vector of the gradient of the logits. `factors` has one number for each token if `is_each`, and else one for
/// all.
#[cube(launch_unchecked)]
pub(super) fn backward<E: Float, N: Size>(
    factors: &[f32],
    logits: &[Vector<E, N>],
    classes: &[i32],
    lse: &[f32],
    d_logits: &mut [Vector<E, N>],
    numbers: &Numbers,
    #[comptime] terms: Terms,
    #[comptime] is_each: bool,
    #[define(E)] _element: ElemType,
) {
    let i = ABSOLUTE_POS;
    if i >= numbers.tokens * numbers.vectors {
        terminate!();
    }
    let (token, at) = (i / numbers.vectors, i % numbers.vectors);
    let class = classes[token];
    let mut d = Vector::<f32, N>::new(0.0);
    if class >= 0 {
        let (x, l) = (capped(wide(logits[i]), numbers, terms), lse[token]);
        d = (x - Vector::new(l)).exp();
        if comptime!(terms.has_z_loss) {
            d *= Vector::new(1.0 + 2.0 * numbers.z_loss * l);
        }
        if comptime!(terms.is_smooth) {
            let width = f32::cast_from(numbers.vectors * N::value());
            d -= Vector::new(numbers.smoothing / width);
        }
        d -= at_class(at * N::value(), class as usize, 1.0 - numbers.smoothing);
        if comptime!(terms.cap == LogitCap::Tanh) {
            let part = x / Vector::new(numbers.cap);
            d *= Vector::new(1.0) - part * part;
        }
        let factor = if comptime!(is_each) {
            factors[token]
        } else {
            factors[0]
        };
        d *= Vector::new(factor);
    } else if class != IGNORED {
        d = Vector::new(numbers.nan);
    }
    d_logits[i] = narrow(d);
}

/// Returns the number of tokens that are not ignored, to each unit of the cube.
#[cube]
fn counted(classes: &[i32], tokens: usize, #[comptime] units: usize) -> f32 {
    let mut count = 0.0f32;
    let mut at = UNIT_POS as usize;
    while at < tokens {
        count += select(classes[at] == IGNORED, 0.0, 1.0);
        at += units;
    }
    sum_of_cube(count, units)
}

/// Returns logits within the cap.
#[cube]
fn capped<N: Size>(
    logits: Vector<f32, N>,
    numbers: &Numbers,
    #[comptime] terms: Terms,
) -> Vector<f32, N> {
    if comptime!(terms.cap == LogitCap::Tanh) {
        let cap = Vector::new(numbers.cap);
        // Beyond 20, the tangent is 1, and some devices return NaN for large numbers.
        let z = at_most(logits / cap, Vector::new(20.0));
        at_least(z, Vector::new(-20.0)).tanh() * cap
    } else {
        logits
    }
}

/// Returns the largest element of a vector.
#[cube]
fn largest_element<N: Size>(vector: Vector<f32, N>) -> f32 {
    let mut largest = vector.extract(0usize);
    #[unroll]
    for k in 1..N::value() {
        let other = vector.extract(k);
        largest = select(largest < other, other, largest);
    }
    largest
}

/// Returns the element at a place of a vector.
#[cube]
fn element_at<N: Size>(vector: Vector<f32, N>, place: usize) -> f32 {
    let mut found = vector.extract(0usize);
    #[unroll]
    for k in 1..N::value() {
        found = select(place == k, vector.extract(k), found);
    }
    found
}

/// Returns a vector of zeros, with a number at the place of a class. Its first element is that of the class `first`.
#[cube]
fn at_class<N: Size>(first: usize, class: usize, number: f32) -> Vector<f32, N> {
    let mut vector = Vector::<f32, N>::new(0.0);
    #[unroll]
    for k in 0..N::value() {
        vector.insert(k, select(first + k == class, number, 0.0));
    }
    vector
}
