//! The loss of one token, and the gradient of its logits, from parts of the logits' row. The logits of a part are read
//! twice, for their maximum and for their sum, so it should fit into the cache.

use super::Settings;
use crate::{Context, Element, LANES, Lanes as _, Number, Read, Real, Terms, sum_of_terms};

/// The numbers of a loss in the type that it is computed in.
#[derive(Clone, Copy)]
pub(crate) struct Loss<A> {
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
pub(crate) struct Sums<A> {
    shift: A,
    /// The sum of `e^(x − shift)`.
    exponentials: A,
    /// The sum of `x − shift`.
    distances: A,
    count: A,
}

impl<A: Real> Sums<A> {
    /// The sums of no logits.
    pub(crate) const NONE: Self = Self {
        // Finite, so that no difference of shifts is NaN.
        shift: A::LOWEST,
        exponentials: A::ZERO,
        distances: A::ZERO,
        count: A::ZERO,
    };

    /// Adds the sums of other logits.
    #[inline(always)]
    pub(crate) fn add(&mut self, other: Self) {
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

    /// Returns the shift, and the logarithm of the sum of exponentials relative to it. A logit minus one and then the other is
    /// the logarithm of its probability, without the rounding of a large [`lse`](Self::lse).
    pub(crate) fn shift_and_log(&self) -> [A; 2] {
        [self.shift, self.exponentials.ln()]
    }

    /// Returns the logarithm of the sum of all exponentials.
    pub(crate) fn lse(&self) -> A {
        self.shift + self.exponentials.ln()
    }

    /// Returns the factor of probabilities `e^(x − lse)` that undoes the rounding of [`lse`](Self::lse), which is as large
    /// as the logits are.
    pub(crate) fn correction(&self) -> A {
        ((self.lse() - self.shift) - self.exponentials.ln()).exp()
    }
}

impl<A: Real> Loss<A> {
    pub(crate) fn new(settings: Settings, classes: usize) -> Self {
        Self {
            cap: settings.cap.map(A::of),
            smoothing: A::of(settings.label_smoothing),
            z_loss: A::of(settings.z_loss),
            classes: A::of(classes as f64),
        }
    }

    /// Returns a logit after the cap.
    #[inline(always)]
    pub(crate) fn capped(&self, logit: A) -> A {
        capped(self.cap, logit)
    }

    /// Returns the sums over logits.
    #[inline(always)]
    pub(crate) fn sums<C: Context, T: Element<Acc = A>>(&self, c: C, logits: &[T]) -> Sums<A> {
        let mut all = Sums::NONE;
        for part in logits.chunks(PART) {
            // The cap is monotonic, so the largest logit has the largest capped one.
            let shift = self.capped(largest(c, part)).at_least(A::LOWEST);
            let (blocks, rest) = part.as_chunks::<LANES>();
            let distances = Distances {
                logits: blocks.as_flattened(),
                cap: self.cap.map(|cap| C::Of::splat(c, cap)),
                shift: C::Of::splat(c, shift),
                c,
            };
            let [mut exponentials, mut distances] =
                sum_of_terms(c, distances.logits.len(), &distances);
            // Zeros in place of logits would be counted.
            for logit in rest {
                let distance = self.capped(logit.load()) - shift;
                exponentials += distance.exp();
                distances += distance;
            }
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
    pub(crate) fn of(&self, sums: &Sums<A>, target: A) -> A {
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

    /// Returns the function of the gradient of a token's logits. `correction` is that of its [`Sums`], and `factor` the
    /// gradient of its loss.
    #[inline(always)]
    pub(crate) fn gradient(&self, lse: A, correction: A, factor: A) -> Gradient<A> {
        let two = A::ONE + A::ONE;
        // A product with zero is not zero for an infinite factor.
        let of_class = match self.smoothing == A::ZERO {
            true => A::ZERO,
            false => factor * (self.smoothing / self.classes),
        };
        Gradient {
            cap: self.cap,
            lse,
            of_probability: factor * (A::ONE + two * self.z_loss * lse) * correction,
            of_class,
            of_target: factor * (A::ONE - self.smoothing),
        }
    }
}

/// The gradient of a token's logits.
#[derive(Clone, Copy)]
pub(crate) struct Gradient<A> {
    cap: Option<A>,
    lse: A,
    of_probability: A,
    /// The number that is subtracted for every class.
    of_class: A,
    /// The number that is subtracted for the target, too.
    of_target: A,
}

impl<A: Real> Gradient<A> {
    /// Returns the gradient of one logit.
    #[inline(always)]
    pub(crate) fn of<T: Element<Acc = A>>(&self, logit: T, is_target: bool) -> A {
        let subtracted = match is_target {
            true => self.of_class + self.of_target,
            false => self.of_class,
        };
        self.slope(logit.load(), subtracted, |value| value)
    }

    /// Returns the gradients of logits that are not the target's.
    #[inline(always)]
    pub(crate) fn of_lanes<C: Context>(&self, c: C, logits: C::Of<A>) -> C::Of<A> {
        self.slope(logits, self.of_class, |value| C::Of::splat(c, value))
    }

    /// Returns the gradients of logits. `lift` makes the loss's numbers numbers of their kind.
    #[inline(always)]
    fn slope<N: Number>(&self, logits: N, subtracted: A, lift: impl Fn(A) -> N) -> N {
        let (lse, of_probability) = (lift(self.lse), lift(self.of_probability));
        let subtracted = lift(subtracted);
        match self.cap {
            None => (logits - lse).exp() * of_probability - subtracted,
            Some(cap) => {
                let cap = lift(cap);
                let tanh = (logits / cap).tanh();
                let slope = (cap * tanh - lse).exp() * of_probability - subtracted;
                slope * (logits.like(1.0) - tanh * tanh)
            }
        }
    }
}

/// Returns logits after the cap.
#[inline(always)]
fn capped<N: Number>(cap: Option<N>, logits: N) -> N {
    match cap {
        Some(cap) => cap * (logits / cap).tanh(),
        None => logits,
    }
}

/// The terms of the [`Sums`] of whole blocks.
struct Distances<'a, A: Real, T, C: Context> {
    logits: &'a [T],
    cap: Option<C::Of<A>>,
    shift: C::Of<A>,
    c: C,
}

impl<T: Element, C: Context> Terms<T::Acc, C, 2> for Distances<'_, T::Acc, T, C> {
    #[inline(always)]
    fn add<R: Read>(
        &self,
        at: usize,
        [exponentials, distances]: [C::Of<T::Acc>; 2],
    ) -> [C::Of<T::Acc>; 2] {
        let logits = T::lanes(self.c, &R::block(self.logits, at));
        let distance = capped(self.cap, logits) - self.shift;
        [exponentials + distance.exp(), distances + distance]
    }
}

/// Returns the largest number. NaN is not larger than any.
#[inline(always)]
fn largest<C: Context, T: Element>(c: C, values: &[T]) -> T::Acc {
    // Independent maxima hide the time that a comparison takes.
    let mut lanes = [C::Of::<T::Acc>::splat(c, T::Acc::LOWEST); 4];
    let (blocks, rest) = values.as_chunks::<LANES>();
    let (fours, blocks) = blocks.as_chunks::<4>();
    for four in fours {
        for (lanes, block) in lanes.iter_mut().zip(four) {
            *lanes = lanes.at_least(T::lanes(c, block));
        }
    }
    for block in blocks {
        lanes[0] = lanes[0].at_least(T::lanes(c, block));
    }
    let [first, second, third, fourth] = lanes;
    let all = first.at_least(second).at_least(third.at_least(fourth));
    let rest = rest.iter().map(|value| value.load());
    let all = all.values().into_iter().chain(rest);
    all.fold(T::Acc::LOWEST, |largest, value| largest.at_least(value))
}
