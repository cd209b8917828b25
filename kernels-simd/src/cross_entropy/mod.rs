//! The cross-entropy of logits and target classes. Each row of logits is read once, in parts that stay in the cache, and
//! once more for the gradient.

mod backward;
mod forward;
mod loss;

pub(crate) use loss::{Gradient, Loss, Sums};

use crate::keys::LossReduction;
use crate::{Element, Real, Values, View, with_type};

/// The numbers of a loss.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// The part of the target distribution that is spread evenly over all classes.
    pub label_smoothing: f64,
    /// The limit of the logits, if there is one.
    pub cap: Option<f64>,
    /// The factor of the z-loss, `lse²` of each token.
    pub z_loss: f64,
}

/// The operands: logits and the class of each token.
#[derive(Clone, Debug)]
pub struct Operands<'a> {
    /// The logits, `[tokens, classes]`, with contiguous rows.
    pub logits: View<'a>,
    /// The class of each token, `None` for ignored tokens.
    pub targets: &'a [Option<usize>],
    /// The numbers of the loss.
    pub settings: Settings,
    /// The combination of the losses of all tokens.
    pub reduction: LossReduction,
}

/// The results of the forward pass, in f32, or in f64 for f64.
#[derive(Clone, Debug)]
pub struct Found {
    /// The loss: one number, or one of each token.
    pub loss: Values,
    /// The logarithm of the sum of exponentials of each token, 0 for ignored ones.
    pub lse: Values,
}

/// Returns the loss.
///
/// # Panics
/// Panics if sizes or types don't go together, if a target is not a class, or if a tensor can't be read in place.
pub fn forward(operands: &Operands<'_>) -> Found {
    with_type!(operands.logits.dtype(), T => forward::forward::<T>(operands))
}

/// Returns the gradient of the logits, from `lse` and `dy`, the gradient of the loss, both contiguous.
///
/// # Panics
/// Panics under the conditions of [`forward`](forward()).
pub fn backward(operands: &Operands<'_>, lse: &View<'_>, dy: &View<'_>) -> Values {
    with_type!(operands.logits.dtype(), T => backward::backward::<T>(operands, lse, dy))
}

/// The checked target of each token.
#[derive(Clone, Copy)]
pub(crate) struct Targets<'a> {
    classes: &'a [Option<usize>],
    counted: usize,
}

impl<'a> Targets<'a> {
    /// # Panics
    /// Panics if there are not as many targets as tokens, or if one is not a class.
    pub(crate) fn new(targets: &'a [Option<usize>], [tokens, classes]: [usize; 2]) -> Self {
        assert!(
            targets.len() == tokens && targets.iter().flatten().all(|class| *class < classes),
            "{} targets are not those of {tokens} tokens among {classes} classes",
            targets.len()
        );
        Self {
            classes: targets,
            counted: targets.iter().flatten().count(),
        }
    }

    /// Returns the class of each token, `None` for ignored tokens.
    pub(crate) fn classes(&self) -> &'a [Option<usize>] {
        self.classes
    }

    /// Returns the tokens that are not ignored, each with its class.
    pub(crate) fn tokens(&self) -> Vec<(usize, usize)> {
        let classes = self.classes.iter().enumerate();
        classes
            .filter_map(|(token, class)| Some((token, (*class)?)))
            .collect()
    }

    /// Returns the number of tokens that are not ignored.
    pub(crate) fn counted(&self) -> usize {
        self.counted
    }
}

/// Combines the losses of all tokens. The sum is exact enough for any number of tokens, because it is in f64.
pub(crate) fn reduce<A: Real + Element<Acc = A>>(
    losses: Vec<A>,
    counted: usize,
    reduction: LossReduction,
) -> Values {
    let sum = || losses.iter().map(|loss| loss.into_f64()).sum::<f64>();
    let one = match reduction {
        LossReduction::Mean => sum() / counted as f64,
        LossReduction::Sum => sum(),
        LossReduction::None => return A::values(losses),
    };
    A::values(vec![A::of(one)])
}

/// The gradient of each token's loss.
pub(crate) enum Factors<'a, A> {
    One(A),
    Each(&'a [A]),
}

impl<'a, A: Real> Factors<'a, A> {
    /// Returns the factors for the gradient of the loss.
    ///
    /// # Panics
    /// Panics if it does not have one number, or one for each of the tokens.
    pub(crate) fn new(dy: &'a [A], targets: Targets<'_>, reduction: LossReduction) -> Self {
        let count = match reduction {
            LossReduction::Mean | LossReduction::Sum => 1,
            LossReduction::None => targets.classes.len(),
        };
        assert!(
            dy.len() == count,
            "the gradient of a loss of {count} elements has {}",
            dy.len()
        );
        match reduction {
            LossReduction::Mean => Self::One(dy[0] / A::of(targets.counted as f64)),
            LossReduction::Sum => Self::One(dy[0]),
            LossReduction::None => Self::Each(dy),
        }
    }

    #[inline(always)]
    pub(crate) fn of(&self, token: usize) -> A {
        match self {
            Self::One(factor) => *factor,
            Self::Each(factors) => factors[token],
        }
    }
}
