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

/// The lowest and the highest value that a histogram counts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Range {
    pub(crate) low: f32,
    pub(crate) high: f32,
}

/// Returns the range of a histogram: the limits, that of the values if the limits are equal, and one further on both
/// sides if those are, too.
pub(crate) fn range(values: &[f32], low: f32, high: f32) -> Range {
    let mut range = Range { low, high };
    if low == high && !values.is_empty() {
        range = Range {
            low: values.iter().copied().fold(f32::INFINITY, f32::min),
            high: values.iter().copied().fold(f32::NEG_INFINITY, f32::max),
        };
    }
    if range.low == range.high {
        range = Range {
            low: range.low - 1.0,
            high: range.high + 1.0,
        };
    }
    range
}

/// Returns the number of values in each of `bins` equal parts of a range. The last part has its upper end.
pub(crate) fn histogram(values: &[f32], bins: usize, range: Range) -> Vec<i64> {
    let mut counts = vec![0; bins];
    for value in values {
        if (range.low..=range.high).contains(value) {
            let part = (value - range.low) * bins as f32 / (range.high - range.low);
            counts[(part as usize).min(bins - 1)] += 1;
        }
    }
    counts
}

/// Returns the sum of squared distances from the mean, divided by their number less `correction`, at least zero.
pub(crate) fn variance<T: Number + Float>(values: &[T], correction: i64) -> T {
    let count = T::from_i64(values.len() as i64);
    let mean = total(values).div(count);
    let squares: Vec<T> = values
        .iter()
        .map(|value| value.sub(mean))
        .map(|distance| distance.mul(distance))
        .collect();
    let divisor = (values.len() as i64 - correction).max(0);
    total(&squares).div(T::from_i64(divisor))
}

/// Returns the root of order `order` of the sum of powers; for an infinite order the greatest or the least absolute
/// value, and for 0 the number of values other than zero.
pub(crate) fn norm(values: &[f32], order: f32) -> f32 {
    let absolute: Vec<f32> = values.iter().map(|value| value.abs()).collect();
    if order.is_infinite() {
        return absolute[extreme(&absolute, order > 0.0)];
    }
    if order == 0.0 {
        return absolute.iter().filter(|value| **value != 0.0).count() as f32;
    }
    let powers: Vec<f32> = absolute.iter().map(|value| value.powf(order)).collect();
    total(&powers).powf(1.0 / order)
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

/// Computes `ln Σ exp(x)`. Of nothing it is −∞, and an infinite value is the result.
pub(crate) fn log_sum_exp<T: Number + Float>(values: &[T]) -> T {
    let Some(most) = (!values.is_empty()).then(|| values[extreme(values, true)]) else {
        return T::from_f64(f64::NEG_INFINITY);
    };
    if most.to_f64().is_infinite() {
        return most;
    }
    let (_, sum, most) = powers(values);
    most.add(sum.ln())
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
