//! The losses on Flex: [`kernels_simd::linear_cross_entropy::of_quantised`] on its tensors.

use super::{
    KEY, Labels, OwnedWeight, QuantizedLinearCrossEntropyBackend, QuantizedLinearCrossEntropyKernel,
};
use crate::cpu::{BASE, of_simd, tensor, view};
use crate::registry::Implementation;
use crate::semantics::SemanticsKey;
use burn::backend::flex::FlexTensor;
use burn::backend::{Flex, Shape};
use burn::tensor::DType;
use kernels_simd::cross_entropy::Settings;
use kernels_simd::linear_cross_entropy::{of_quantised, scaled_rows};

pub(super) const IMPLEMENTATION: Implementation = Implementation {
    accepts: |key| matches!(key, SemanticsKey::Custom(key) if *key == KEY),
    ..BASE
};

impl QuantizedLinearCrossEntropyBackend for Flex {
    fn quantized_linear_cross_entropy(
        hidden: FlexTensor,
        weight: OwnedWeight,
        labels: Labels,
    ) -> FlexTensor {
        Self::quantized_linear_cross_entropy_forward(hidden, weight, labels, false).0
    }
}

impl QuantizedLinearCrossEntropyKernel for Flex {
    fn quantized_linear_cross_entropy_forward(
        hidden: FlexTensor,
        weight: OwnedWeight,
        labels: Labels,
        wanted: bool,
    ) -> (FlexTensor, Option<FlexTensor>) {
        let settings = Settings {
            label_smoothing: 0.0,
            cap: labels.softcap,
            z_loss: 0.0,
        };
        let shape = hidden.layout().shape().clone();
        let hidden = hidden.to_contiguous();
        let (losses, kept) = of_quantised(
            &view(&hidden),
            &weight.view(),
            &labels.classes,
            settings,
            wanted,
        );
        let tokens = losses.len();
        let losses = tensor(losses, Shape::new([tokens]));
        (losses, kept.map(|kept| tensor(kept, shape)))
    }

    fn quantized_linear_cross_entropy_scale(
        kept: FlexTensor,
        dy: FlexTensor,
        dtype: DType,
    ) -> FlexTensor {
        let shape = kept.layout().shape().clone();
        let (kept, dy) = (kept.to_contiguous(), dy.to_contiguous());
        tensor(scaled_rows(&view(&kept), &view(&dy), of_simd(dtype)), shape)
    }
}
