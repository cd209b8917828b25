//! Passes over the logits of some tokens for a block of classes. The logits of a token are contiguous.

use super::group::Logits;
use crate::cross_entropy::{Gradient, Loss, Sums};
use crate::lanes::Task;
use crate::{Context, Element, LANES, Lanes as _, Real};

/// Adds the bias to logits, and their sums to those of the tokens.
pub(super) struct Adjust<'a, A> {
    pub(super) logits: Logits<'a, A>,
    pub(super) loss: &'a Loss<A>,
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

    /// Adds the maximum and the sum of other classes of the same token.
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
        let mut logits = self.logits;
        let rows = logits.values.chunks_exact_mut(logits.width);
        for (row, token) in rows.zip(self.tokens) {
            add_bias(row, logits.bias);
            token.sums.add(self.loss.sums(c, row));
            let place = token.class.checked_sub(logits.first);
            if let Some(logit) = place.and_then(|place| row.get(place)) {
                token.target = self.loss.capped(*logit);
            }
            if let Some(kept) = &mut logits.kept {
                kept.extend_from_slice(row);
            }
        }
    }
}

/// Adds the bias to the logits of a token.
#[inline(always)]
pub(crate) fn add_bias<A: Real>(row: &mut [A], bias: Option<&[A]>) {
    if let Some(bias) = bias {
        for (logit, bias) in row.iter_mut().zip(bias) {
            *logit += *bias;
        }
    }
}

/// The gradients of the logits of some tokens.
pub(crate) trait OfLogits<A: Real> {
    /// Returns the number of tokens.
    fn count(&self) -> usize;

    /// Turns a token's logits for some classes into their gradients. `first` is the first of these classes, and `place` that
    /// of the first logit among those that the group keeps. Implementations are `#[inline(always)]`.
    fn slopes<C: Context>(&self, c: C, token: usize, first: usize, place: usize, row: &mut [A]);
}

/// The gradient of each token's logits, and its class.
impl<A: Real + Element<Acc = A>> OfLogits<A> for Vec<(Gradient<A>, usize)> {
    fn count(&self) -> usize {
        self.len()
    }

    #[inline(always)]
    fn slopes<C: Context>(&self, c: C, token: usize, first: usize, _: usize, row: &mut [A]) {
        let (gradient, class) = self[token];
        slopes(c, row, gradient, class.checked_sub(first));
    }
}

/// Turns logits into their gradients, and adds these to the gradient of the bias.
pub(super) struct Slopes<'a, T: Element, S> {
    pub(super) logits: &'a mut [T::Acc],
    /// The number of classes.
    pub(super) width: usize,
    /// The first class of the block.
    pub(super) first: usize,
    /// The place of the logits among those that the group keeps.
    pub(super) place: usize,
    /// The gradients of the tokens' logits.
    pub(super) tokens: &'a S,
    pub(super) bias: Option<&'a mut [T::Acc]>,
    /// The places of the rounded gradients, if they are wanted, and the distance between those of two tokens.
    pub(super) rounded: Option<(&'a mut [T], usize)>,
    /// True if gradients take the place of their logits. Otherwise memory that nothing reads is not written.
    pub(super) in_place: bool,
}

impl<T: Element, S: OfLogits<T::Acc>> Task for Slopes<'_, T, S> {
    type Acc = T::Acc;
    type Output = ();

    #[inline(always)]
    fn run<C: Context>(mut self, c: C) {
        let mut beside = vec![T::Acc::ZERO; self.width];
        let rows = self.logits.chunks_exact_mut(self.width).enumerate();
        for (number, row) in rows.take(self.tokens.count()) {
            let row = match self.in_place {
                true => row,
                false => {
                    beside.copy_from_slice(row);
                    &mut beside[..]
                }
            };
            let place = self.place + number * self.width;
            self.tokens.slopes(c, number, self.first, place, row);
            if let Some(bias) = &mut self.bias {
                for (bias, slope) in bias.iter_mut().zip(&*row) {
                    *bias += *slope;
                }
            }
            if let Some((rounded, stride)) = &mut self.rounded {
                round(c, row, &mut rounded[number * *stride..][..self.width]);
            }
        }
    }
}

/// Turns the logits of a token into their gradients. `place` is that of its class, if it is one of these.
#[inline(always)]
fn slopes<A: Real + Element<Acc = A>, C: Context>(
    c: C,
    row: &mut [A],
    gradient: Gradient<A>,
    place: Option<usize>,
) {
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
}

/// Rounds gradients.
#[inline(always)]
fn round<T: Element, C: Context>(c: C, row: &[T::Acc], to: &mut [T]) {
    let (blocks, rest) = row.as_chunks::<LANES>();
    let (to_blocks, to_rest) = to.as_chunks_mut::<LANES>();
    for (to, block) in to_blocks.iter_mut().zip(blocks) {
        *to = T::rounded(c, T::Acc::lanes(c, block));
    }
    for (to, slope) in to_rest.iter_mut().zip(rest) {
        *to = T::round(*slope);
    }
}
