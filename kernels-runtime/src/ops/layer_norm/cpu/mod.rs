//! LayerNorm on Flex. The passes over a row, for its mean, its variance and its result, find it in the first-level
//! cache: memory is read once and written once.

mod backward;
mod forward;

use super::autodiff::Tensors;
use super::{Backward, Gradients, LayerNormBackend, LayerNormKernel, Normalised};
use crate::cpu::{BASE, Element, Real, contiguous, dispatch_dtype};
use crate::ops::operands::checked;
use crate::registry::{Implementation, Launch};
use crate::semantics::SemanticsKey;
use burn::backend::Flex;
use burn::backend::flex::FlexTensor;

pub(super) const IMPLEMENTATION: Implementation = Implementation {
    launch: Launch::LayerNorm(super::launch),
    accepts: |key| matches!(key, SemanticsKey::LayerNorm(_)),
    ..BASE
};

impl LayerNormBackend for Flex {
    fn layer_norm(operands: Tensors<Self>) -> FlexTensor {
        Self::layer_norm_forward(operands).y
    }
}

impl LayerNormKernel for Flex {
    fn layer_norm_forward(operands: Tensors<Self>) -> Normalised<FlexTensor> {
        let dtype = checked(operands.dtype());
        dispatch_dtype!(dtype, T => forward::forward::<T>(&operands))
    }

    fn layer_norm_backward(backward: Backward<FlexTensor>) -> Gradients<FlexTensor> {
        let dtype = checked(backward.operands().dtype());
        dispatch_dtype!(dtype, T => backward::backward::<T>(&backward))
    }
}

/// Returns a parameter in the accumulation precision.
fn parameter<T: Element>(tensor: &FlexTensor) -> Vec<T::Acc> {
    let tensor = tensor.to_contiguous();
    contiguous::<T>(&tensor).iter().map(|w| w.load()).collect()
}

/// Returns the number of elements of a row.
fn width(x: &FlexTensor) -> usize {
    x.layout().shape().last().copied().unwrap_or(1)
}

/// Returns a row's number of elements as a divisor.
#[inline(always)]
fn divisor<A: Real>(width: usize) -> A {
    A::of(width as f64)
}
