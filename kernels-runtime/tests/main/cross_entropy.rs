//! Tests the cross-entropy of logits: against PyTorch's, at the edges of its numbers, and in live verification.

use crate::comparison::relative_to;
use crate::declared::sites;
use crate::support::{Fixture, values};
use burn::tensor::{DType, Device, Distribution, FloatDType, Int, Tensor, TensorData};
use kernels_runtime::__private::{At, LossNumbers, cross_entropy, once};
use kernels_runtime::live::{self, Sampling};
use kernels_runtime::ops::cross_entropy::{Inputs, Settings, fused, reference};
use kernels_runtime::registry::Site;
use kernels_runtime::semantics::*;
use std::panic::{AssertUnwindSafe, catch_unwind};

const REDUCTIONS: [LossReduction; 3] =
    [LossReduction::Mean, LossReduction::Sum, LossReduction::None];

fn run(inputs: Inputs, settings: Settings, key: CrossEntropyKey, is_fused: bool) -> Tensor<1> {
    match is_fused {
        true => fused(inputs, settings, key).expect("a kernel"),
        false => reference(inputs, settings, key),
    }
}

fn classes(classes: &[i64], device: &Device) -> Tensor<1, Int> {
    Tensor::from_data(TensorData::new(classes.to_vec(), [classes.len()]), device)
}

fn key(reduction: LossReduction) -> CrossEntropyKey {
    CrossEntropyKey {
        reduction,
        cap: LogitCap::None,
    }
}

/// Returns the loss and the gradient of the logits for the gradient 1 of every loss.
fn with_gradient(
    logits: &Tensor<2>,
    targets: &[i64],
    settings: Settings,
    key: CrossEntropyKey,
    is_fused: bool,
) -> [Vec<f64>; 2] {
    let leaf = logits.clone().detach().require_grad();
    let inputs = Inputs {
        logits: leaf.clone(),
        targets: classes(targets, &logits.device().inner()),
    };
    let loss = run(inputs, settings, key, is_fused);
    let grads = loss.clone().sum().backward();
    [
        values(loss),
        values(leaf.grad(&grads).expect("the logits have a gradient")),
    ]
}

/// Checks numbers against exact ones, relative to the largest of them.
fn assert_near(what: &str, got: &[f64], exact: &[f64], tolerance: f64) {
    let error = relative_to(1.0, got, exact);
    assert!(error <= tolerance, "{what}: {error:e}");
}

#[test]
fn losses_and_gradients_are_those_of_torch() {
    let fixture = Fixture::open("cross_entropy");
    let device = Device::flex().autodiff();
    let mut cases = 0;
    for reduction in REDUCTIONS {
        let name = match reduction {
            LossReduction::Mean => "mean",
            LossReduction::Sum => "sum",
            LossReduction::None => "none",
        };
        for case in 0..8 {
            let [smoothed, z, capped] = [4, 2, 1].map(|bit| case & bit != 0);
            let case = format!(
                "{name}.{}{}{}",
                u8::from(smoothed),
                u8::from(z),
                u8::from(capped)
            );
            let settings = Settings {
                ignore_index: 3,
                label_smoothing: if smoothed { 0.1 } else { 0.0 },
                cap: capped.then_some(2.5),
                z_loss: if z { 0.02 } else { 0.0 },
            };
            let cap = if capped {
                LogitCap::Tanh
            } else {
                LogitCap::None
            };
            let key = CrossEntropyKey { reduction, cap };
            for (dtype, tolerance) in [(FloatDType::F64, 1e-14), (FloatDType::F32, 1e-6)] {
                for is_fused in [true, false] {
                    let given = |name: &str| -> Tensor<2> {
                        fixture.tensor::<2>(name, &device).cast(dtype)
                    };
                    let logits = given("logits").detach().require_grad();
                    let inputs = Inputs {
                        logits: logits.clone(),
                        targets: fixture.ints("targets", &device.clone().inner()),
                    };
                    let loss = run(inputs, settings, key, is_fused);
                    assert_eq!(loss.dtype(), DType::from(dtype));
                    let dy: Tensor<1> = fixture.tensor(&format!("{name}.dy"), &device);
                    let grads = (loss.clone() * dy.cast(dtype)).sum().backward();
                    let d_logits = logits.grad(&grads).expect("a gradient");
                    let what = format!("fused {is_fused}, {dtype:?}, {case}");
                    let exact = fixture.values(&format!("{case}.direct"));
                    assert_near(&what, &values(loss), &exact, tolerance);
                    let exact = fixture.values(&format!("{case}.d_logits"));
                    assert_near(&what, &values(d_logits), &exact, tolerance);
                    cases += 1;
                }
            }
        }
    }
    assert_eq!(cases, 96);
}

/// Rows are read in parts; the last may be short. Their order in memory does not matter.
#[test]
fn wide_rows_of_any_layout_are_exact() {
    let device = Device::flex().autodiff();
    let tokens = 5;
    for width in [1, 31, 2047, 2048, 2049, 5000] {
        let random =
            |shape: [usize; 2]| Tensor::<2>::random(shape, Distribution::Normal(2.0, 4.0), &device);
        let contiguous = random([tokens, width]);
        let transposed = random([width, tokens]).swap_dims(0, 1);
        let targets: Vec<i64> = (0..tokens)
            .map(|t| ((t * 37 + width - 1) % width) as i64)
            .collect();
        let settings = Settings {
            label_smoothing: 0.2,
            z_loss: 1e-3,
            ..Settings::default()
        };
        for logits in [contiguous, transposed] {
            for reduction in REDUCTIONS {
                let fused = with_gradient(&logits, &targets, settings, key(reduction), true);
                let exact = logits.clone().cast(FloatDType::F64);
                let exact = with_gradient(&exact, &targets, settings, key(reduction), false);
                for (fused, exact) in fused.iter().zip(&exact) {
                    assert_near(&format!("{width}, {reduction:?}"), fused, exact, 2e-6);
                }
            }
        }
    }
}

/// Logits that are far from zero lose nothing: only differences count.
#[test]
fn a_shift_of_all_logits_changes_nothing() {
    let device = Device::flex().autodiff();
    // Whole numbers, which stay exact when they are moved.
    let numbers: Vec<f32> = (0..6000).map(|i| ((i * 7919) % 23) as f32).collect();
    let logits: Tensor<2> = Tensor::from_data(TensorData::new(numbers, [2, 3000]), &device);
    let settings = Settings {
        label_smoothing: 0.3,
        ..Settings::default()
    };
    let at = |shift: f64| {
        let logits = logits.clone().add_scalar(shift);
        with_gradient(
            &logits,
            &[5, 2999],
            settings,
            key(LossReduction::None),
            true,
        )
    };
    let near = at(0.0);
    for shift in [-1e5, 1e5] {
        for (what, (far, near)) in ["loss", "gradient"].iter().zip(at(shift).iter().zip(&near)) {
            assert_near(what, far, near, 1e-6);
        }
    }
}

/// An ignored token has no loss and no gradient, even if its logits are not finite.
#[test]
fn ignored_tokens_do_not_count() {
    let device = Device::flex().autodiff();
    let logits: Tensor<2> = Tensor::from_floats(
        [
            [1.0, 2.0, 3.0],
            [f32::NAN, f32::INFINITY, f32::NEG_INFINITY],
            [0.5, f32::NEG_INFINITY, -1.0],
        ],
        &device,
    );
    for is_fused in [true, false] {
        for reduction in REDUCTIONS {
            let [loss, gradient] = with_gradient(
                &logits,
                &[2, -100, 0],
                Settings::default(),
                key(reduction),
                is_fused,
            );
            let first = (1.0 + (-1.0_f64).exp() + (-2.0_f64).exp()).ln();
            let last = (1.0 + (-1.5_f64).exp()).ln();
            let expected = match reduction {
                LossReduction::Mean => vec![(first + last) / 2.0],
                LossReduction::Sum => vec![first + last],
                LossReduction::None => vec![first, 0.0, last],
            };
            assert_near(&format!("{reduction:?}"), &loss, &expected, 1e-6);
            assert_eq!(gradient[3..6], [0.0; 3]);
            assert!(gradient.iter().all(|x| x.is_finite()), "{gradient:?}");
            // A class that is masked by -∞ gets none either.
            assert_eq!(gradient[7], 0.0);
        }
    }
}

/// As in PyTorch.
#[test]
fn without_targets_the_mean_is_nan_and_gradients_are_zero() {
    let device = Device::flex().autodiff();
    for (tokens, width) in [(3, 4), (0, 4), (3, 0)] {
        let logits = Tensor::<2>::ones([tokens, width], &device);
        let targets = vec![-100; tokens];
        for is_fused in [true, false] {
            for reduction in REDUCTIONS {
                let [loss, gradient] = with_gradient(
                    &logits,
                    &targets,
                    Settings::default(),
                    key(reduction),
                    is_fused,
                );
                match reduction {
                    LossReduction::Mean => assert!(loss[0].is_nan(), "{loss:?}"),
                    LossReduction::Sum => assert_eq!(loss, [0.0]),
                    LossReduction::None => assert_eq!(loss, vec![0.0; tokens]),
                }
                assert_eq!(gradient, vec![0.0; tokens * width]);
            }
        }
    }
}

#[test]
fn infinities_and_nan_are_seen() {
    let device = Device::flex().autodiff();
    let of = |logits: [f32; 3], is_fused| {
        let logits: Tensor<2> = Tensor::from_floats([logits], &device);
        let key = key(LossReduction::Sum);
        with_gradient(&logits, &[1], Settings::default(), key, is_fused)[0][0]
    };
    for is_fused in [true, false] {
        assert!(of([0.0, 1.0, f32::NAN], is_fused).is_nan());
        assert!(of([0.0, 1.0, f32::INFINITY], is_fused).is_nan());
        assert_eq!(of([0.0, f32::NEG_INFINITY, 1.0], is_fused), f64::INFINITY);
        assert!(of([f32::NEG_INFINITY; 3], is_fused).is_nan());
    }
}

fn message(run: impl FnOnce() -> Tensor<1>) -> String {
    let panic = catch_unwind(AssertUnwindSafe(run)).expect_err("it panics");
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
        .expect("a message")
}

#[test]
fn operands_that_do_not_fit_are_sentences() {
    let device = Device::flex();
    let logits = Tensor::<2>::ones([3, 4], &device);
    let plain = Settings::default();
    let mean = key(LossReduction::Mean);
    let capped = CrossEntropyKey {
        cap: LogitCap::Tanh,
        ..mean
    };
    let with = |change: fn(&mut Settings)| {
        let mut settings = plain;
        change(&mut settings);
        settings
    };
    let good: &[i64] = &[0, 1, -100];
    let cases: [(&[i64], Settings, CrossEntropyKey, &str); 9] = [
        (
            &[0, 4, 1],
            plain,
            mean,
            "Cross-entropy: token 1 has the target 4, but there are 4 classes; only -100, the ignored index, may be \
             another number",
        ),
        (
            &[0, 1, -1],
            plain,
            mean,
            "token 2 has the target -1, but there are 4 classes",
        ),
        (
            &[0, 1, -100],
            with(|settings| settings.ignore_index = 7),
            mean,
            "token 2 has the target -100, but there are 4 classes; only 7",
        ),
        (
            &[0, 1],
            plain,
            mean,
            "Cross-entropy: there are 2 targets, but 3 tokens",
        ),
        (
            good,
            plain,
            capped,
            "a cap is missing, but the semantics are cross_entropy(reduction=mean, cap=tanh)",
        ),
        (
            good,
            with(|settings| settings.cap = Some(1.0)),
            mean,
            "a cap is given, but the semantics are",
        ),
        (
            good,
            with(|settings| settings.cap = Some(0.0)),
            capped,
            "the cap is 0, but must be",
        ),
        (
            good,
            with(|settings| settings.label_smoothing = f64::NAN),
            mean,
            "the label smoothing is NaN, but must be from 0 to 1",
        ),
        (
            good,
            with(|settings| settings.z_loss = f64::INFINITY),
            mean,
            "the factor of the z-loss is inf, but must be a finite number",
        ),
    ];
    for (targets, settings, key, expected) in cases {
        for is_fused in [true, false] {
            let inputs = Inputs {
                logits: logits.clone(),
                targets: classes(targets, &device),
            };
            let said = message(|| run(inputs, settings, key, is_fused));
            assert!(said.contains(expected), "{said}");
        }
    }
}

/// An ignored index that is also a class is ignored.
#[test]
fn a_class_may_be_the_ignored_index() {
    let device = Device::flex().autodiff();
    let logits = Tensor::<2>::from_floats([[1.0, 2.0], [3.0, 5.0]], &device);
    let settings = Settings {
        ignore_index: 1,
        ..Settings::default()
    };
    for is_fused in [true, false] {
        let key = key(LossReduction::None);
        let [loss, gradient] = with_gradient(&logits, &[1, 0], settings, key, is_fused);
        assert_eq!(loss[0], 0.0);
        assert_eq!(gradient[..2], [0.0; 2]);
        assert!(loss[1] > 2.0);
    }
}

const MEAN: SemanticsKey = SemanticsKey::CrossEntropy(CrossEntropyKey::MEAN);
const EACH: SemanticsKey = SemanticsKey::CrossEntropy(CrossEntropyKey {
    reduction: LossReduction::None,
    cap: LogitCap::None,
});

sites! {
    MEAN_RIGHT: "npu_fused_cross_entropy", MEAN;
    MEAN_SMOOTHED: "npu_fused_cross_entropy", MEAN;
    EACH_RIGHT: "npu_fused_cross_entropy", EACH;
    EACH_SMOOTHED: "npu_fused_cross_entropy", EACH;
}

/// A body that computes something else is found, with a reduction and without.
#[test]
fn live_verification_finds_another_loss() {
    let device = Device::flex().autodiff();
    let _checked = live::scope(Sampling::first());
    let numbers = Tensor::<2>::random([12, 9], Distribution::Normal(0.0, 2.0), &device);
    let numbers_of_classes: Vec<i64> = (0..12).map(|token| token % 9).collect();
    for (right, smoothed, reduction) in [
        (&MEAN_RIGHT, &MEAN_SMOOTHED, LossReduction::Mean),
        (&EACH_RIGHT, &EACH_SMOOTHED, LossReduction::None),
    ] {
        let call = |site: &'static Site, label_smoothing: f64| {
            let targets = classes(&numbers_of_classes, &device.clone().inner());
            let mut body = once(move |(logits, targets)| {
                let settings = Settings {
                    label_smoothing,
                    ..Settings::default()
                };
                reference(Inputs { logits, targets }, settings, key(reduction))
            });
            let logits = numbers.clone().require_grad();
            cross_entropy(
                At::new(site),
                logits,
                targets,
                LossNumbers::default(),
                &mut body,
            )
        };
        drop(call(right, 0.0));
        let said = message(|| call(smoothed, 0.1));
        assert!(
            said.contains("the annotated body is the odd one out"),
            "{said}"
        );
    }
}
