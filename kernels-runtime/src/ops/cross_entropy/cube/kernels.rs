//! The kernels. Logits are slices of vectors: the rows of the tokens, one after the other, of `vectors` vectors each. All
//! other numbers are in f32.

use crate::gpu::elements::{narrow, wide};
use crate::gpu::parts::{at_least, at_most, largest_of_cube, shrinkage, sum_of_cube};
use crate::semantics::LogitCap;
use burn_cubecl::cubecl;
use burn_cubecl::cubecl::prelude::*;

/// The class of a token that is ignored.
pub(in crate::ops) const IGNORED: i32 = -1;

/// The least finite number in f32, at which running maxima start. Differences to it are not NaN, as those of two negative
/// infinities are.
pub(in crate::ops) const LEAST: f32 = f32::MIN;

/// The variant of a loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::ops) struct Terms {
    pub(in crate::ops) cap: LogitCap,
    /// True if there is label smoothing. A product with zero would not be zero for an infinite mean.
    pub(in crate::ops) is_smooth: bool,
    /// True if there is a z-loss.
    pub(in crate::ops) has_z_loss: bool,
}

/// The numbers of a call.
#[derive(CubeType, CubeLaunch)]
pub(in crate::ops) struct Numbers {
    pub(in crate::ops) tokens: usize,
    /// The number of vectors of the logits of a token.
    pub(in crate::ops) vectors: usize,
    pub(in crate::ops) smoothing: f32,
    pub(in crate::ops) cap: f32,
    pub(in crate::ops) z_loss: f32,
    /// No number: the loss and the gradient of a token whose target is a mistake.
    pub(in crate::ops) nan: f32,
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
        sum = sum * shrinkage(largest, next) + (x - next).exp();
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
            let x = capped(wide(logits[start + class / N::value()]), numbers, terms);
            let target = element_at(x, class % N::value());
            losses[token] = loss(target, top, log_sum, spread, numbers, terms);
            lse[token] = log_sum + top;
        } else {
            losses[token] = select(class == IGNORED, 0.0, numbers.nan);
            lse[token] = 0.0;
        }
    }
}

/// Writes the sum of all losses, or their mean over the tokens that are not ignored. One cube does all.
#[cube(launch_unchecked)]
pub(in crate::ops) fn reduce(
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
pub(in crate::ops) fn share(
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
        let x = capped(wide(logits[i]), numbers, terms);
        d = slopes(
            x,
            lse[token],
            at * N::value(),
            class as usize,
            numbers,
            terms,
        );
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

/// Returns the loss of a token, given the capped logit of its class, the largest one, the logarithm of the sum of the
/// exponentials of the differences to it, and the part of the label smoothing.
#[cube]
pub(in crate::ops) fn loss(
    target: f32,
    top: f32,
    log_sum: f32,
    spread: f32,
    numbers: &Numbers,
    #[comptime] terms: Terms,
) -> f32 {
    let mut loss = log_sum - (target - top) * (1.0 - numbers.smoothing) - spread;
    if comptime!(terms.has_z_loss) {
        let l = log_sum + top;
        loss += numbers.z_loss * l * l;
    }
    loss
}

/// Returns the slopes of a token's loss with respect to its logits from the class `first` on, given these within the cap and
/// the token's `lse`.
#[cube]
pub(in crate::ops) fn slopes<N: Size>(
    x: Vector<f32, N>,
    l: f32,
    first: usize,
    class: usize,
    numbers: &Numbers,
    #[comptime] terms: Terms,
) -> Vector<f32, N> {
    let mut d = (x - Vector::new(l)).exp();
    if comptime!(terms.has_z_loss) {
        d *= Vector::new(1.0 + 2.0 * numbers.z_loss * l);
    }
    if comptime!(terms.is_smooth) {
        let width = f32::cast_from(numbers.vectors * N::value());
        d -= Vector::new(numbers.smoothing / width);
    }
    d -= at_class(first, class, 1.0 - numbers.smoothing);
    if comptime!(terms.cap == LogitCap::Tanh) {
        let part = x / Vector::new(numbers.cap);
        d *= Vector::new(1.0) - part * part;
    }
    d
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
pub(in crate::ops) fn capped<N: Size>(
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
pub(in crate::ops) fn largest_element<N: Size>(vector: Vector<f32, N>) -> f32 {
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
pub(in crate::ops) fn element_at<N: Size>(vector: Vector<f32, N>, place: usize) -> f32 {
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
