//! The factors of the weight's gradient, `dxᵀ · hidden`, kept in place of it where they are smaller.
//!
//! The gradient of the weight is kept in the type that it is summed in, because it is rounded once, after it was multiplied
//! by the gradient of the loss. `dx` is rounded for products in bf16 in any case. With few tokens it is much smaller, and
//! the gradient of the weight is written once, rounded, when its factor is known.

use super::chunks::{classes_of_block, run};
use super::scale::{is_number, times_no_number};
use super::{Checked, Gradients, Sizes, Wanted, reduced};
use crate::cross_entropy::Factors;
use crate::product::{Gemm, InGroups, columns_times_scaled, takes_rounded};
use crate::{DType, Element, Output, Real, Values, View, with_type};
use std::mem::size_of;

/// The loss, the gradients without the weight's, and the factors of this.
#[derive(Clone, Debug)]
pub struct WithFactors {
    /// The loss.
    pub loss: Values,
    /// The gradients but that of the weight.
    pub gradients: Gradients,
    /// The gradient of the logits of the tokens that have a class, block by block: rows of `block` classes.
    pub d_logits: Values,
    /// The number of classes of a block.
    pub block: usize,
    /// The hidden states of the tokens that have a class, `[counted, width]`, unless all have one.
    pub hidden: Option<Values>,
}

/// Returns whether the gradient of the logits is rounded in any case, and no larger than that of the weight.
pub fn are_smaller(dtype: DType, sizes: Sizes, kept: Wanted) -> bool {
    with_type!(dtype, T => {
        let [logits, weight] = [
            sizes.tokens.saturating_mul(size_of::<T>()),
            sizes.width.saturating_mul(size_of::<<T as Element>::Acc>()),
        ];
        kept.weight && takes_rounded::<T>() && logits <= weight
    })
}

/// Returns the loss, the wanted gradients without the weight's, and the factors of this.
pub(super) fn forward<T: Element>(operands: &Checked<'_, '_>, kept: Wanted) -> WithFactors
where
    T::Acc: Gemm,
{
    let (sizes, targets) = (operands.sizes, operands.targets);
    let one = [<T::Acc as Real>::ONE];
    let factors = Factors::new(&one, targets, operands.given.reduction);
    let counted = targets.counted();
    let mut d_logits = Output::<T>::new([counted * sizes.classes]);
    let others = Wanted {
        weight: false,
        ..kept
    };
    let rest = Some(d_logits.rest());
    let found = run::<T>(operands, Some(&factors), others, rest);
    let (loss, gradients) = reduced::<T>(operands, found);
    WithFactors {
        loss,
        gradients,
        d_logits: T::values(d_logits.into_values()),
        block: classes_of_block::<T>(sizes, counted),
        hidden: with_class::<T>(operands),
    }
}

/// Returns the hidden states of the tokens that have a class, or `None` if all have one.
fn with_class<T: Element>(operands: &Checked<'_, '_>) -> Option<Values> {
    let (Sizes { tokens, width, .. }, targets) = (operands.sizes, operands.targets);
    if targets.counted() == tokens {
        return None;
    }
    let values = operands.given.hidden.contiguous::<T>();
    let mut some = Vec::with_capacity(targets.counted() * width);
    for (token, _) in targets.tokens() {
        some.extend_from_slice(&values[token * width..][..width]);
    }
    Some(T::values(some))
}

/// Returns the gradient of the weight, multiplied by the gradient of the loss.
pub(super) fn weight<T: Element>(
    d_logits: &View<'_>,
    (block, classes): (usize, usize),
    hidden: &View<'_>,
    dy: &View<'_>,
) -> Values
where
    T::Acc: Gemm,
{
    let (&[counted, width], &[factor]) = (hidden.sizes(), dy.contiguous::<T::Acc>()) else {
        panic!(
            "hidden states of sizes {:?} and a gradient of sizes {:?} can't be factors of a weight's",
            hidden.sizes(),
            dy.sizes()
        )
    };
    let mut gradient = Output::<T>::new([classes, width]);
    let left = InGroups {
        values: d_logits.contiguous::<T>(),
        lines: classes,
        group: block,
    };
    let right = (hidden.contiguous::<T>(), width);
    T::values(if is_number(factor) {
        columns_times_scaled(counted, left, right, factor, gradient.rest());
        gradient.into_values()
    } else {
        let one = <T::Acc as Real>::ONE;
        columns_times_scaled(counted, left, right, one, gradient.rest());
        times_no_number::<T>(&gradient.into_values(), factor)
    })
}
