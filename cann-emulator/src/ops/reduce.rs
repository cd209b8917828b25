//! Reductions of a run of values, and softmax.

use super::arithmetic::{Arithmetic, Float};
use crate::number::Number;

/// Sums by halves.
pub(crate) fn total<T: Number + Arithmetic>(values: &[T]) -> T {
    if values.len() <= 8 {
        return values
            .iter()
            .fold(T::from_i64(0), |sum, value| sum.add(*value));
    }
    let (left, right) = values.split_at(values.len() / 2);
    total(left).add(total(right))
}

pub(crate) fn product<T: Number + Arithmetic>(values: &[T]) -> T {
    values
        .iter()
        .fold(T::from_i64(1), |all, value| all.mul(*value))
}

/// Returns the index of the maximum or minimum: the first of equal values, or the first NaN.
pub(crate) fn extreme<T: Number>(values: &[T], greatest: bool) -> usize {
    let nan = |value: T| value.partial_cmp(&value).is_none();
    let mut best = 0;
    for (place, value) in values.iter().enumerate().skip(1) {
        let held = values[best];
        let better = if greatest {
            *value > held
        } else {
            *value < held
        };
        if !nan(held) && (better || nan(*value)) {
            best = place;
        }
    }
    best
}

/// Combines each value with those before it, in order.
pub(crate) fn running<T: Number>(values: &[T], from: T, combine: fn(T, T) -> T) -> Vec<T> {
    let mut all = from;
    let step = |value: &T| {
        all = combine(all, *value);
        all
    };
    values.iter().map(step).collect()
}

/// Returns the mean of squared distances from the mean, with a divisor less by one if `unbiased`.
pub(crate) fn variance<T: Number + Float>(values: &[T], unbiased: bool) -> T {
    let count = T::from_i64(values.len() as i64);
    let mean = total(values).div(count);
    let squares: Vec<T> = values
        .iter()
        .map(|value| value.sub(mean))
        .map(|distance| distance.mul(distance))
        .collect();
    total(&squares).div(if unbiased {
        count.sub(T::from_i64(1))
    } else {
        count
    })
}

/// Returns `exp(x − max)`, their sum, and the maximum.
fn powers<T: Number + Float>(values: &[T]) -> (Vec<T>, T, T) {
    let most = values[extreme(values, true)];
    let powers: Vec<T> = values.iter().map(|value| value.sub(most).exp()).collect();
    let sum = total(&powers);
    (powers, sum, most)
}

pub(crate) fn softmax<T: Number + Float>(values: &[T]) -> Vec<T> {
    let (powers, sum, _) = powers(values);
    powers.into_iter().map(|power| power.div(sum)).collect()
}

pub(crate) fn log_softmax<T: Number + Float>(values: &[T]) -> Vec<T> {
    let (_, sum, most) = powers(values);
    let log = sum.ln();
    values
        .iter()
        .map(|value| value.sub(most).sub(log))
        .collect()
}

/// Computes `(dy − Σ dy·y) · y`.
pub(crate) fn softmax_backward<T: Number + Float>(dy: &[T], y: &[T]) -> Vec<T> {
    let products: Vec<T> = dy.iter().zip(y).map(|(dy, y)| dy.mul(*y)).collect();
    let sum = total(&products);
    dy.iter()
        .zip(y)
        .map(|(dy, y)| dy.sub(sum).mul(*y))
        .collect()
}

/// Computes `dy − exp(y) · Σ dy`.
pub(crate) fn log_softmax_backward<T: Number + Float>(dy: &[T], y: &[T]) -> Vec<T> {
    let sum = total(dy);
    dy.iter()
        .zip(y)
        .map(|(dy, y)| dy.sub(y.exp().mul(sum)))
        .collect()
}
