//! Tests RMSNorm with a bias: which gradients there are, refusals, and live verification. `verify` compares results and gradients
//! with the reference.

use crate::declared::sites;
use crate::support::{relative_error, values};
use burn::tensor::{Device, Distribution, FloatDType, Tensor};
use kernels_runtime::__private::{At, once, rms_norm_biased};
use kernels_runtime::live::{self, Sampling};
use kernels_runtime::ops::rms_norm::{Inputs, Settings};
use kernels_runtime::ops::rms_norm::{fused, fused_with_bias, reference, reference_with_bias};
use kernels_runtime::registry::Site;
use kernels_runtime::semantics::*;
use std::panic::{AssertUnwindSafe, catch_unwind};

const SETTINGS: Settings = Settings {
    eps: 1e-5,
    group_size: None,
};
const KEY: RmsNormKey = RmsNormKey {
    shift: Shift::Bias,
    ..RmsNormKey::LLAMA
};

fn random<const D: usize>(shape: [usize; D], device: &Device) -> Tensor<D> {
    Tensor::random(shape, Distribution::Uniform(-1.0, 1.0), device)
}

fn refusal<T>(run: impl FnOnce() -> T) -> String {
    let panic = catch_unwind(AssertUnwindSafe(run)).err();
    let panic = panic.expect("it is refused").downcast::<String>();
    *panic.expect("a message")
}

/// Any of the operands may be tracked, and each gradient is that of the reference in f64. Another use of `x` adds its gradient.
#[test]
fn any_operand_may_be_tracked() {
    let device = Device::flex().autodiff();
    let x: Tensor<2> = random([67, 40], &device);
    let [weight, bias]: [Tensor<1>; 2] = [(); 2].map(|()| random([40], &device));
    let dy: Tensor<2> = random([67, 40], &device);
    for tracked in 1..8 {
        let gradients = |dtype: FloatDType, is_fused: bool| {
            let is_tracked = |bit: usize| tracked >> bit & 1 == 1;
            let x = x.clone().cast(dtype);
            let x = if is_tracked(0) { x.require_grad() } else { x };
            let leaf = |bit: usize, tensor: &Tensor<1>| {
                let tensor = tensor.clone().cast(dtype);
                match is_tracked(bit) {
                    true => tensor.require_grad(),
                    false => tensor,
                }
            };
            let (weight, bias) = (leaf(1, &weight), leaf(2, &bias));
            let inputs = Inputs {
                x: x.clone(),
                weight: Some(weight.clone()),
                gate: None,
            };
            let y = match is_fused {
                true => fused_with_bias(inputs, bias.clone(), SETTINGS, KEY).expect("a kernel"),
                false => reference_with_bias(inputs, bias.clone(), SETTINGS, KEY),
            };
            let loss = (y * dy.clone().cast(dtype)).sum() + x.clone().square().sum();
            let grads = loss.backward();
            [
                x.grad(&grads).map(values),
                weight.grad(&grads).map(values),
                bias.grad(&grads).map(values),
            ]
        };
        let found = gradients(FloatDType::F32, true);
        let exact = gradients(FloatDType::F64, false);
        for (bit, (found, exact)) in found.into_iter().zip(exact).enumerate() {
            assert_eq!(found.is_some(), tracked >> bit & 1 == 1);
            assert_eq!(exact.is_some(), found.is_some());
            if let (Some(found), Some(exact)) = (found, exact) {
                let error = relative_error(&found, &exact);
                assert!(error < 1e-6, "{tracked}, gradient {bit}: {error:e}");
            }
        }
    }
}

#[test]
fn biases_that_do_not_go_with_the_norm_are_refused() {
    let device = Device::flex();
    let inputs = |gated: bool| Inputs {
        x: random([3, 8], &device),
        weight: Some(random([8], &device)),
        gate: gated.then(|| random([3, 8], &device)),
    };
    let with_bias = |gated: bool, n: usize, key: RmsNormKey| {
        let bias = || random([n], &device);
        let said = refusal(|| fused_with_bias(inputs(gated), bias(), SETTINGS, key));
        let same = refusal(|| reference_with_bias(inputs(gated), bias(), SETTINGS, key));
        assert_eq!(said, same);
        said
    };
    assert_eq!(
        with_bias(false, 7, KEY),
        "RMSNorm: the bias has 7 elements, but the last axis of x, [3, 8], has 8"
    );
    assert_eq!(
        with_bias(false, 8, RmsNormKey::LLAMA),
        "RMSNorm: a bias is given, but the semantics are rms_norm(offset=0, rounding=llama)"
    );
    let gated = RmsNormKey {
        gating: Gating::AfterNorm,
        ..KEY
    };
    assert_eq!(
        with_bias(true, 8, gated),
        "RMSNorm: a bias does not go with a gate, but the semantics are rms_norm(offset=0, \
         rounding=llama, gating=after_norm, shift=bias)"
    );
    let missing = "RMSNorm: a bias is missing, but the semantics are rms_norm(offset=0, \
                   rounding=llama, shift=bias)";
    assert_eq!(refusal(|| fused(inputs(false), SETTINGS, KEY)), missing);
    assert_eq!(refusal(|| reference(inputs(false), SETTINGS, KEY)), missing);
}

sites! {
    RIGHT: "npu_fused_rmsnorm", SemanticsKey::RmsNorm(KEY);
    FORGETS_THE_BIAS: "npu_fused_rmsnorm", SemanticsKey::RmsNorm(KEY);
}

fn call(site: &'static Site, adds: bool) {
    let device = Device::flex().autodiff();
    let x: Tensor<2> = random([6, 64], &device).require_grad();
    let [weight, bias]: [Tensor<1>; 2] = [(); 2].map(|()| random([64], &device).require_grad());
    let body = |x: Tensor<2>| {
        let mean_square = x.clone().square().mean_dim(1);
        let y = x / mean_square.add_scalar(1e-5).sqrt() * weight.clone().unsqueeze();
        match adds {
            true => y + bias.clone().unsqueeze(),
            false => y,
        }
    };
    let [weights, biases] = [&weight, &bias].map(|tensor| || Some(tensor.clone()));
    let y = rms_norm_biased(
        At::new(site),
        x,
        &weights,
        &biases,
        false,
        1e-5,
        None,
        &mut once(body),
    );
    y.sum().backward();
}

#[test]
fn bodies_are_verified() {
    let _first = live::scope(Sampling::first());
    call(&RIGHT, true);
    let rows = live::report().rows;
    let row = rows.iter().find(|row| row.site == RIGHT.name());
    let row = row.expect("checked");
    assert_eq!((row.checked, row.skipped), (1, 0), "{row:?}");
    let why = refusal(|| call(&FORGETS_THE_BIAS, false));
    assert!(why.contains(&FORGETS_THE_BIAS.name()), "{why}");
}
