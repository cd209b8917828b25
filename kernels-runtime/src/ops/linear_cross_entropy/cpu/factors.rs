//! The factors of the weight's gradient, `dxᵀ · hidden`, kept in place of it where they are smaller.
//!
//! The gradient of the weight is kept in the type that it is summed in, because it is rounded once, after it was multiplied
//! by the gradient of the loss. `dx` is rounded for products in bf16 in any case. With few tokens it is much smaller, and
//! the gradient of the weight is written once, rounded, when its factor is known.

use super::chunks::{classes_of_block, run};
use super::scale::{is_number, times_no_number};
use super::{OP, laid_out, reduced, targets};
use crate::cpu::product::{Gemm, InGroups, columns_times_scaled, takes_rounded};
use crate::cpu::{Element, Output, Real, contiguous};
use crate::ops::cross_entropy::Targets;
use crate::ops::cross_entropy::cpu::Factors;
use crate::ops::linear_cross_entropy::autodiff::{Tensors, WithFactors};
use crate::ops::linear_cross_entropy::{Sizes, Wanted};
use crate::ops::operands::{checked, like};
use crate::semantics::OutputLayout;
use burn::backend::flex::FlexTensor;
use burn::backend::{Flex, Shape, TensorMetadata};
use burn::tensor::DType;
use std::mem::size_of;

/// The factors of the weight's gradient.
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

impl WeightFactors {
    pub(super) fn dtype(&self) -> DType {
        self.d_logits.dtype()
    }
}

/// Returns whether the gradient of the logits is rounded in any case, and no larger than that of the weight.
pub(super) fn are_smaller<T: Element>(sizes: Sizes, kept: Wanted) -> bool {
    let [logits, weight] = [
        sizes.tokens.saturating_mul(size_of::<T>()),
        sizes.width.saturating_mul(size_of::<T::Acc>()),
    ];
    kept.weight && takes_rounded::<T>() && logits <= weight
}

/// Returns the loss, the wanted gradients without the weight's, and the factors of this.
pub(super) fn forward<T: Element>(operands: &Tensors<Flex>, kept: Wanted) -> WithFactors<Flex>
where
    T::Acc: Gemm,
{
    let targets = targets(operands);
    let one = [<T::Acc as Real>::ONE];
    let factors = Factors::new(&one, targets.counted(), operands.key().reduction);
    let (sizes, counted) = (operands.sizes(), targets.counted());
    let mut d_logits = Output::new(Shape::new([counted * sizes.classes]));
    let others = Wanted {
        weight: false,
        ..kept
    };
    let rest = Some(d_logits.rest());
    let found = run::<T>(operands, &targets, Some(&factors), others, rest);
    let (loss, gradients) = reduced::<T>(operands, &targets, found);
    let factors = WeightFactors {
        d_logits: d_logits.finish(),
        block: classes_of_block::<T>(sizes, counted),
        classes: sizes.classes,
        hidden: with_class::<T>(operands, &targets),
        layout: operands.key().layout,
    };
    (loss, gradients, factors)
}

/// Returns the hidden states of the tokens that have a class.
fn with_class<T: Element>(operands: &Tensors<Flex>, targets: &Targets) -> FlexTensor {
    let Sizes { tokens, width, .. } = operands.sizes();
    let hidden = operands.hidden().to_contiguous();
    if targets.counted() == tokens {
        return hidden;
    }
    let values = contiguous::<T>(&hidden);
    let mut some = Output::new(Shape::new([targets.counted(), width]));
    let mut rest = some.rest();
    for (token, _) in targets.tokens() {
        let row = &values[token * width..][..width];
        rest.row(width).write(row.iter().copied());
    }
    drop(rest);
    some.finish()
}

/// Returns the gradient of the weight, multiplied by the gradient of the loss.
pub(super) fn weight<T: Element>(factors: &WeightFactors, dy: &FlexTensor) -> FlexTensor
where
    T::Acc: Gemm,
{
    let wide = <T::Acc as burn::tensor::Element>::dtype();
    checked(like(OP, ("dy", dy), ("the loss", &Shape::new([1]), wide)));
    let dy = dy.to_contiguous();
    let [counted, width] = factors.hidden.shape().dims();
    let mut gradient = Output::<T>::new(Shape::new([factors.classes, width]));
    let left = InGroups {
        values: contiguous::<T>(&factors.d_logits),
        lines: factors.classes,
        group: factors.block,
    };
    let right = (contiguous::<T>(&factors.hidden), width);
    let factor = contiguous::<T::Acc>(&dy)[0];
    let gradient = if is_number(factor) {
        columns_times_scaled(counted, left, right, factor, gradient.rest());
        gradient.finish()
    } else {
        let one = <T::Acc as Real>::ONE;
        columns_times_scaled(counted, left, right, one, gradient.rest());
        times_no_number::<T>(&gradient.finish(), factor)
    };
    laid_out(gradient, factors.layout)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::product::tested;
    use crate::ops::linear_cross_entropy::{
        Kept, LinearCrossEntropyKernel as _, Operands, Settings,
    };
    use crate::semantics::{LinearCrossEntropyKey, LossReduction};
    use burn::tensor::{TensorData, bf16};
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
    fn the_gradient_of_factors_is_that_which_others_keep() {
        let sizes = operands(20, DType::BF16, LossReduction::Mean).sizes();
        assert_eq!(
            are_smaller::<bf16>(sizes, WEIGHT),
            takes_rounded::<bf16>(),
            "factors are kept exactly where products are of rounded numbers"
        );
        if !tested(takes_rounded::<bf16>(), "products of pairs of bf16") {
            return;
        }
        for tokens in [20, 48] {
            let of = || operands(tokens, DType::BF16, LossReduction::Mean);
            let (loss, gradients, factors) = forward::<bf16>(&of(), WEIGHT);
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
