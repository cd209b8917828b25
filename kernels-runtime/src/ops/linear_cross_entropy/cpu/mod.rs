//! The linear cross-entropy on Flex: the logits of some tokens at a time.
//!
//! Ignored tokens are left out. The logits of a chunk of the others are computed by groups of classes, some classes at a
//! time while they stay in the cache, and the maximum and sum of these at once. The losses of the chunk are known after
//! that. Where gradients are wanted, the logits are kept until then. Each group then computes their gradient, adds to its
//! own part of the weight's gradient, or keeps the gradient of the logits for that, and sums its own share of the gradient
//! of the hidden states. The shares are added in the order of the groups. Chunks and groups depend only on the shape, so
//! results don't depend on the number of threads.

mod block;
mod chunks;
mod factors;
mod group;
mod scale;

use super::autodiff::{Gradients, Tensors, WithFactors};
use super::operands::OP;
use super::{
    Backward, Kept, LinearCrossEntropyBackend, LinearCrossEntropyKernel, Operands, Wanted,
};
use crate::cpu::product::Gemm;
use crate::cpu::{BASE, Element, Real, contiguous, dispatch_dtype};
use crate::ops::cross_entropy::Targets;
use crate::ops::cross_entropy::cpu::{Factors, read, reduce};
use crate::ops::operands::checked;
use crate::registry::{Implementation, Launch};
use crate::semantics::{OutputLayout, SemanticsKey};
use burn::backend::flex::{FlexTensor, Layout};
use burn::backend::{Flex, Shape};
use burn::tensor::Bytes;
use chunks::{Found, run};
use factors::WeightFactors;

pub(super) const IMPLEMENTATION: Implementation = Implementation {
    launch: Launch::LinearCrossEntropy(super::launch),
    accepts: |key| matches!(key, SemanticsKey::LinearCrossEntropy(_)),
    ..BASE
};

impl LinearCrossEntropyBackend for Flex {
    fn linear_cross_entropy(operands: Tensors<Self>) -> FlexTensor {
        Self::linear_cross_entropy_forward(operands, Wanted::default()).0
    }
}

impl LinearCrossEntropyKernel for Flex {
    fn linear_cross_entropy_forward(
        operands: Tensors<Self>,
        wanted: Wanted,
    ) -> (FlexTensor, Gradients<FlexTensor>) {
        let kept = checked(operands.kept(wanted));
        dispatch_dtype!(checked(operands.dtype()), T => forward::<T>(&operands, kept))
    }

    type WeightFactors = WeightFactors;

    fn linear_cross_entropy_factors(
        operands: &Tensors<Self>,
        wanted: Wanted,
    ) -> Option<WithFactors<Self>> {
        let kept = checked(operands.kept(wanted));
        let dtype = checked(operands.dtype());
        dispatch_dtype!(dtype, T => factors::are_smaller::<T>(operands.sizes(), kept)
            .then(|| factors::forward::<T>(operands, kept)))
    }

    fn linear_cross_entropy_weight(factors: WeightFactors, dy: FlexTensor) -> FlexTensor {
        dispatch_dtype!(factors.dtype(), T => factors::weight::<T>(&factors, &dy))
    }

    fn linear_cross_entropy_scale(kept: Kept<FlexTensor>) -> Gradients<FlexTensor> {
        dispatch_dtype!(kept.dtype(), T => scale::scale::<T>(kept))
    }

    fn linear_cross_entropy_backward(
        backward: Backward<FlexTensor, FlexTensor>,
    ) -> Gradients<FlexTensor> {
        let dtype = checked(backward.operands().dtype());
        dispatch_dtype!(dtype, T => again::<T>(&backward))
    }
}

/// Returns the loss and the gradients to keep.
fn forward<T: Element>(
    operands: &Tensors<Flex>,
    kept: Wanted,
) -> (FlexTensor, Gradients<FlexTensor>)
where
    T::Acc: Gemm,
{
    let targets = targets(operands);
    let one = [<T::Acc as Real>::ONE];
    let reduction = operands.key().reduction;
    let factors = kept
        .any()
        .then(|| Factors::new(&one, targets.counted(), reduction));
    let found = run::<T>(operands, &targets, factors.as_ref(), kept, None);
    reduced::<T>(operands, &targets, found)
}

/// Reads the targets.
///
/// # Panics
/// Panics if a target is neither a class nor the ignored index.
fn targets(operands: &Tensors<Flex>) -> Targets {
    let classes = operands.sizes().classes;
    read(OP, operands.targets(), classes, operands.settings())
}

/// Returns the loss and the gradients as tensors.
fn reduced<T: Element>(
    operands: &Tensors<Flex>,
    targets: &Targets,
    found: Found<T::Acc>,
) -> (FlexTensor, Gradients<FlexTensor>) {
    let Found { losses, gradients } = found;
    let loss = reduce::<T::Acc>(losses, targets.counted(), operands.key().reduction);
    (loss, tensors::<T>(operands, gradients))
}

/// Returns the gradients of losses that were not reduced.
fn again<T: Element>(backward: &Backward<FlexTensor, FlexTensor>) -> Gradients<FlexTensor>
where
    T::Acc: Gemm,
{
    let operands = backward.operands();
    let targets = targets(operands);
    let dy = backward.dy().to_contiguous();
    let dy = contiguous::<T::Acc>(&dy);
    let factors = Factors::new(dy, targets.counted(), operands.key().reduction);
    let wanted = *backward.wanted();
    let found = run::<T>(operands, &targets, Some(&factors), wanted, None);
    scale::round::<T>(tensors::<T>(operands, found.gradients))
}

/// Makes tensors of gradients, whose weight is `[classes, width]`.
fn tensors<T: Element>(
    operands: &Operands<FlexTensor, FlexTensor>,
    gradients: Gradients<Vec<T::Acc>>,
) -> Gradients<FlexTensor> {
    let sizes = operands.sizes();
    let tensor = |values: Vec<T::Acc>, shape: Shape| {
        let dtype = <T::Acc as burn::tensor::Element>::dtype();
        FlexTensor::new(Bytes::from_elems(values), Layout::contiguous(shape), dtype)
    };
    let matrix = |rows| move |values| tensor(values, Shape::new([rows, sizes.width]));
    let weight = gradients.weight.map(matrix(sizes.classes));
    Gradients {
        hidden: gradients.hidden.map(matrix(sizes.tokens)),
        weight: weight.map(|weight| laid_out(weight, operands.key().layout)),
        bias: gradients
            .bias
            .map(|values| tensor(values, Shape::new([sizes.classes]))),
    }
}

/// Returns a gradient of the weight, `[classes, width]`, in the layout of the weight.
fn laid_out(weight: FlexTensor, layout: OutputLayout) -> FlexTensor {
    match layout {
        OutputLayout::OutputMajor => weight,
        OutputLayout::InputMajor => weight.transpose(0, 1),
    }
}
