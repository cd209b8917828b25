//! AdamW on Flex: [`kernels_simd::adam_w`] on its tensors.

use super::{AdamW, Each, Launch, Settings, State};
use crate::cpu::{BASE, own_slice_mut, view};
use crate::ops::fused::{FusedKernel, Made, MadeOn, OpLaunch, Tensors};
use crate::ops::operands::checked;
use crate::registry::{self, Gradient, Implementation};
use crate::semantics::SemanticsKey;
use burn::backend::Flex;
use burn::backend::flex::FlexTensor;
use kernels_simd::adam_w;

pub(super) const IMPLEMENTATION: Implementation = Implementation {
    gradient: Gradient::None,
    launch: registry::Launch::AdamW(Launch(OpLaunch::of::<AdamW, Flex>())),
    accepts: |key| matches!(key, SemanticsKey::AdamW(_)),
    ..BASE
};

impl FusedKernel<AdamW> for Flex {
    fn forward(operands: Tensors<AdamW, Self>, _: Option<&Each<bool>>) -> MadeOn<Self> {
        checked(operands.dtype());
        let numbers = numbers(operands.settings());
        let (state, gradient) = operands.into_parts();
        let State {
            mut parameter,
            mut moment_1,
            mut moment_2,
        } = state.map(contiguous);
        let gradient = contiguous(gradient);
        let moments = [&mut moment_1, &mut moment_2].map(own_slice_mut);
        adam_w::step(
            numbers,
            own_slice_mut(&mut parameter),
            moments,
            &view(&gradient),
        );
        Made::new(parameter).and([moment_1, moment_2])
    }
}

fn numbers(settings: Settings) -> adam_w::Settings {
    let Settings {
        learning_rate,
        beta_1,
        beta_2,
        epsilon,
        weight_decay,
        ..
    } = settings;
    let (correction_1, correction_2) = settings.corrections();
    adam_w::Settings {
        learning_rate,
        beta_1,
        beta_2,
        epsilon,
        weight_decay,
        corrections: [correction_1, correction_2],
    }
}

/// Returns the tensor, or a copy if it is not contiguous, such as a transposed gradient.
fn contiguous(tensor: FlexTensor) -> FlexTensor {
    match tensor.layout().contiguous_offsets() {
        Some(_) => tensor,
        None => tensor.to_contiguous(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::TensorData;

    #[test]
    fn an_empty_tensor_may_start_behind_the_end_of_its_storage() {
        let all = FlexTensor::from_data(TensorData::ones::<f32, _>([2, 3]));
        let empty = || all.narrow(0, 2, 0).narrow(1, 3, 0);
        assert_eq!(empty().layout().contiguous_offsets(), Some((9, 9)));
        let [mut parameter, mut first, mut second] = [empty(), empty(), empty()];
        let moments = [&mut first, &mut second].map(own_slice_mut);
        let settings = adam_w::Settings {
            learning_rate: 0.1,
            beta_1: 0.9,
            beta_2: 0.9,
            epsilon: 1e-8,
            weight_decay: 0.0,
            corrections: [0.1; 2],
        };
        adam_w::step(
            settings,
            own_slice_mut(&mut parameter),
            moments,
            &view(&empty()),
        );
        assert_eq!(parameter.layout().num_elements(), 0);
    }
}
