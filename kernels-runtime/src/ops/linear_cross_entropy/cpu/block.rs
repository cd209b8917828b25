//! Passes over the logits of some tokens for a block of classes. The logits of a token are contiguous.

use crate::cpu::lanes::Task;
use crate::cpu::{Context, Element, LANES, Lanes as _, Real};
use crate::ops::cross_entropy::cpu::{Gradient, Loss, Sums};

/// Adds the bias to logits, and their sums to those of the tokens.
pub(super) struct Adjust<'a, A> {
    pub(super) logits: &'a mut [A],
    /// The number of classes.
    pub(super) width: usize,
    pub(super) bias: Option<&'a [A]>,
    pub(super) loss: &'a Loss<A>,
    /// The first class of the block.
    pub(super) first: usize,
    /// Each token's sums, its class, and the capped logit of that class once a block has it.
    pub(super) tokens: &'a mut [Token<A>],
}

/// A token while its logits are computed.
#[derive(Clone, Copy)]
pub(super) struct Token<A> {
    pub(super) sums: Sums<A>,
    pub(super) class: usize,
    /// The capped logit of the class, or zero if the classes so far don't have it.
    pub(super) target: A,
}

impl<A: Real> Token<A> {
    pub(super) fn new(class: usize) -> Self {
        Self {
            sums: Sums::NONE,
            class,
            target: A::ZERO,
        }
    }

    /// Adds what other classes found of the same token.
    pub(super) fn add(&mut self, other: Self) {
        self.sums.add(other.sums);
        // One of the two is zero.
        self.target += other.target;
    }
}

impl<A: Real + Element<Acc = A>> Task for Adjust<'_, A> {
    type Acc = A;
    type Output = ();

    #[inline(always)]
    fn run<C: Context>(self, c: C) {
        let rows = self.logits.chunks_exact_mut(self.width);
        for (row, token) in rows.zip(self.tokens) {
            if let Some(bias) = self.bias {
                for (logit, bias) in row.iter_mut().zip(bias) {
                    *logit += *bias;
                }
            }
            token.sums.add(self.loss.sums(c, row));
            let place = token.class.checked_sub(self.first);
            if let Some(logit) = place.and_then(|place| row.get(place)) {
                token.target = self.loss.capped(*logit);
            }
        }
    }
}

/// Turns logits into their gradients, and adds these to the gradient of the bias.
pub(super) struct Slopes<'a, A> {
    pub(super) logits: &'a mut [A],
    /// The number of classes.
    pub(super) width: usize,
    /// The first class of the block.
    pub(super) first: usize,
    /// The gradient of each token's logits, and its class.
    pub(super) tokens: &'a [(Gradient<A>, usize)],
    pub(super) bias: Option<&'a mut [A]>,
}

impl<A: Real + Element<Acc = A>> Task for Slopes<'_, A> {
    type Acc = A;
    type Output = ();

    #[inline(always)]
    fn run<C: Context>(mut self, c: C) {
        let rows = self.logits.chunks_exact_mut(self.width);
        for (row, (gradient, class)) in rows.zip(self.tokens) {
            let place = class.checked_sub(self.first);
            let target = place.and_then(|place| Some((place, *row.get(place)?)));
            let (blocks, rest) = row.as_chunks_mut::<LANES>();
            for block in blocks {
                *block = gradient.of_lanes(c, A::lanes(c, block)).values();
            }
            for logit in rest {
                *logit = gradient.of(*logit, false);
            }
            if let Some((place, logit)) = target {
                row[place] = gradient.of(logit, true);
            }
            if let Some(bias) = &mut self.bias {
                for (bias, slope) in bias.iter_mut().zip(&*row) {
                    *bias += *slope;
                }
            }
        }
    }
}
