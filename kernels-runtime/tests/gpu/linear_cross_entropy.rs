//! The linear cross-entropy beyond the shapes of verification.

use super::{gpu, numbers, numbers_in, rounding};
use burn::tensor::{Bool, DType, Device, Int, Tensor, TensorData};
use kernels_runtime::dispatch::Reason;
use kernels_runtime::ops::linear_cross_entropy::{Inputs, Settings, fused, reference};
use kernels_runtime::semantics::{LinearCrossEntropyKey, LossReduction, OutputLayout, Shift};

const KEY: LinearCrossEntropyKey = LinearCrossEntropyKey {
    shift: Shift::Bias,
    ..LinearCrossEntropyKey::MEAN
};

/// Returns the loss and the gradients of hidden states, weight and bias, on the GPU or by the reference on the CPU. `ignored` is
/// the hidden state of ignored tokens, every third one.
fn computed(
    dtype: DType,
    [tokens, width, classes]: [usize; 3],
    key: LinearCrossEntropyKey,
    ignored: f32,
    is_fused: bool,
) -> [TensorData; 4] {
    let device = match is_fused {
        true => gpu().autodiff(),
        false => Device::flex().autodiff(),
    };
    let targets = (0..tokens as i64).map(|token| match token % 3 {
        1 => Settings::IGNORE_INDEX,
        _ => token * 7919 % classes as i64,
    });
    let targets: Vec<i64> = targets.collect();
    let is_ignored: Vec<bool> = targets.iter().map(|target| *target < 0).collect();
    let is_ignored = Tensor::<2, Bool>::from_data(
        TensorData::new(is_ignored, [tokens, 1]),
        &device.clone().inner(),
    );
    let same = |number| number;
    let hidden = numbers_in(dtype, [tokens, width], &device, same);
    let hidden = hidden
        .mask_fill(is_ignored.expand([tokens, width]), ignored)
        .require_grad();
    let axes = match key.layout {
        OutputLayout::OutputMajor => [classes, width],
        OutputLayout::InputMajor => [width, classes],
    };
    let weight = numbers_in(dtype, axes, &device, same).require_grad();
    let bias = numbers_in(dtype, [classes], &device, same).require_grad();
    let targets = TensorData::from(targets.as_slice());
    let inputs = Inputs {
        hidden: hidden.clone(),
        weight: weight.clone(),
        bias: Some(bias.clone()),
        targets: Tensor::<1, Int>::from_data(targets, &device.clone().inner()),
    };
    let loss = match is_fused {
        true => fused(inputs, Settings::default(), key).unwrap(),
        false => reference(inputs, Settings::default(), key),
    };
    let gradients = (loss.clone() * 100.0).sum().backward();
    [
        loss.into_data(),
        hidden.grad(&gradients).unwrap().into_data(),
        weight.grad(&gradients).unwrap().into_data(),
        bias.grad(&gradients).unwrap().into_data(),
    ]
}

fn assert_close(dtype: DType, got: &[TensorData; 4], expected: &[TensorData; 4]) {
    // The gradient of hidden states is a sum over all classes, which a product of Burn adds up one after the other.
    let parts = [1e-5, 1e-3, 1e-5, 1e-5];
    for (place, (got, expected)) in got.iter().zip(expected).enumerate() {
        let part = parts[place];
        assert_eq!(got.num_elements(), expected.num_elements());
        let largest = expected.iter::<f32>().map(f32::abs).fold(1e-3, f32::max);
        assert!(largest.is_finite(), "result {place}: {largest}");
        for (got, expected) in got.iter::<f32>().zip(expected.iter::<f32>()) {
            let error = (got - expected).abs();
            let bound = part * largest + rounding(dtype) * expected.abs();
            assert!(error <= bound, "result {place}: {got} and {expected}");
        }
    }
}

/// The logits of two chunks, and a gradient of the weight whose second chunk is added in two parts. In half types, the second
/// chunk of hidden states is a copy, and two blocks of the weight make the gradient of the hidden states.
#[test]
fn chunks_of_tokens_are_a_whole() {
    let sizes = [130, 33, 260_003];
    for layout in [OutputLayout::OutputMajor, OutputLayout::InputMajor] {
        let key = LinearCrossEntropyKey { layout, ..KEY };
        for dtype in [DType::F32, DType::F16] {
            let expected = computed(dtype, sizes, key, 0.5, false);
            assert_close(dtype, &computed(dtype, sizes, key, 0.5, true), &expected);
        }
    }
}

/// Without a reduction, the backward pass computes the logits again, with a factor for each token.
#[test]
fn losses_of_tokens_have_gradients_chunk_by_chunk() {
    let sizes = [300, 3, 131_101];
    let key = LinearCrossEntropyKey {
        reduction: LossReduction::None,
        ..KEY
    };
    for dtype in [DType::F32, DType::F16] {
        let expected = computed(dtype, sizes, key, 0.5, false);
        assert_close(dtype, &computed(dtype, sizes, key, 0.5, true), &expected);
    }
}

/// The logits of 64 tokens would not fit into a chunk. Nothing computes these: fusion waits for a read.
#[test]
fn more_classes_take_the_reference() {
    let device = gpu();
    let inputs = Inputs {
        hidden: numbers([1, 1], &device),
        weight: numbers([1, 1], &device).expand([(1 << 19) + 1, 1]),
        bias: None,
        targets: Tensor::from_data([0], &device),
    };
    let loss = fused(inputs, Settings::default(), LinearCrossEntropyKey::MEAN);
    assert_eq!(loss.unwrap_err(), Reason::Shape);
}

#[test]
fn ignored_tokens_reach_no_gradient_whatever_they_hold() {
    let sizes = [40, 12, 50];
    for dtype in [DType::F32, DType::F16] {
        let expected = computed(dtype, sizes, KEY, 0.5, true);
        for ignored in [f32::NAN, f32::INFINITY] {
            assert_eq!(computed(dtype, sizes, KEY, ignored, true), expected);
        }
    }
}

/// Infinity and NaN times nothing are nothing.
#[test]
fn gradients_of_no_token_are_zero_whatever_the_loss_is_multiplied_by() {
    let device = gpu().autodiff();
    for factor in [f32::INFINITY, f32::NAN] {
        for reduction in [LossReduction::Mean, LossReduction::Sum, LossReduction::None] {
            let hidden = numbers([3, 8], &device).require_grad();
            let weight = numbers([5, 8], &device).require_grad();
            let inputs = Inputs {
                hidden: hidden.clone(),
                weight: weight.clone(),
                bias: None,
                targets: Tensor::from_data([Settings::IGNORE_INDEX; 3], &device.clone().inner()),
            };
            let key = LinearCrossEntropyKey {
                reduction,
                ..LinearCrossEntropyKey::MEAN
            };
            let loss = fused(inputs, Settings::default(), key).unwrap();
            let gradients = (loss * factor).sum().backward();
            for gradient in [hidden.grad(&gradients), weight.grad(&gradients)] {
                let gradient = gradient.unwrap().into_data();
                assert!(gradient.iter::<f32>().all(|x| x == 0.0), "{reduction:?}");
            }
        }
    }
}
