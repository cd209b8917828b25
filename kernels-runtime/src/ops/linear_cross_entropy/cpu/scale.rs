//! The last step of the gradients: the factor, and the rounding of half types.

use super::Gradients;
use crate::cpu::{CHUNK, Element, Output, Real, contiguous, share, write_scaled};
use crate::ops::linear_cross_entropy::Kept;
use burn::backend::flex::FlexTensor;
use std::any::TypeId;

/// Multiplies kept gradients by the gradient of the loss, and rounds them once.
pub(super) fn scale<T: Element>(kept: Kept<FlexTensor>) -> Gradients<FlexTensor> {
    let factor = kept.dy().to_contiguous();
    let factor = contiguous::<T::Acc>(&factor)[0];
    let (gradients, _) = kept.into_parts();
    gradients.map(|gradient| in_memory_order(gradient, |kept| finished::<T>(kept, factor)))
}

/// Rounds gradients.
pub(super) fn round<T: Element>(gradients: Gradients<FlexTensor>) -> Gradients<FlexTensor> {
    let one = <T::Acc as Real>::ONE;
    gradients.map(|gradient| in_memory_order(gradient, |kept| finished::<T>(kept, one)))
}

/// Applies a function of each element to a contiguous tensor. A matrix whose axes are exchanged is not copied.
fn in_memory_order(
    tensor: FlexTensor,
    function: impl FnOnce(FlexTensor) -> FlexTensor,
) -> FlexTensor {
    if tensor.is_contiguous() {
        return function(tensor);
    }
    if tensor.layout().shape().num_dims() == 2 {
        let turned = tensor.transpose(0, 1);
        if turned.is_contiguous() {
            // Freed here, so that nothing else holds its memory.
            drop(tensor);
            return function(turned).transpose(0, 1);
        }
    }
    function(tensor.to_contiguous())
}

/// Returns a contiguous tensor times an infinite factor or NaN. Zeros stay: those of ignored tokens, of whose logits nothing
/// has a gradient, are not told from others.
pub(super) fn times_no_number<T: Element>(tensor: &FlexTensor, factor: T::Acc) -> FlexTensor {
    let zero = <T::Acc as Real>::ZERO;
    let values = contiguous::<T>(tensor);
    let mut product = Output::<T>::new(tensor.layout().shape().clone());
    let products = values.iter().map(|value| match value.load() {
        value if value == zero => T::round(zero),
        value => T::round(value * factor),
    });
    product.rest().row(values.len()).write(products);
    product.finish()
}

/// Returns whether a factor is neither infinite nor NaN.
pub(super) fn is_number<A: Real>(factor: A) -> bool {
    // Infinity and NaN times zero are NaN.
    factor * A::ZERO == A::ZERO
}

/// Returns a contiguous tensor times a factor, rounded. A tensor that is not rounded keeps its memory, if nothing else
/// holds it.
fn finished<T: Element>(mut kept: FlexTensor, factor: T::Acc) -> FlexTensor {
    if !is_number(factor) {
        let product = times_no_number::<T::Acc>(&kept, factor);
        return finished::<T>(product, <T::Acc as Real>::ONE);
    }
    if TypeId::of::<T>() == TypeId::of::<T::Acc>() {
        if factor != <T::Acc as Real>::ONE {
            let (start, len) = (
                kept.layout().start_offset(),
                kept.layout().shape().num_elements(),
            );
            let values = &mut kept.storage_mut::<T::Acc>()[start..][..len];
            share::each_of_many(
                values.chunks_mut(CHUNK).collect(),
                |part: &mut [T::Acc]| {
                    part.iter_mut().for_each(|value| *value = *value * factor);
                },
            );
        }
        return kept;
    }
    let shape = kept.layout().shape().clone();
    let mut rounded = Output::<T>::new(shape);
    {
        let values = contiguous::<T::Acc>(&kept);
        let mut rest = rounded.rest();
        let mut parts = Vec::new();
        for values in values.chunks(CHUNK) {
            parts.push((values, rest.part(values.len())));
        }
        share::each_of_many(parts, |(values, mut part)| {
            write_scaled(values, values.len(), &[factor], &mut part);
        });
    }
    rounded.finish()
}
