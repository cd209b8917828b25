//! Passes over the logits of some tokens for a block of classes. The logits of a token are contiguous.

use crate::cross_entropy::{Gradient, Loss, Sums};
use crate::lanes::Task;
use crate::{Context, Element, LANES, Lanes as _, Real};

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
    /// Where to append the logits, if they are kept.
    pub(super) kept: Option<&'a mut Vec<A>>,
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
    fn run<C: Context>(mut self, c: C) {
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
            if let Some(kept) = &mut self.kept {
                kept.extend_from_slice(row);
            }
        }
    }
}

/// Turns logits into their gradients, and adds these to the gradient of the bias.
pub(super) struct Slopes<'a, T: Element> {
    pub(super) logits: &'a mut [T::Acc],
    /// The number of classes.
    pub(super) width: usize,
    /// The first class of the block.
    pub(super) first: usize,
    /// The gradient of each token's logits, and its class.
    pub(super) tokens: &'a [(Gradient<T::Acc>, usize)],
    pub(super) bias: Option<&'a mut [T::Acc]>,
    /// The places of the rounded gradients, if they are wanted, and the distance between those of two tokens.
    pub(super) rounded: Option<(&'a mut [T], usize)>,
    /// True if gradients take the place of their logits. Otherwise memory that nothing reads is not written.
    pub(super) in_place: bool,
}

impl<T: Element> Task for Slopes<'_, T> {
    type Acc = T::Acc;
    type Output = ();

    #[inline(always)]
    fn run<C: Context>(mut self, c: C) {
        let mut beside = vec![T::Acc::ZERO; self.width];
        let rows = self.logits.chunks_exact_mut(self.width).enumerate();
        for ((number, row), (gradient, class)) in rows.zip(self.tokens) {
            let row = match self.in_place {
                true => row,
                false => {
                    beside.copy_from_slice(row);
                    &mut beside[..]
                }
            };
            slopes(c, row, *gradient, class.checked_sub(self.first));
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
