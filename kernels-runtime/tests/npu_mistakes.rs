//! Tests expert indices and targets of losses out of range on an NPU: the device counts them, the next read is an error,
//! and the session goes on.

#![cfg(feature = "npu")]

mod npu;

use burn::tensor::{Device, Int, Tensor, TensorData};
use burn_cann::backend;
use common::Scenario;
use kernels_runtime::ops::moe::experts::{self, Projection, Weights};
use kernels_runtime::ops::{cross_entropy, linear_cross_entropy};
use kernels_runtime::semantics::{CrossEntropyKey, LinearCrossEntropyKey, MoeExpertsKey};
use npu::*;

const EXPERTS: usize = 3;
const WIDTH: usize = 16;
const WRONG: &str = "below 0 or above the number of experts";

/// Passes two tokens through the experts of `indices`, two each.
fn forward(device: &Device, indices: [[i32; 2]; 2]) -> Tensor<2> {
    let ones = |shape: [usize; 3]| Projection::new(Tensor::<3>::ones(shape, device));
    let weights = Weights::packed(
        ones([EXPERTS, 2 * WIDTH, WIDTH]),
        ones([EXPERTS, WIDTH, WIDTH]),
    );
    let x = Tensor::ones([2, WIDTH], device);
    let indices = Tensor::<2, Int>::from_data(TensorData::from(indices), device);
    let routing = Tensor::ones([2, 2], device);
    experts::fused(x, indices, routing, weights, None, MoeExpertsKey::QWEN3).expect("a kernel")
}

fn said(read: impl std::fmt::Debug) -> String {
    format!("{read:?}")
}

#[test]
fn an_index_of_no_expert_is_an_error_of_the_next_read() {
    Scenario::new("an_index_of_no_expert_is_an_error_of_the_next_read").run(|cann| {
        backend::install(cann.clone());
        let device = kernels_runtime::npu::device(0).unwrap();

        // The index one past the last means no expert and is valid.
        let right = forward(&device, [[0, 2], [1, EXPERTS as i32]]);
        right.clone().try_into_data().expect("all are right");

        for wrong in [-1, EXPERTS as i32 + 1, i32::MAX] {
            let y = forward(&device, [[0, 2], [1, wrong]]);
            let read = y.clone().try_into_data();
            assert!(
                read.is_err() && said(&read).contains(WRONG),
                "{}",
                said(&read)
            );
            assert!(said(&read).contains("1 indices"), "{}", said(&read));
            // It is reported once. The computation treated the slot as one without an expert.
            let y = y.try_into_data().expect("it was said");
            y.assert_eq(&right.clone().into_data(), true);
        }

        // Any read reports it, and so does a synchronisation. Counts of several calls are added. Burn's fusion, which builds
        // for GPUs have, first calls them when a result is read.
        let wrong = [[[-1, -7], [0, 1]], [[9, 1], [0, 1]]].map(|wrong| forward(&device, wrong));
        let read = match cfg!(feature = "gpu") {
            true => wrong[1].clone().try_into_data(),
            false => right.clone().try_into_data(),
        };
        assert!(said(&read).contains("3 indices"), "{}", said(&read));
        forward(&device, [[9, 1], [0, 1]]);
        let waited = device.sync();
        assert!(
            waited.is_err() && said(&waited).contains(WRONG),
            "{}",
            said(&waited)
        );
        device.sync().expect("it was said");

        drop(right);
        kernels_runtime::npu::close();
        backend::close();
    });
}

const CLASSES: usize = 5;
const NO_CLASS: &str = "neither classes nor the ignored index";

/// Returns the losses of logits and of hidden states, which are all ones.
fn losses(device: &Device, targets: [i32; 3]) -> [Tensor<1>; 2] {
    let targets = || Tensor::<1, Int>::from_data(TensorData::from(targets), device);
    let settings = cross_entropy::Settings::default();
    let of_logits = cross_entropy::Inputs {
        logits: Tensor::ones([3, CLASSES], device),
        targets: targets(),
    };
    let of_hidden = linear_cross_entropy::Inputs {
        hidden: Tensor::ones([3, WIDTH], device),
        weight: Tensor::ones([CLASSES, WIDTH], device),
        bias: None,
        targets: targets(),
    };
    let of_logits = cross_entropy::fused(of_logits, settings, CrossEntropyKey::MEAN);
    let of_hidden = linear_cross_entropy::fused(of_hidden, settings, LinearCrossEntropyKey::MEAN);
    [of_logits.expect("a kernel"), of_hidden.expect("a kernel")]
}

/// The token of such a target is ignored.
#[test]
fn a_target_of_no_class_is_an_error_of_the_next_read() {
    Scenario::new("a_target_of_no_class_is_an_error_of_the_next_read").run(|cann| {
        backend::install(cann.clone());
        let device = kernels_runtime::npu::device(0).unwrap();
        for loss in losses(&device, [0, -100, 4]) {
            loss.try_into_data().expect("all are right");
        }
        let expected = (CLASSES as f32).ln();
        for wrong in [-1, CLASSES as i32, i32::MIN, i32::MAX] {
            for place in 0..2 {
                let loss = losses(&device, [0, wrong, 4])[place].clone();
                let read = loss.clone().try_into_data();
                assert!(said(&read).contains(NO_CLASS), "{}", said(&read));
                assert!(said(&read).contains("2 targets"), "{}", said(&read));
                let loss = loss.into_scalar::<f32>();
                assert!((loss - expected).abs() < 1e-5, "{loss}, not {expected}");
            }
        }
        // Both kinds of mistakes are said at once.
        forward(&device, [[-1, 0], [0, 1]]);
        let [loss, _] = losses(&device, [0, -1, 4]);
        let read = loss.try_into_data();
        assert!(said(&read).contains(NO_CLASS), "{}", said(&read));
        assert!(said(&read).contains(WRONG), "{}", said(&read));
        device.sync().expect("it was said");
        kernels_runtime::npu::close();
        backend::close();
    });
}
