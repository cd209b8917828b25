//! The linear cross-entropy on Flex: [`kernels_simd::linear_cross_entropy`] on its tensors.

use super::autodiff::{Gradients, Tensors, WithFactors};
use super::operands::OP;
use super::{Backward, Kept, LinearCrossEntropyBackend, LinearCrossEntropyKernel, Wanted};
use crate::cpu::{BASE, is_half_type, of_simd, own_slice_mut, readable, tensor, view};
use crate::ops::compute_dtype;
use crate::ops::cross_entropy::Targets;
use crate::ops::cross_entropy::cpu::{numbers, read};
use crate::ops::operands::{checked, like};
use crate::registry::{Implementation, Launch};
use crate::semantics::{OutputLayout, SemanticsKey};
use burn::backend::flex::FlexTensor;
use burn::backend::{Flex, Shape, TensorMetadata as _};
use burn::tensor::DType;
use kernels_simd::Values;
use kernels_simd::linear_cross_entropy::{
    self, Weight, are_smaller, forward, forward_with_factors, multiply, scaled, scaled_rows, weight,
};
use std::borrow::Cow;

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
        checked(operands.dtype());
        let (loss, gradients) = Bound::new(&operands).with(|bound| forward(bound, kept));
        (losses(loss), tensors(&operands, gradients))
    }

    type WeightFactors = WeightFactors;

    fn linear_cross_entropy_factors(
        operands: &Tensors<Self>,
        wanted: Wanted,
    ) -> Option<WithFactors<Self>> {
        let kept = checked(operands.kept(wanted));
        let dtype = of_simd(checked(operands.dtype()));
        if !are_smaller(dtype, operands.sizes(), kept) {
            return None;
        }
        let bound = Bound::new(operands);
        let found = bound.with(|bound| forward_with_factors(bound, kept));
        let rows = |values: Values| {
            let width = operands.sizes().width;
            let count = bound.targets.counted();
            tensor(values, Shape::new([count, width]))
        };
        let elements = found.d_logits.len();
        let factors = WeightFactors {
            d_logits: tensor(found.d_logits, Shape::new([elements])),
            block: found.block,
            classes: operands.sizes().classes,
            hidden: found.hidden.map_or_else(|| bound.hidden.clone(), rows),
            layout: operands.key().layout,
        };
        let gradients = tensors(operands, found.gradients);
        Some((losses(found.loss), gradients, factors))
    }

    fn linear_cross_entropy_weight(factors: WeightFactors, dy: FlexTensor) -> FlexTensor {
        let wide = compute_dtype(factors.hidden.dtype());
        checked(like(OP, ("dy", &dy), ("the loss", &Shape::new([1]), wide)));
        let WeightFactors {
            d_logits,
            block,
            classes,
            hidden,
            layout,
        } = &factors;
        let dy = dy.to_contiguous();
        let gradient = weight(&view(d_logits), *block, *classes, &view(hidden), &view(&dy));
        let [_, width] = hidden.shape().dims();
        laid_out(tensor(gradient, Shape::new([*classes, width])), *layout)
    }

    fn linear_cross_entropy_scale(kept: Kept<FlexTensor>) -> Gradients<FlexTensor> {
        let (dtype, dy) = (kept.dtype(), kept.dy().to_contiguous());
        let (gradients, _) = kept.into_parts();
        if dy.shape() != Shape::new([1]) {
            return gradients.map(|gradient| {
                let (gradient, shape) = (gradient.to_contiguous(), gradient.shape());
                tensor(
                    scaled_rows(&view(&gradient), &view(&dy), of_simd(dtype)),
                    shape,
                )
            });
        }
        gradients.map(|gradient| in_memory_order(gradient, |kept| finished(kept, &dy, dtype)))
    }

    fn linear_cross_entropy_backward(
        backward: Backward<FlexTensor, FlexTensor>,
    ) -> Gradients<FlexTensor> {
        let operands = backward.operands();
        checked(operands.dtype());
        let dy = backward.dy().to_contiguous();
        let gradients = Bound::new(operands)
            .with(|bound| linear_cross_entropy::backward(bound, &view(&dy), *backward.wanted()));
        tensors(operands, gradients)
    }
}

/// The factors of the weight's gradient, `d_logitsᵀ · hidden`.
#[derive(Clone, Debug)]
pub struct WeightFactors {
    /// The gradient of the logits of the tokens that have a class, block by block: rows of `block` classes.
    d_logits: FlexTensor,
    block: usize,
    classes: usize,
    /// The hidden states of these tokens, `[counted, width]`.
    hidden: FlexTensor,
    layout: OutputLayout,
}

/// Operands that can be read in place.
struct Bound<'a> {
    operands: &'a Tensors<Flex>,
    targets: Targets,
    hidden: FlexTensor,
    weight: Cow<'a, FlexTensor>,
    bias: Option<FlexTensor>,
}

impl<'a> Bound<'a> {
    /// # Panics
    /// Panics if a target is neither a class nor the ignored index.
    fn new(operands: &'a Tensors<Flex>) -> Self {
        let classes = operands.sizes().classes;
        Self {
            targets: read(OP, operands.targets(), classes, operands.settings()),
            hidden: operands.hidden().to_contiguous(),
            weight: readable(operands.weight()),
            bias: operands.bias().map(FlexTensor::to_contiguous),
            operands,
        }
    }

    fn with<R>(&self, compute: impl FnOnce(&linear_cross_entropy::Operands<'_>) -> R) -> R {
        let key = self.operands.key();
        compute(&linear_cross_entropy::Operands {
            hidden: view(&self.hidden),
            weight: Weight::Floats(view(&self.weight), key.layout),
            bias: self.bias.as_ref().map(view),
            targets: self.targets.classes(),
            settings: numbers(self.operands.settings()),
            reduction: key.reduction,
        })
    }
}

/// Returns the loss as a tensor.
fn losses(loss: Values) -> FlexTensor {
    let elements = loss.len();
    tensor(loss, Shape::new([elements]))
}

/// Makes tensors of gradients.
fn tensors(
    operands: &Tensors<Flex>,
    gradients: linear_cross_entropy::Gradients,
) -> Gradients<FlexTensor> {
    let sizes = operands.sizes();
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

/// Returns a contiguous tensor times the gradient of the loss, rounded. A tensor that is not rounded keeps its memory, if
/// nothing else holds it.
pub(in crate::ops) fn finished(mut kept: FlexTensor, dy: &FlexTensor, dtype: DType) -> FlexTensor {
    if !is_half_type(dtype) && multiply(own_slice_mut(&mut kept), &view(dy)) {
        return kept;
    }
    let shape = kept.layout().shape().clone();
    tensor(scaled(&view(&kept), &view(dy), of_simd(dtype)), shape)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::linear_cross_entropy::{Kept, Operands, Settings};
    use crate::semantics::{LinearCrossEntropyKey, LossReduction};
    use burn::tensor::TensorData;
    use kernels_simd::linear::multiplies_pairs_of_bf16;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    const WEIGHT: Wanted = Wanted {
        hidden: false,
        weight: true,
        bias: false,
    };

    fn operands(tokens: usize, dtype: DType, reduction: LossReduction) -> Tensors<Flex> {
        let tensor = |shape: [usize; 2], seed: usize| {
            let count = shape[0] * shape[1];
            let values = (0..count).map(|i| ((i * 7919 + seed) % 1009) as f32 / 504.5 - 1.0);
            let data = TensorData::new(values.collect::<Vec<_>>(), shape);
            FlexTensor::from_data(data.convert_dtype(dtype))
        };
        let targets =
            (0..tokens as i64).map(|token| if token % 5 == 4 { -100 } else { token % 70 });
        let targets = TensorData::new(targets.collect::<Vec<_>>(), [tokens]);
        let key = LinearCrossEntropyKey {
            reduction,
            ..LinearCrossEntropyKey::MEAN
        };
        Operands::new(
            tensor([tokens, 24], 1),
            tensor([70, 24], 2),
            None,
            FlexTensor::from_data(targets),
            Settings::default(),
            key,
        )
        .expect("operands that fit")
    }

    #[test]
    fn others_keep_gradients() {
        for (tokens, dtype, reduction) in [
            (49, DType::BF16, LossReduction::Mean),
            (20, DType::BF16, LossReduction::None),
            (20, DType::F32, LossReduction::Mean),
            (20, DType::F16, LossReduction::Mean),
        ] {
            let operands = operands(tokens, dtype, reduction);
            let factors = Flex::linear_cross_entropy_factors(&operands, WEIGHT);
            assert!(
                factors.is_none(),
                "{tokens} tokens, {dtype:?}, {reduction:?}"
            );
        }
    }

    #[test]
    fn rows_of_a_frozen_weight_are_kept() {
        let hidden = Wanted {
            hidden: true,
            ..Wanted::default()
        };
        let both = Wanted {
            weight: true,
            ..hidden
        };
        for (wanted, is_kept) in [(hidden, true), (both, false), (WEIGHT, false)] {
            let operands = operands(20, DType::F32, LossReduction::None);
            let (loss, kept) = Flex::linear_cross_entropy_forward(operands, wanted);
            assert_eq!(loss.shape(), Shape::new([20]));
            assert_eq!(kept.hidden.is_some(), is_kept, "{wanted:?}");
            assert!(kept.weight.is_none());
        }
        let operands = operands(20, DType::F32, LossReduction::None);
        let (_, kept) = Flex::linear_cross_entropy_forward(operands, hidden);
        let dy = FlexTensor::from_data(TensorData::new(vec![1.0_f32; 19], [19]));
        let said = Kept::new(kept, dy, DType::F32).unwrap_err().to_string();
        assert!(said.contains("[19]") && said.contains("[20]"), "{said}");
    }

    #[test]
    fn the_gradient_of_factors_is_that_which_others_keep() {
        let sizes = operands(20, DType::BF16, LossReduction::Mean).sizes();
        assert_eq!(
            are_smaller(kernels_simd::DType::Bf16, sizes, WEIGHT),
            multiplies_pairs_of_bf16(),
            "factors are kept exactly where products are of rounded numbers"
        );
        if !multiplies_pairs_of_bf16() {
            // The output of `println!` is hidden if the test passes.
            let line = b"NOT CHECKED: products of pairs of bf16: this processor has none\n";
            std::io::Write::write_all(&mut std::io::stdout(), line).expect("standard output");
            return;
        }
        for tokens in [20, 48] {
            let of = || operands(tokens, DType::BF16, LossReduction::Mean);
            let (loss, gradients, factors) =
                Flex::linear_cross_entropy_factors(&of(), WEIGHT).expect("they are smaller");
            assert!(gradients.weight.is_none());
            let (same_loss, kept) = Flex::linear_cross_entropy_forward(of(), WEIGHT);
            assert_eq!(loss.into_data(), same_loss.into_data());
            let dy = |values: Vec<f32>| {
                let count = values.len();
                FlexTensor::from_data(TensorData::new(values, [count]))
            };
            let kept = Kept::new(kept, dy(vec![0.7]), DType::BF16).expect("gradients that fit");
            let expected = Flex::linear_cross_entropy_scale(kept)
                .weight
                .expect("wanted");
            let found = Flex::linear_cross_entropy_weight(factors.clone(), dy(vec![0.7]));
            assert_eq!(found.shape(), expected.shape());
            let [found, expected] = [found, expected].map(|gradient| {
                let data = gradient.into_data().convert::<f32>();
                data.try_to_vec::<f32>().expect("f32")
            });
            let largest = expected.iter().fold(0.0, |most: f32, x| most.max(x.abs()));
            for (found, expected) in found.iter().zip(&expected) {
                // Each is rounded once, and so is each gradient of a logit where products round it.
                assert!(
                    (found - expected).abs() <= largest / 128.0,
                    "{found}, not {expected}"
                );
            }
            let mistake = || Flex::linear_cross_entropy_weight(factors.clone(), dy(vec![0.7; 2]));
            assert!(catch_unwind(AssertUnwindSafe(mistake)).is_err());
        }
    }
}
