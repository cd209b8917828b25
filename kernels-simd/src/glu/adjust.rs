//! The steps before the activation, clamp, Gaussian top-k and the offset of up, on rows in the
//! accumulation precision.

use super::Settings;
use crate::{Real, sum_of, sum_of_squares};

/// The changes to rows before the activation.
pub(super) struct Adjust<A> {
    /// The limit of the clamp, infinite without a clamp.
    limit: A,
    /// True if there is a clamp. Elements at or beyond the limit have no gradient, even if the limit is infinite.
    clamps: bool,
    offset: A,
    /// The threshold of the gate above the mean, in standard deviations.
    multiplier: Option<A>,
}

/// The threshold of a row's gates.
#[derive(Clone, Copy)]
pub(super) struct Cut<A> {
    mean: A,
    deviation: A,
    multiplier: A,
}

impl<A: Real + Copy> Adjust<A> {
    /// Returns `None` if rows stay unchanged.
    pub(super) fn new(settings: Settings) -> Option<Self> {
        let Settings {
            limit,
            up_offset,
            threshold,
            ..
        } = settings;
        if limit.is_none() && threshold.is_none() && up_offset == 0.0 {
            return None;
        }
        Some(Self {
            limit: A::of(limit.unwrap_or(f64::INFINITY)),
            clamps: limit.is_some(),
            offset: A::of(up_offset),
            multiplier: threshold.map(A::of),
        })
    }

    /// Clamps a row of gates and subtracts the threshold, if there is one.
    #[inline(always)]
    pub(super) fn gates(&self, gates: &mut [A]) -> Option<Cut<A>> {
        for gate in &mut *gates {
            *gate = gate.at_most(self.limit);
        }
        let cut = self.multiplier.map(|multiplier| {
            let n = A::of(gates.len() as f64);
            let mean = sum_of(gates, gates, gates, |gate, _, _| gate) / n;
            let variance = sum_of_squares(gates, |gate| gate - mean) / n;
            Cut {
                mean,
                deviation: variance.sqrt(),
                multiplier,
            }
        });
        if let Some(cut) = cut {
            let at = cut.mean + cut.deviation * cut.multiplier;
            for gate in gates {
                *gate = (*gate - at).at_least(A::ZERO);
            }
        }
        cut
    }

    /// Clamps a row of ups and adds the offset.
    #[inline(always)]
    pub(super) fn ups(&self, ups: &mut [A]) {
        for up in ups {
            *up = up.at_most(self.limit).at_least(-self.limit) + self.offset;
        }
    }

    /// Turns the gradients of the results of [`Adjust::gates`] into those of its inputs, `gates`.
    #[inline(always)]
    pub(super) fn d_gates(&self, cut: Option<Cut<A>>, gates: &[A], cuts: &[A], d_gates: &mut [A]) {
        if let Some(cut) = cut {
            for (d_gate, cut) in d_gates.iter_mut().zip(cuts) {
                *d_gate = if *cut <= A::ZERO { A::ZERO } else { *d_gate };
            }
            let n = A::of(d_gates.len() as f64);
            let mean = sum_of(d_gates, d_gates, d_gates, |d_gate, _, _| d_gate) / n;
            // If all gates are equal, the deviation is zero and has no slope.
            let along = if cut.deviation > A::ZERO {
                mean * cut.multiplier / cut.deviation
            } else {
                A::ZERO
            };
            for (d_gate, gate) in d_gates.iter_mut().zip(gates) {
                let gate = gate.at_most(self.limit);
                *d_gate = *d_gate - mean - along * (gate - cut.mean);
            }
        }
        for (d_gate, gate) in d_gates.iter_mut().zip(gates) {
            *d_gate = if self.clamps & (*gate >= self.limit) {
                A::ZERO
            } else {
                *d_gate
            };
        }
    }

    /// Turns the gradients of the results of [`Adjust::ups`] into those of its inputs, `ups`.
    #[inline(always)]
    pub(super) fn d_ups(&self, ups: &[A], d_ups: &mut [A]) {
        for (d_up, up) in d_ups.iter_mut().zip(ups) {
            let clamped = (*up >= self.limit) | (*up <= -self.limit);
            *d_up = if self.clamps & clamped {
                A::ZERO
            } else {
                *d_up
            };
        }
    }
}
