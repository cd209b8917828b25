//! The product on Flex: [`kernels_simd::quantized::int8`] on its tensors.

use super::{KEY, OwnedWeight, QuantizedLinearInt8Backend};
use crate::cpu::{BASE, tensor, view};
use crate::ops::quantized_linear::set_last;
use crate::registry::{FloatType, Gradient, Implementation};
use crate::semantics::SemanticsKey;
use burn::backend::Flex;
use burn::backend::flex::FlexTensor;
use kernels_simd::quantized::int8;

pub(super) const IMPLEMENTATION: Implementation = Implementation {
    name: super::IMPLEMENTATION,
    dtypes: &[FloatType::F32, FloatType::Bf16, FloatType::F16],
    gradient: Gradient::None,
    accepts: |key| matches!(key, SemanticsKey::Custom(key) if *key == KEY),
    ..BASE
};

impl QuantizedLinearInt8Backend for Flex {
    fn quantized_linear_int8(x: FlexTensor, weight: OwnedWeight) -> FlexTensor {
        let mut shape = x.layout().shape().clone();
        let [outputs, _] = weight.shape();
        let y = int8::forward(&view(&x.to_contiguous()), &weight.view());
        set_last(&mut shape, outputs);
        tensor(y, shape)
    }
}
