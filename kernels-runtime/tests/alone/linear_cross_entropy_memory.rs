//! Tests the memory of the linear cross-entropy and of linear layers.

use crate::counting::{alone, peak};
use burn::tensor::{DType, Device, Distribution, Int, Tensor, TensorData};
use kernels_runtime::ops::linear;
use kernels_runtime::ops::linear_cross_entropy::{Inputs, Settings, fused, reference};
use kernels_runtime::semantics::{LinearCrossEntropyKey, LinearKey, LossReduction, Shift};

const TOKENS: usize = 2048;
const WIDTH: usize = 32;
const CLASSES: usize = 20_000;

/// Beyond the gradients, training takes a fifth of the memory of plain operations at most, and inference a fiftieth.
#[test]
fn logits_of_all_tokens_are_never_held() {
    let _alone = alone();
    for dtype in [DType::F32, DType::BF16] {
        let device = Device::flex();
        let random = |shape| -> Tensor<2> {
            let numbers = Distribution::Uniform(-0.5, 0.5);
            Tensor::random(shape, numbers, (&device, dtype)).autodiff()
        };
        let (hidden, weight) = (random([TOKENS, WIDTH]), random([CLASSES, WIDTH]));
        let targets: Vec<i64> = (0..TOKENS as i64).collect();
        let targets = TensorData::new(targets, [TOKENS]);
        let targets = Tensor::<1, Int>::from_data(targets, &device);
        let inputs = |is_tracked| {
            let of = |tensor: &Tensor<2>| match is_tracked {
                true => tensor.clone().require_grad(),
                false => tensor.clone().inner(),
            };
            Inputs {
                hidden: of(&hidden),
                weight: of(&weight),
                bias: None,
                targets: targets.clone(),
            }
        };
        let run = |is_fused, is_tracked, reduction| {
            let key = LinearCrossEntropyKey {
                reduction,
                ..LinearCrossEntropyKey::MEAN
            };
            let loss = match is_fused {
                true => fused(inputs(is_tracked), Settings::default(), key).expect("a kernel"),
                false => reference(inputs(is_tracked), Settings::default(), key),
            };
            let loss = loss.sum();
            is_tracked.then(|| loss.backward())
        };
        let gradients = (TOKENS + CLASSES) * WIDTH * dtype.size();
        for reduction in [LossReduction::Mean, LossReduction::None] {
            // The first call creates threads and their buffers.
            drop(run(true, true, reduction));
            let [kernel, plain] = [true, false].map(|is_fused| {
                let peak = peak(|| run(is_fused, true, reduction));
                peak.saturating_sub(gradients)
            });
            println!("{dtype:?}, training, {reduction:?}: {kernel} and {plain} bytes");
            assert!(5 * kernel <= plain, "{kernel} and {plain} bytes");
            let [kernel, plain] =
                [true, false].map(|is_fused| peak(|| run(is_fused, false, reduction)));
            println!("{dtype:?}, inference, {reduction:?}: {kernel} and {plain} bytes");
            assert!(50 * kernel <= plain, "{kernel} and {plain} bytes");
        }
    }
}

/// Products read half types as copies, in tiles of 16 rows of 32 terms, or in pairs. Those of all rows of one element would be
/// many times as large as the rows.
#[test]
fn short_rows_are_copied_some_at_a_time() {
    let _alone = alone();
    const ROWS: usize = 2 << 20;
    const KEY: LinearKey = LinearKey {
        shift: Shift::None,
        ..LinearKey::BURN
    };
    const BESIDE: usize = 8 << 20;
    for dtype in [DType::BF16, DType::F16] {
        for [inputs, outputs] in [[1, 1], [1, 4], [3, 1]] {
            let ones = |shape| -> Tensor<2> { Tensor::ones(shape, (&Device::flex(), dtype)) };
            let (x, weight) = (ones([ROWS, inputs]), ones([inputs, outputs]));
            let multiply = |x, weight| {
                let bias = None;
                linear::fused(linear::Inputs { x, weight, bias }, KEY).expect("a kernel")
            };
            let inference = || multiply(x.clone(), weight.clone());
            let training = || {
                let leaves = [&x, &weight].map(|tensor| tensor.clone().autodiff().require_grad());
                let [x, weight] = leaves.clone();
                let gradients = multiply(x, weight).sum().backward();
                leaves.map(|leaf| leaf.grad(&gradients).expect("it is tracked"))
            };
            // The first call creates threads and their buffers.
            let [dx, dw] = training();
            let of = |sum| Tensor::<1>::full([1], sum, (&Device::flex(), dtype));
            let expected = [outputs as f64, ROWS as f64].map(of);

            let found: [Tensor<1>; 2] =
                [dx, dw].map(|gradient| gradient.slice([0..1, 0..1]).reshape([1]));
            for (found, expected) in found.into_iter().zip(expected) {
                found.into_data().assert_eq(&expected.into_data(), true);
            }
            let [row, result] = [inputs, outputs].map(|width| ROWS * width * dtype.size());
            // The result, its gradient twice, and that of `x`.
            for (pass, tensors, peak) in [
                ("inference", result, peak(inference)),
                ("training", 3 * result + row, peak(training)),
            ] {
                println!(
                    "{dtype:?}, {inputs} to {outputs}, {pass}: {peak} bytes, {tensors} of tensors"
                );
                assert!(
                    peak <= tensors + BESIDE,
                    "{dtype:?}, {pass}: {peak} and {tensors} bytes"
                );
            }
        }
    }
}
