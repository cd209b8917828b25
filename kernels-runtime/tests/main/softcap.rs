//! Tests soft capping: against the formula in f64, also far beyond the cap, every rank and view, refusals, and live
//! verification.

use crate::declared::sites;
use crate::support::values;
use burn::tensor::{DType, Device, FloatDType, Tensor, TensorData};
use kernels_runtime::__private::{At, once, softcap};
use kernels_runtime::live::{self, Sampling};
use kernels_runtime::ops::softcap::{fused, reference};
use kernels_runtime::registry::Site;
use kernels_runtime::semantics::*;
use std::panic::{AssertUnwindSafe, catch_unwind};

fn run<const D: usize>(is_fused: bool, x: Tensor<D>, cap: f64) -> Tensor<D> {
    match is_fused {
        true => fused(x, cap).expect("a kernel"),
        false => reference(x, cap),
    }
}

fn refusal<T>(run: impl FnOnce() -> T) -> String {
    let panic = catch_unwind(AssertUnwindSafe(run)).err();
    let panic = panic.expect("it is refused").downcast::<String>();
    *panic.expect("a message")
}

/// A composition in f32 computes the slope as `1 − tanh²`, so its gradients have errors as large as roundings of 1. Those of the
/// kernel are as exact where the slope is small: the error of `z` is multiplied by `2 |z|`.
#[test]
fn results_and_gradients_are_those_of_the_formula() {
    let device = Device::flex().autodiff();
    // Exact in half types, from far below the cap to five times it.
    let numbers: Vec<f64> = (-40..=40).map(|i| f64::from(i) * 0.5).collect();
    let n = numbers.len();
    for (dtype, rounding) in [
        (FloatDType::F64, -40),
        (FloatDType::F32, -20),
        (FloatDType::F16, -11),
        (FloatDType::BF16, -8),
    ] {
        for (cap, is_fused) in [(4.0, true), (4.0, false), (50.0, true), (50.0, false)] {
            let data = TensorData::new(numbers.clone(), [n]);
            let x = Tensor::<1>::from_data(data, (&device, DType::from(dtype))).require_grad();
            let y = run(is_fused, x.clone(), cap);
            assert_eq!(y.dtype(), dtype.into());
            let dx = x.grad(&y.clone().sum().backward()).expect("a gradient");
            // Roundings to a half type leave a hundredth for those of f32.
            let rounding = 1.01 * 2.0_f64.powi(rounding);
            for ((x, y), dx) in numbers.iter().zip(values(y)).zip(values(dx)) {
                let z = x / cap;
                let exact = cap * z.tanh();
                let what = format!("{dtype:?}, cap {cap}, fused {is_fused}, x {x}");
                assert!((y - exact).abs() <= rounding * exact.abs(), "{what}: {y}");
                let exact = z.cosh().powi(-2);
                let least = if is_fused { 0.0 } else { 2.0_f64.powi(-21) };
                let bound = rounding * (1.0 + 2.0 * z.abs()) * exact + least;
                assert!((dx - exact).abs() <= bound, "{what}: gradient {dx}");
            }
        }
    }
}

#[test]
fn tensors_have_any_rank_and_layout() {
    let device = Device::flex();
    let numbers: Vec<f32> = (0..60).map(|i| i as f32 - 30.0).collect();
    let x = Tensor::<3>::from_data(TensorData::new(numbers, [3, 4, 5]), &device);
    let flat = values(run(true, x.clone().reshape([60]), 20.0));
    assert_eq!(values(run(true, x.clone(), 20.0)), flat);
    let turned = run(true, x.clone().swap_dims(0, 2), 20.0);
    assert_eq!(values(turned.swap_dims(0, 2)), flat);
    let part = run(true, x.narrow(1, 1, 2), 20.0);
    assert_eq!(values(part)[..5], flat[5..10]);
    let empty = run(true, Tensor::<2>::zeros([0, 4], &device), 20.0);
    assert_eq!(empty.dims(), [0, 4]);
}

#[test]
fn caps_that_are_not_positive_numbers_are_refused() {
    let x = Tensor::<1>::ones([4], &Device::flex());
    for cap in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e39, 1e-39] {
        let expected = format!(
            "Soft cap: the cap is {cap}, but must be a positive number in the range of f32"
        );
        assert_eq!(refusal(|| fused(x.clone(), cap)), expected);
        assert_eq!(refusal(|| reference(x.clone(), cap)), expected);
    }
}

const KEY: SemanticsKey = SemanticsKey::Softcap(SoftcapKey {});

sites! {
    RIGHT: "npu_fused_softcap", KEY;
    RIGHT_IN_HALF: "npu_fused_softcap", KEY;
    OTHER_CAP: "npu_fused_softcap", KEY;
    NO_CAP: "npu_fused_softcap", KEY;
}

/// Calls a site with logits that are much smaller than the cap, and a backward pass.
fn call(site: &'static Site, dtype: FloatDType, body: fn(Tensor<2>) -> Tensor<2>) {
    let device = Device::flex().autodiff();
    let numbers: Vec<f32> = (0..48).map(|i| (i % 7) as f32 * 0.125 - 0.375).collect();
    let data = TensorData::new(numbers, [6, 8]);
    let x = Tensor::<2>::from_data(data, (&device, DType::from(dtype))).require_grad();
    let y = softcap(At::new(site), x.clone(), 30.0, &mut once(body));
    let dx = x.grad(&y.sum().backward());
    assert!(dx.is_some());
}

/// Live verification finds bodies with another cap by its own rows: the logits of the run are too small to tell.
#[test]
fn bodies_are_verified() {
    let _first = live::scope(Sampling::first());
    for (site, dtype) in [
        (&RIGHT, FloatDType::F32),
        (&RIGHT_IN_HALF, FloatDType::BF16),
    ] {
        call(site, dtype, |x| {
            let dtype = FloatDType::from(x.dtype());
            let x = x.cast(FloatDType::F32);
            ((x / 30.0).tanh() * 30.0).cast(dtype)
        });
        let rows = live::report().rows;
        let row = rows.iter().find(|row| row.site == site.name());
        let row = row.expect("checked");
        assert_eq!((row.checked, row.skipped), (1, 0), "{row:?}");
    }
    type Body = fn(Tensor<2>) -> Tensor<2>;
    let other: Body = |x| (x / 31.0).tanh() * 31.0;
    for (site, body) in [(&OTHER_CAP, other), (&NO_CAP, |x| x)] {
        let why = refusal(|| call(site, FloatDType::F32, body));
        assert!(why.contains(&site.name()), "{why}");
    }
}
