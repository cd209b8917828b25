//! The loss of one token, and the gradient of its logits, from parts of the logits' row. The logits of a part are read
//! twice, for their maximum and for their sum, so it should fit into the cache.

use super::super::Settings;
use crate::cpu::{Element, Real, sums};

/// The numbers of a loss in the type that it is computed in.
#[derive(Clone, Copy)]
pub(in crate::ops) struct Loss<A> {
    cap: Option<A>,
    smoothing: A,
    z_loss: A,
    classes: A,
}

/// The logits that are read together.
const PART: usize = 2048;

/// The sums over a part of a token's logits, or over all. `e^x` is taken relative to a shift, which is the largest logit
/// of the part.
#[derive(Clone, Copy, Debug)]
pub(in crate::ops) struct Sums<A> {
    shift: A,
    /// The sum of `e^(x − shift)`.
    exponentials: A,
    /// The sum of `x − shift`.
    distances: A,
    count: A,
}

impl<A: Real> Sums<A> {
    /// The sums of no logits.
    pub(in crate::ops) const NONE: Self = Self {
        // Finite, so that no difference of shifts is NaN.
        shift: A::LOWEST,
        exponentials: A::ZERO,
        distances: A::ZERO,
        count: A::ZERO,
    };

    /// Adds the sums of other logits.
    #[inline(always)]
    pub(in crate::ops) fn add(&mut self, other: Self) {
        let shift = self.shift.at_least(other.shift);
        let (own, others) = (self.at(shift), other.at(shift));
        *self = Self {
            shift,
            exponentials: own.exponentials + others.exponentials,
            distances: own.distances + others.distances,
            count: own.count + others.count,
        };
    }

    /// Returns the sums relative to a larger shift.
    #[inline(always)]
    fn at(self, shift: A) -> Self {
        if self.shift == shift || self.count == A::ZERO {
            return self;
        }
        let step = self.shift - shift;
        Self {
            shift,
            exponentials: self.exponentials * step.exp(),
            distances: self.distances + self.count * step,
            count: self.count,
        }
    }

    /// Returns the logarithm of the sum of all exponentials.
    pub(in crate::ops) fn lse(&self) -> A {
        self.shift + self.exponentials.ln()
    }
}

impl<A: Real> Loss<A> {
    pub(in crate::ops) fn new(settings: Settings, classes: usize) -> Self {
        Self {
            cap: settings.cap.map(A::of),
            smoothing: A::of(settings.label_smoothing),
            z_loss: A::of(settings.z_loss),
            classes: A::of(classes as f64),
        }
    }

    /// Returns a logit after the cap.
    #[inline(always)]
    pub(in crate::ops) fn capped(&self, logit: A) -> A {
        match self.cap {
            Some(cap) => cap * (logit / cap).tanh(),
            None => logit,
        }
    }

    /// Returns the sums over logits.
    #[inline(always)]
    pub(in crate::ops) fn sums<T: Element<Acc = A>>(&self, logits: &[T]) -> Sums<A> {
        let mut all = Sums::NONE;
        for part in logits.chunks(PART) {
            // The cap is monotonic, so the largest logit has the largest capped one.
            let shift = self.capped(largest(part)).at_least(A::LOWEST);
            let term = |x: A| {
                let distance = x - shift;
                [distance.exp(), distance]
            };
            let [exponentials, distances] = match self.cap {
                Some(cap) => sums(part, |x| term(cap * (x.load() / cap).tanh())),
                None => sums(part, |x| term(x.load())),
            };
            all.add(Sums {
                shift,
                exponentials,
                distances,
                count: A::of(part.len() as f64),
            });
        }
        all
    }

    /// Returns the loss from the sums over all logits and the capped logit of the target.
    pub(in crate::ops) fn of(&self, sums: &Sums<A>, target: A) -> A {
        // Differences to the shift are small, so they lose less to rounding than `lse` and the logit themselves.
        let log_sum = sums.exponentials.ln();
        let mut loss = log_sum - (A::ONE - self.smoothing) * (target - sums.shift);
        // A product with zero is not zero for an infinite sum.
        if self.smoothing != A::ZERO {
            loss = loss - self.smoothing * (sums.distances / self.classes);
        }
        if self.z_loss != A::ZERO {
            let lse = sums.lse();
            loss += self.z_loss * lse * lse;
        }
        loss
    }

    /// Returns the function of the gradient of a token's logits. `factor` is the gradient of its loss.
    #[inline(always)]
    pub(in crate::ops) fn gradient(&self, lse: A, factor: A) -> Gradient<A> {
        let two = A::ONE + A::ONE;
        Gradient {
            cap: self.cap,
            lse,
            of_probability: factor * (A::ONE + two * self.z_loss * lse),
            of_class: factor * (self.smoothing / self.classes),
            of_target: factor * (A::ONE - self.smoothing),
        }
    }
}

/// The gradient of a token's logits.
#[derive(Clone, Copy)]
pub(in crate::ops) struct Gradient<A> {
    cap: Option<A>,
    lse: A,
    of_probability: A,
    /// What is subtracted for every class.
    of_class: A,
    /// What is subtracted for the target, too.
    of_target: A,
}

impl<A: Real> Gradient<A> {
    /// Returns the gradient of one logit.
    #[inline(always)]
    pub(in crate::ops) fn of<T: Element<Acc = A>>(&self, logit: T, is_target: bool) -> A {
        let subtracted = match is_target {
            true => self.of_class + self.of_target,
            false => self.of_class,
        };
        let x = logit.load();
        match self.cap {
            None => (x - self.lse).exp() * self.of_probability - subtracted,
            Some(cap) => {
                let tanh = (x / cap).tanh();
                let slope = (cap * tanh - self.lse).exp() * self.of_probability - subtracted;
                slope * (A::ONE - tanh * tanh)
            }
        }
    }
}

/// The number of independent maxima, which let the compiler compare with SIMD.
const LANES: usize = 32;

/// Returns the largest number. NaN is not larger than any.
#[inline(always)]
fn largest<T: Element>(values: &[T]) -> T::Acc {
    let mut lanes = [T::Acc::LOWEST; LANES];
    let (body, tail) = values.as_chunks::<LANES>();
    for chunk in body {
        for (lane, value) in lanes.iter_mut().zip(chunk) {
            *lane = lane.at_least(value.load());
        }
    }
    for (lane, value) in lanes.iter_mut().zip(tail) {
        *lane = lane.at_least(value.load());
    }
    lanes
        .into_iter()
        .fold(T::Acc::LOWEST, |largest, lane| largest.at_least(lane))
}
