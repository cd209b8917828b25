//! The kernels for GPUs, on whatever adapter wgpu finds. Mesa's lavapipe, a Vulkan in software, is enough.

#![cfg(feature = "gpu")]

mod attention;
mod cases;
mod grouped;
mod linear_cross_entropy;
mod moe;
#[cfg(feature = "cube-cpu")]
mod on_cpu;

use burn::backend::Cube;
use burn::tensor::wgpu::WgpuSetup;
use burn::tensor::wgpu::wgpu::{DeviceDescriptor, Limits};
use burn::tensor::{DType, Device, Int, Tensor, TensorData};
use cases::{KERNELS, cases, passed};
use kernels_runtime::dispatch::{DeviceKind, Reason};
use kernels_runtime::ops::fused;
use kernels_runtime::ops::layer_norm::{self, LayerNorm};
use kernels_runtime::ops::{adam_w, cross_entropy, glu, linear, rms_norm};
use kernels_runtime::registry::FloatType;
use kernels_runtime::semantics::{
    CrossEntropyKey, GluKey, LayerNormKey, LinearKey, LossReduction, RmsNormKey, TopK,
};
use kernels_runtime::verify::{Outcome, VerifyRow, verify_all};
use std::sync::OnceLock;

/// Returns the adapter that wgpu prefers, opened once.
fn opened() -> &'static (Device, WgpuSetup) {
    static OPENED: OnceLock<(Device, WgpuSetup)> = OnceLock::new();
    OPENED.get_or_init(|| Device::wgpu_options().init_with_setup().unwrap())
}

fn gpu() -> Device {
    opened().0.clone()
}

/// Opens the adapter again, with the least limits that WebGPU guarantees, which a browser has.
fn browser() -> Device {
    let (_, setup) = opened();
    let described = DeviceDescriptor {
        required_features: setup.device.features(),
        required_limits: Limits::default(),
        ..DeviceDescriptor::default()
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let opened = runtime.block_on(setup.adapter.request_device(&described));
    let (device, queue) = opened.unwrap();
    assert_eq!(device.limits().max_storage_buffers_per_shader_stage, 8);
    let setup = WgpuSetup {
        device,
        queue,
        ..setup.clone()
    };
    Device::wgpu_options().setup(setup).init().unwrap()
}

/// Returns the types that kernels have to take on a device.
fn types_of(device: &Device) -> Vec<FloatType> {
    let halves = [FloatType::F16, FloatType::Bf16].into_iter();
    let halves = halves.filter(|half| device.supports_dtype(half.dtype()));
    std::iter::once(FloatType::F32).chain(halves).collect()
}

#[test]
fn every_gpu_kernel_is_within_its_budget() {
    let report = verify_all(&gpu(), &Device::flex());
    assert!(report.passed(), "{report}");
    let types = types_of(&gpu());
    let others = |row: &&VerifyRow| !types.contains(&row.dtype);
    for row in report.rows.iter().filter(others) {
        let Outcome::Unavailable { reason } = row.outcome else {
            panic!("{row:?}");
        };
        let is_known = KERNELS.contains(&row.kernel) && !row.key.contains("topk");
        assert!(reason == Reason::Dtype || !is_known, "{row:?}");
    }
    for dtype in types {
        for (kernel, cases) in cases() {
            assert_eq!(passed(&report, kernel, dtype), cases, "{kernel} in {dtype}");
        }
    }
}

#[test]
fn kernels_keep_to_the_limits_of_webgpu() {
    let report = verify_all(&browser(), &Device::flex());
    assert!(report.passed(), "{report}");
    assert_eq!(report.device, DeviceKind::WebGpu);
    for kernel in KERNELS {
        for dtype in types_of(&browser()) {
            let count = passed(&report, kernel, dtype);
            assert!(count > 15, "{kernel} in {dtype}: {report}");
        }
    }
}

const NUMBERS: rms_norm::Settings = rms_norm::Settings {
    eps: 1e-6,
    group_size: None,
};

/// Returns a tensor of numbers between -1 and 1, all different.
fn numbers<const D: usize>(shape: [usize; D], device: &Device) -> Tensor<D> {
    numbers_in(DType::F32, shape, device, |number| number)
}

/// Returns a tensor of functions of these numbers. The host rounds them, so that they are the same on every device.
fn numbers_in<const D: usize>(
    dtype: DType,
    shape: [usize; D],
    device: &Device,
    of: impl Fn(f32) -> f32,
) -> Tensor<D> {
    let count = shape.iter().product::<usize>();
    let values: Vec<f32> = (0..count).map(|i| of((i as f32 * 0.7).sin())).collect();
    Tensor::from_data(TensorData::new(values, shape), (device, dtype))
}

/// Returns the part of a number that two results differ by if each is rounded once.
fn rounding(dtype: DType) -> f32 {
    match dtype {
        DType::F16 => 2.0_f32.powi(-10),
        _ => 0.0,
    }
}

fn norm(x: Tensor<2>, weight: Tensor<1>) -> Result<Tensor<2>, Reason> {
    let inputs = rms_norm::Inputs {
        x,
        weight: Some(weight),
        gate: None,
    };
    rms_norm::fused(inputs, NUMBERS, RmsNormKey::LLAMA)
}

/// The result and the gradients of operations of Burn around a kernel.
fn between_operations(device: &Device) -> [TensorData; 3] {
    let device = device.clone().autodiff();
    let x = numbers([37, 48], &device).require_grad();
    let weight = numbers([48], &device).require_grad();
    let y = norm((x.clone() * 2.0 + 1.0).exp(), weight.clone() + 1.0).unwrap();
    let y = (y * 3.0).tanh();
    let gradients = y.clone().sum().backward();
    [
        y.into_data(),
        x.grad(&gradients).unwrap().into_data(),
        weight.grad(&gradients).unwrap().into_data(),
    ]
}

/// Burn's fusion runs a kernel in its place among fused operations.
#[test]
fn a_kernel_runs_between_fused_operations() {
    let expected = between_operations(&Device::flex());
    for (got, expected) in between_operations(&gpu()).iter().zip(&expected) {
        let (got, expected) = (got.iter::<f32>(), expected.iter::<f32>());
        for (got, expected) in got.zip(expected) {
            let error = (got - expected).abs();
            assert!(
                error <= 1e-5 * (1.0 + expected.abs()),
                "{got} and {expected}"
            );
        }
    }
}

/// Returns the gradients of the operand, the weight and the bias of a norm: the last two are sums over rows in parts.
fn gradients(is_layer_norm: bool, shape: [usize; 2], device: &Device) -> Vec<TensorData> {
    let device = device.clone().autodiff();
    let x = numbers(shape, &device).require_grad();
    let [weight, bias] = [1, 2]
        .map(|k| numbers_in(DType::F32, [shape[1]], &device, |v| v + k as f32).require_grad());
    let y = match is_layer_norm {
        false => norm(x.clone(), weight.clone()).unwrap(),
        true => {
            let inputs = layer_norm::Inputs {
                x: x.clone(),
                weight: weight.clone(),
                bias: Some(bias.clone()),
            };
            layer_norm::fused(
                inputs,
                layer_norm::Settings { eps: 1e-6 },
                LayerNormKey::GPT2,
            )
            .unwrap()
        }
    };
    let dy = numbers_in(DType::F32, shape, &device, |v| v * 0.5 + 1.0);
    let gradients = (y * dy).sum().backward();
    let weights = [Some(weight), is_layer_norm.then_some(bias)];
    let of_weights = weights
        .into_iter()
        .flatten()
        .map(|each| each.grad(&gradients));
    [x.grad(&gradients).map(|of_x| of_x.flatten::<1>(0, 1))]
        .into_iter()
        .chain(of_weights)
        .map(|gradient| gradient.unwrap().into_data())
        .collect()
}

#[test]
fn sums_over_rows_have_all_of_them_and_the_same_bits_each_time() {
    let shapes = [
        // One part, a part and a row, many parts, and as many parts as there may be, with more rows each.
        [[1, 96], [8, 96], [9, 96], [1000, 96], [33_001, 96]],
        // Rows in vectors of one number and of four, of which a unit has one or more, up to the most that it holds, and beyond.
        [[17, 3], [17, 259], [17, 2052], [17, 8192], [17, 8196]],
    ];
    for (is_layer_norm, [rows, n]) in [false, true]
        .into_iter()
        .flat_map(|norm| shapes.into_iter().flatten().map(move |shape| (norm, shape)))
    {
        let got = gradients(is_layer_norm, [rows, n], &gpu());
        let shown = format!("{rows} rows of {n}, LayerNorm: {is_layer_norm}");
        assert_eq!(got, gradients(is_layer_norm, [rows, n], &gpu()), "{shown}");
        let expected = gradients(is_layer_norm, [rows, n], &Device::flex());
        for (k, (got, expected)) in got.iter().zip(&expected).enumerate() {
            // The sums have as many terms as there are rows, each below 4: the budget of such a sum in f32, on both sides.
            let terms = if k == 0 { 1 } else { rows };
            let budget = 2.0 * 4.0 * terms as f32 * 2.0_f32.powi(-20);
            for (got, expected) in got.iter::<f32>().zip(expected.iter::<f32>()) {
                let error = (got - expected).abs();
                assert!(error <= budget, "{shown}, {k}: {got} and {expected}");
            }
        }
    }
}

/// Returns the losses of four tokens and the sums of the gradients of their logits.
fn losses(targets: [i64; 4], ignore_index: i64) -> [Vec<f32>; 2] {
    let device = gpu().autodiff();
    let logits = numbers([4, 5], &device).require_grad();
    let targets = TensorData::from(targets);
    let inputs = cross_entropy::Inputs {
        logits: logits.clone(),
        targets: Tensor::<1, Int>::from_data(targets, &gpu()),
    };
    let key = CrossEntropyKey {
        reduction: LossReduction::None,
        ..CrossEntropyKey::MEAN
    };
    let settings = cross_entropy::Settings {
        ignore_index,
        ..cross_entropy::Settings::default()
    };
    let loss = cross_entropy::fused(inputs, settings, key).unwrap();
    let gradients = loss.clone().sum().backward();
    let gradient = logits.grad(&gradients).unwrap().abs().sum_dim(1);
    [loss.into_data(), gradient.into_data()].map(|data| data.iter::<f32>().collect())
}

/// Nothing reads the targets on the host, so a wrong one shows in its token's numbers, and in no other's.
#[test]
fn a_target_that_is_no_class_makes_its_loss_and_gradient_nan() {
    for numbers in losses([4, 5, -1, 7], 7) {
        assert!(numbers[0] > 0.0, "{numbers:?}");
        assert!(numbers[1].is_nan() && numbers[2].is_nan(), "{numbers:?}");
        assert_eq!(numbers[3], 0.0, "{numbers:?}");
    }
}

#[test]
fn an_ignored_index_may_be_any_number() {
    // A class, and a number that the targets' type does not hold.
    for numbers in losses([2, 0, 2, 1], 2) {
        assert!(numbers[1] > 0.0 && numbers[3] > 0.0, "{numbers:?}");
        assert_eq!([numbers[0], numbers[2]], [0.0; 2], "{numbers:?}");
    }
    for numbers in losses([0, 1, 2, 3], (1 << 32) + 2) {
        assert!(numbers.iter().all(|number| *number > 0.0), "{numbers:?}");
    }
}

/// Returns the mean loss of a thousand tokens, a third of them ignored, and the gradient of their logits. Every eighth class
/// has a probability of zero.
fn mean_of_many(device: &Device) -> [TensorData; 2] {
    let device = device.clone().autodiff();
    let classes = |number: usize| match number % 8 == 7 {
        true => f32::NEG_INFINITY,
        false => (number as f32 * 0.7).sin() * 5.0,
    };
    let logits: Vec<f32> = (0..1000 * 40).map(classes).collect();
    let logits = Tensor::<2>::from_data(TensorData::new(logits, [1000, 40]), &device);
    let logits = logits.require_grad();
    let target = |token: i64| match token % 3 == 1 {
        true => cross_entropy::Settings::IGNORE_INDEX,
        false => token * 8 % 40,
    };
    let targets = TensorData::from((0..1000).map(target).collect::<Vec<_>>().as_slice());
    let inputs = cross_entropy::Inputs {
        logits: logits.clone(),
        targets: Tensor::<1, Int>::from_data(targets, &device.clone().inner()),
    };
    let settings = cross_entropy::Settings::default();
    let loss = cross_entropy::fused(inputs, settings, CrossEntropyKey::MEAN).unwrap();
    let gradients = (loss.clone() * 1000.0).backward();
    [
        loss.into_data(),
        logits.grad(&gradients).unwrap().into_data(),
    ]
}

#[test]
fn a_mean_is_that_of_all_tokens_that_count() {
    let expected = mean_of_many(&Device::flex());
    for (got, expected) in mean_of_many(&gpu()).iter().zip(&expected) {
        assert_eq!(got.num_elements(), expected.num_elements());
        for (got, expected) in got.iter::<f32>().zip(expected.iter::<f32>()) {
            let error = (got - expected).abs();
            assert!(
                error <= 1e-5 * (1.0 + expected.abs()),
                "{got} and {expected}"
            );
        }
    }
}

/// A step writes in place only what nothing else holds.
#[test]
fn a_step_leaves_tensors_that_others_hold() {
    let device = gpu();
    let parameter = numbers([3, 5], &device);
    let state = adam_w::State {
        parameter: parameter.clone(),
        moment_1: parameter.zeros_like(),
        moment_2: parameter.zeros_like(),
    };
    let settings = adam_w::Settings {
        learning_rate: 0.125,
        beta_1: 0.875,
        beta_2: 0.9375,
        epsilon: 1e-8,
        weight_decay: 0.0,
        step: 1,
    };
    let before = parameter.to_data();
    let after = adam_w::fused(state, parameter.ones_like(), settings).unwrap();
    assert_eq!(parameter.into_data(), before);
    // Nothing else holds the moments, so they are written in place. Both numbers are exact.
    for (moment, expected) in [(after.moment_1, 0.125), (after.moment_2, 0.0625)] {
        assert_eq!(
            moment.into_data().try_into_vec::<f32>().unwrap(),
            [expected; 15]
        );
    }
    let moved = after.parameter.into_data();
    assert_eq!(moved.num_elements(), before.num_elements());
    for (after, before) in moved.iter::<f32>().zip(before.iter::<f32>()) {
        let error = (after - (before - 0.125)).abs();
        assert!(error < 1e-6, "{before} became {after}");
    }
}

/// Calls a kernel past the choice of an implementation.
fn direct(dtype: DType) {
    let device = gpu();
    let on = (&device, dtype);
    let x = Tensor::<2>::from_data([[1.0, 2.0]], on).into_dispatch();
    let weight = Tensor::<1>::from_data([1.0, 1.0], on).into_dispatch();
    let settings = layer_norm::Settings { eps: 1e-5 };
    let operands = layer_norm::Operands::new(x, weight, None, settings, LayerNormKey::COHERE);
    let _ = fused::run::<LayerNorm, Cube>(operands.unwrap());
}

/// The traits take every float dtype, and the kernels here some.
#[test]
#[should_panic(
    expected = "burn-kernels/layer_norm: kernels for GPUs take [F32, F16, BF16], not F64"
)]
fn another_dtype_does_not_reach_a_kernel() {
    direct(DType::F64);
}

/// No device of WebGPU has bf16.
#[test]
#[should_panic(expected = "burn-kernels/layer_norm: this device does not compute in BF16")]
fn a_dtype_that_the_device_lacks_does_not_reach_a_kernel() {
    direct(DType::BF16);
}

#[test]
fn what_no_kernel_takes_has_a_reason() {
    let device = gpu();
    let x = || numbers([2, 8], &device);
    let inputs = linear::Inputs {
        x: x(),
        weight: numbers([8, 4], &device),
        bias: None,
    };
    let other = linear::fused(inputs, LinearKey::PROJECTION);
    assert_eq!(other.unwrap_err(), Reason::NoImplementation);

    let [x_bf16, weight_bf16] = [[2, 8], [1, 8]].map(|shape| {
        let zeros = vec![0.0_f32; shape[0] * shape[1]];
        Tensor::<2>::from_data(TensorData::new(zeros, shape), (&device, DType::BF16))
    });
    let lacking = norm(x_bf16, weight_bf16.flatten(0, 1));
    assert_eq!(lacking.unwrap_err(), Reason::Dtype);

    let inputs = glu::Inputs::Separate { gate: x(), up: x() };
    let settings = glu::Settings {
        limit: None,
        sparsity: Some(0.5),
    };
    let key = GluKey {
        topk: TopK::Gaussian,
        ..GluKey::SWIGLU
    };
    let sparse = glu::fused(inputs, settings, key);
    assert_eq!(sparse.unwrap_err(), Reason::Semantics);

    // Nothing computes these: fusion waits for a read.
    let large = |shape: [usize; 2]| numbers([1, 1], &device).expand(shape);
    for shape in [[1 << 29, 8], [1, (1 << 23) + 1]] {
        let weight = large([1, shape[1]]).flatten(0, 1);
        assert_eq!(norm(large(shape), weight).unwrap_err(), Reason::Shape);
    }
}
