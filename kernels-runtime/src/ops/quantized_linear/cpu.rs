//! The product on Flex: [`kernels_simd::quantized`] on its tensors.

use super::{KEY, QuantizedLinearBackend, check};
use crate::cpu::{BASE, tensor, view};
use crate::registry::Implementation;
use crate::semantics::SemanticsKey;
use burn::backend::Flex;
use burn::backend::flex::FlexTensor;
use kernels_quant::OwnedWeight;
use kernels_simd::quantized;

pub(super) const IMPLEMENTATION: Implementation = Implementation {
    accepts: |key| matches!(key, SemanticsKey::Custom(key) if *key == KEY),
    ..BASE
};

impl QuantizedLinearBackend for Flex {
    fn quantized_linear(x: FlexTensor, weight: OwnedWeight) -> FlexTensor {
        let mut shape = x.layout().shape().clone();
        check(shape.as_slice(), &weight);
        let [outputs, _] = weight.shape();
        let y = quantized::forward(&view(&x.to_contiguous()), &weight.view());
        set_last(&mut shape, outputs);
        tensor(y, shape)
    }

    fn quantized_linear_gradient(dy: FlexTensor, weight: OwnedWeight) -> FlexTensor {
        let mut shape = dy.layout().shape().clone();
        let [_, inputs] = weight.shape();
        let dx = quantized::gradient_of_x(&view(&dy.to_contiguous()), &weight.view());
        set_last(&mut shape, inputs);
        tensor(dx, shape)
    }
}

pub(in crate::ops) fn set_last(shape: &mut burn::backend::Shape, size: usize) {
    if let Some(last) = shape.as_mut_slice().last_mut() {
        *last = size;
    }
}
