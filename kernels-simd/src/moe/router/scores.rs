//! The scores of one row, in the accumulation type.

use crate::keys::{Renormalise, Scoring};
use crate::{Element, Number, Real, sum_of};

/// Writes the scores of a row to `scores`. A softmax of the chosen experts has no scores before the choice, so its
/// logits are written instead.
#[inline(always)]
pub(super) fn score<T: Element>(logits: &[T], scoring: Scoring, scores: &mut [T::Acc]) {
    for (score, logit) in scores.iter_mut().zip(logits) {
        *score = logit.load();
    }
    match scoring {
        Scoring::Softmax => softmax(scores),
        Scoring::Sigmoid => {
            for score in scores {
                *score = T::Acc::ONE / (T::Acc::ONE + (-*score).exp());
            }
        }
        Scoring::SoftmaxOfChosen => {}
    }
}

/// Replaces values by their softmax. A NaN or a maximum of ±∞ makes all results NaN.
#[inline(always)]
pub(super) fn softmax<A: Real>(values: &mut [A]) {
    let largest = values.iter().fold(
        A::of(f64::NEG_INFINITY),
        |max, v| if *v > max { *v } else { max },
    );
    for value in values.iter_mut() {
        *value = (*value - largest).exp();
    }
    let sum = total(values);
    for value in values {
        *value = *value / sum;
    }
}

#[inline(always)]
pub(super) fn total<A: Real>(values: &[A]) -> A {
    sum_of(values, values, values, |_, _, value| value)
}

/// Returns the divisor of the renormalisation.
#[inline(always)]
pub(super) fn divisor<A: Real>(scores: &[A], renormalise: Renormalise) -> Option<A> {
    match renormalise {
        Renormalise::None => None,
        Renormalise::Sum => Some(total(scores) + A::of(1e-20)),
    }
}

#[inline(always)]
pub(super) fn dot<A: Real>(left: &[A], right: &[A]) -> A {
    sum_of(left, right, right, |l, _, r| l * r)
}
