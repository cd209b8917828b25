//! The cross-entropy on Flex. Each row of logits is read once, in parts that stay in the cache, and once more for the
//! gradient.

mod backward;
mod forward;
mod loss;

pub(in crate::ops) use loss::{Gradient, Loss, Sums};

use super::operands::OP;
use super::targets::Targets;
use super::{Backward, CrossEntropyBackend, CrossEntropyKernel, Settings, Tensors};
use crate::cpu::{BASE, Element, Output, Real, dispatch_dtype};
use crate::ops::moe::integers;
use crate::ops::operands::checked;
use crate::registry::{Implementation, Launch};
use crate::semantics::{LossReduction, SemanticsKey};
use burn::backend::Flex;
use burn::backend::Shape;
use burn::backend::flex::FlexTensor;

pub(super) const IMPLEMENTATION: Implementation = Implementation {
    launch: Launch::CrossEntropy(super::launch),
    accepts: |key| matches!(key, SemanticsKey::CrossEntropy(_)),
    ..BASE
};

impl CrossEntropyBackend for Flex {
    fn cross_entropy(operands: Tensors<Self>) -> FlexTensor {
        Self::cross_entropy_forward(operands).0
    }
}

impl CrossEntropyKernel for Flex {
    fn cross_entropy_forward(operands: Tensors<Self>) -> (FlexTensor, FlexTensor) {
        let dtype = checked(operands.dtype());
        dispatch_dtype!(dtype, T => forward::forward::<T>(&operands))
    }

    fn cross_entropy_backward(backward: Backward<FlexTensor, FlexTensor>) -> FlexTensor {
        let dtype = checked(backward.operands().dtype());
        dispatch_dtype!(dtype, T => backward::backward::<T>(&backward))
    }
}

/// Reads the targets.
///
/// # Panics
/// Panics if a target is neither a class nor the ignored index.
#[track_caller]
pub(in crate::ops) fn read(
    op: &str,
    targets: &FlexTensor,
    classes: usize,
    settings: Settings,
) -> Targets {
    let numbers = integers::read(targets);
    checked(Targets::new(op, numbers.into_iter(), classes, settings))
}

/// Combines the losses of all tokens. The sum is exact enough for any number of tokens, because it is in f64.
pub(in crate::ops) fn reduce<A: Real + Element<Acc = A>>(
    losses: Vec<A>,
    counted: usize,
    reduction: LossReduction,
) -> FlexTensor {
    let sum = || losses.iter().map(|loss| loss.elem::<f64>()).sum::<f64>();
    let one = match reduction {
        LossReduction::Mean => sum() / counted as f64,
        LossReduction::Sum => sum(),
        LossReduction::None => return tensor(losses),
    };
    tensor(vec![<A as Real>::of(one)])
}

/// Makes a vector.
pub(in crate::ops) fn tensor<A: Element>(values: Vec<A>) -> FlexTensor {
    let mut output = Output::<A>::new(Shape::new([values.len()]));
    output.rest().row(values.len()).write(values.into_iter());
    output.finish()
}

/// The gradient of each token's loss.
pub(in crate::ops) enum Factors<'a, A> {
    One(A),
    Each(&'a [A]),
}

impl<'a, A: Real> Factors<'a, A> {
    /// Returns the factors for the gradient of the loss.
    pub(in crate::ops) fn new(dy: &'a [A], counted: usize, reduction: LossReduction) -> Self {
        match reduction {
            LossReduction::Mean => Self::One(dy[0] / A::of(counted as f64)),
            LossReduction::Sum => Self::One(dy[0]),
            LossReduction::None => Self::Each(dy),
        }
    }

    #[inline(always)]
    pub(in crate::ops) fn of(&self, token: usize) -> A {
        match self {
            Self::One(factor) => *factor,
            Self::Each(factors) => factors[token],
        }
    }
}
