//! Tests that the losses of an NPU's tensors are those of their references, since there is no kernel for them.

#![cfg(feature = "npu")]

mod npu;

use burn::tensor::{Device, Int, Tensor, TensorData};
use burn_cann::backend;
use common::Scenario;
use kernels_runtime::dispatch::Reason;
use kernels_runtime::ops::{cross_entropy, linear_cross_entropy};
use kernels_runtime::semantics::{CrossEntropyKey, LinearCrossEntropyKey};
use npu::*;

const TOKENS: usize = 3;
const WIDTH: usize = 16;
const CLASSES: usize = 32;

fn numbers(shape: [usize; 2], device: &Device) -> Tensor<2> {
    let count = shape[0] * shape[1];
    let values = (0..count).map(|i| ((i * 7919) % 613) as f32 / 307.0 - 1.0);
    let data = TensorData::new(values.collect::<Vec<_>>(), shape);
    Tensor::from_data(data, device)
}

fn targets(device: &Device) -> Tensor<1, Int> {
    Tensor::from_data(TensorData::from([5_i32, -100, 31]), device)
}

/// Returns the losses of both references.
fn losses(device: &Device) -> [f32; 2] {
    let inputs = cross_entropy::Inputs {
        logits: numbers([TOKENS, CLASSES], device),
        targets: targets(device),
    };
    let settings = cross_entropy::Settings {
        label_smoothing: 0.1,
        z_loss: 0.01,
        ..Default::default()
    };
    let of_logits = cross_entropy::reference(inputs, settings, CrossEntropyKey::MEAN);
    let key = LinearCrossEntropyKey::MEAN;
    let of_hidden = linear_cross_entropy::reference(hidden(device), settings, key);
    [of_logits, of_hidden].map(|loss| loss.into_scalar::<f32>())
}

fn hidden(device: &Device) -> linear_cross_entropy::Inputs {
    linear_cross_entropy::Inputs {
        hidden: numbers([TOKENS, WIDTH], device),
        weight: numbers([CLASSES, WIDTH], device),
        bias: None,
        targets: targets(device),
    }
}

#[test]
fn losses_of_an_npu_are_those_of_their_references() {
    Scenario::new("losses_of_an_npu_are_those_of_their_references").run(|cann| {
        backend::install(cann.clone());
        let device = kernels_runtime::npu::device(0).unwrap();
        let inputs = cross_entropy::Inputs {
            logits: numbers([TOKENS, CLASSES], &device),
            targets: targets(&device),
        };
        let loss = cross_entropy::fused(inputs, Default::default(), CrossEntropyKey::MEAN);
        assert_eq!(loss.unwrap_err(), Reason::NoImplementation);
        let key = LinearCrossEntropyKey::MEAN;
        let loss = linear_cross_entropy::fused(hidden(&device), Default::default(), key);
        assert_eq!(loss.unwrap_err(), Reason::NoImplementation);
        let pairs = losses(&device).into_iter().zip(losses(&Device::flex()));
        for (npu, cpu) in pairs {
            assert!((npu - cpu).abs() < 1e-4 * cpu.abs(), "{npu}, not {cpu}");
        }
        kernels_runtime::npu::close();
        backend::close();
    });
}
