//! Tests the cross-entropy of hidden states and output weights: against PyTorch's, between kernel and reference at sizes
//! around the blocks, at the edges, in live verification, and its memory.

use crate::comparison::relative_to;
use crate::declared::sites;
use crate::support::{Fixture, values};
use burn::tensor::{DType, Device, Distribution, FloatDType, Int, Tensor, TensorData};
use kernels_runtime::__private::{At, LossNumbers, linear_cross_entropy, once};
use kernels_runtime::live::{self, Sampling};
use kernels_runtime::ops::linear_cross_entropy::{Inputs, Settings, fused, reference};
use kernels_runtime::registry::Site;
use kernels_runtime::semantics::*;
use std::panic::{AssertUnwindSafe, catch_unwind};

const REDUCTIONS: [LossReduction; 3] =
    [LossReduction::Mean, LossReduction::Sum, LossReduction::None];
const LAYOUTS: [OutputLayout; 2] = [OutputLayout::OutputMajor, OutputLayout::InputMajor];

fn run(
    inputs: Inputs,
    settings: Settings,
    key: LinearCrossEntropyKey,
    is_fused: bool,
) -> Tensor<1> {
    match is_fused {
        true => fused(inputs, settings, key).expect("a kernel"),
        false => reference(inputs, settings, key),
    }
}

fn classes(classes: &[i64], device: &Device) -> Tensor<1, Int> {
    Tensor::from_data(TensorData::new(classes.to_vec(), [classes.len()]), device)
}

fn random<const D: usize>(shape: [usize; D], size: f64, device: &Device) -> Tensor<D> {
    Tensor::random(shape, Distribution::Normal(0.0, size), device)
}

/// Returns the weight in a layout. The given one is `[classes, width]`.
fn laid_out(weight: &Tensor<2>, layout: OutputLayout) -> Tensor<2> {
    match layout {
        OutputLayout::OutputMajor => weight.clone(),
        OutputLayout::InputMajor => weight.clone().swap_dims(0, 1),
    }
}

fn assert_near(what: &str, got: &[f64], exact: &[f64], tolerance: f64) {
    // Terms of the size of a probability cancel in a gradient.
    let error = relative_to(1e-2, got, exact);
    assert!(error <= tolerance, "{what}: {error:e}");
}

#[test]
fn losses_and_gradients_are_those_of_torch() {
    let fixture = Fixture::open("cross_entropy");
    let device = Device::flex().autodiff();
    let mut cases = 0;
    for (reduction, name) in REDUCTIONS.into_iter().zip(["mean", "sum", "none"]) {
        for case in 0..8 {
            let [smoothed, z, capped] = [4, 2, 1].map(|bit| case & bit != 0);
            let bits = [smoothed, z, capped].map(u8::from);
            let case = format!("{name}.{}{}{}", bits[0], bits[1], bits[2]);
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
            for (dtype, tolerance) in [(FloatDType::F64, 1e-13), (FloatDType::F32, 2e-6)] {
                for (is_fused, layout) in [true, false].into_iter().zip(LAYOUTS.repeat(2)) {
                    let key = LinearCrossEntropyKey {
                        reduction,
                        cap,
                        layout,
                        shift: Shift::Bias,
                    };
                    let leaf = |tensor: Tensor<2>| tensor.cast(dtype).detach().require_grad();
                    let hidden = leaf(fixture.tensor("hidden", &device));
                    let weight = leaf(fixture.tensor("weight", &device));
                    let bias: Tensor<1> = fixture.tensor("bias", &device);
                    let bias = bias.cast(dtype).detach().require_grad();
                    let inputs = Inputs {
                        hidden: hidden.clone(),
                        weight: laid_out(&weight, layout),
                        bias: Some(bias.clone()),
                        targets: fixture.ints("targets", &device.clone().inner()),
                    };
                    let loss = run(inputs, settings, key, is_fused);
                    assert_eq!(loss.dtype(), DType::from(dtype));
                    let dy: Tensor<1> = fixture.tensor(&format!("{name}.dy"), &device);
                    let grads = (loss.clone() * dy.cast(dtype)).sum().backward();
                    for (result, got) in [
                        ("linear", values(loss)),
                        ("d_hidden", values(hidden.grad(&grads).expect("a gradient"))),
                        ("d_weight", values(weight.grad(&grads).expect("a gradient"))),
                        ("d_bias", values(bias.grad(&grads).expect("a gradient"))),
                    ] {
                        let what = format!("fused {is_fused}, {dtype:?}, {case} {result}");
                        let exact = fixture.values(&format!("{case}.{result}"));
                        assert_near(&what, &got, &exact, tolerance);
                    }
                    cases += 1;
                }
            }
        }
    }
    assert_eq!(cases, 96);
}

/// The operands of a call whose tensors are leaves.
struct Leaves {
    hidden: Tensor<2>,
    weight: Tensor<2>,
    bias: Tensor<1>,
    targets: Vec<i64>,
}

impl Leaves {
    fn new([tokens, width, count]: [usize; 3], device: &Device) -> Self {
        let class = |token: usize| match token % 3 {
            1 => -100,
            _ => (token * 7919 % count) as i64,
        };
        Self {
            hidden: random([tokens, width], 1.0, device),
            weight: random([count, width], 2.0 / (width as f64).sqrt(), device),
            bias: random([count], 0.5, device),
            targets: (0..tokens).map(class).collect(),
        }
    }

    /// Returns the loss and the gradients of hidden states, weight and bias. The gradient of the loss is its own number.
    fn run(
        &self,
        dtype: FloatDType,
        settings: Settings,
        key: LinearCrossEntropyKey,
        is_fused: bool,
    ) -> [Vec<f64>; 4] {
        let hidden = self.hidden.clone().cast(dtype).detach().require_grad();
        let weight = self.weight.clone().cast(dtype).detach().require_grad();
        let bias = self.bias.clone().cast(dtype).detach().require_grad();
        let inputs = Inputs {
            hidden: hidden.clone(),
            weight: laid_out(&weight, key.layout),
            bias: (key.shift == Shift::Bias).then(|| bias.clone()),
            targets: classes(&self.targets, &hidden.device().inner()),
        };
        let loss = run(inputs, settings, key, is_fused);
        let grads = (loss.clone().square() * 0.5).sum().backward();
        let of = |gradient: Option<Tensor<2>>| values(gradient.expect("a gradient"));
        [
            values(loss),
            of(hidden.grad(&grads)),
            of(weight.grad(&grads)),
            bias.grad(&grads).map(values).unwrap_or_default(),
        ]
    }
}

/// Sizes around the blocks of classes, the groups and the chunks of tokens.
#[test]
fn every_size_is_exact() {
    let device = Device::flex().autodiff();
    let settings = Settings {
        label_smoothing: 0.1,
        z_loss: 1e-3,
        ..Settings::default()
    };
    for sizes in [
        [1, 1, 1],
        [3, 7, 63],
        [20, 16, 255],
        [20, 33, 257],
        [5, 8, 1000],
        [90, 64, 5000],
        [1700, 5, 40],
        // Groups of so many classes have two blocks.
        [5, 3, 70_000],
    ] {
        let leaves = Leaves::new(sizes, &device);
        for reduction in REDUCTIONS {
            for (layout, shift) in LAYOUTS.into_iter().zip([Shift::Bias, Shift::None]) {
                let key = LinearCrossEntropyKey {
                    reduction,
                    layout,
                    shift,
                    ..LinearCrossEntropyKey::MEAN
                };
                let exact = leaves.run(FloatDType::F64, settings, key, false);
                let kernel = leaves.run(FloatDType::F64, settings, key, true);
                let f32 = leaves.run(FloatDType::F32, settings, key, true);
                for result in 0..4 {
                    let what = format!("{sizes:?}, {key}, result {result}");
                    if exact[result].is_empty() {
                        assert!(
                            kernel[result].is_empty() && f32[result].is_empty(),
                            "{what}"
                        );
                        continue;
                    }
                    assert_near(&what, &kernel[result], &exact[result], 1e-12);
                    assert_near(&what, &f32[result], &exact[result], 3e-5);
                }
            }
        }
    }
}

/// Gradients of half types are summed in f32 and rounded once, whatever the loss is multiplied by. With few tokens beside
/// the width, the gradient of the logits may be kept in place of the weight's; the last sizes have two chunks of tokens.
#[test]
fn half_types_are_rounded_once() {
    let device = Device::flex().autodiff();
    for sizes in [[300, 32, 700], [90, 64, 5001], [1700, 850, 301]] {
        let leaves = Leaves::new(sizes, &device);
        for (dtype, rounding) in [
            (FloatDType::BF16, 2.0_f64.powi(-8)),
            (FloatDType::F16, 2.0_f64.powi(-11)),
        ] {
            if dtype == FloatDType::F16 && sizes[0] > 1000 {
                // Gradients of so large a sum are beyond its range.
                continue;
            }
            let rounded = Leaves {
                hidden: leaves.hidden.clone().cast(dtype),
                weight: leaves.weight.clone().cast(dtype),
                bias: leaves.bias.clone().cast(dtype),
                targets: leaves.targets.clone(),
            };
            for (reduction, layout) in REDUCTIONS.into_iter().zip(LAYOUTS.into_iter().cycle()) {
                let key = LinearCrossEntropyKey {
                    reduction,
                    layout,
                    shift: Shift::Bias,
                    ..LinearCrossEntropyKey::MEAN
                };
                let got = rounded.run(dtype, Settings::default(), key, true);
                let exact = rounded.run(FloatDType::F64, Settings::default(), key, false);
                assert_near("loss", &got[0], &exact[0], 1e-5);
                for result in 1..4 {
                    let what = format!("{sizes:?}, {dtype:?}, {reduction:?}, result {result}");
                    assert_near(&what, &got[result], &exact[result], 2.0 * rounding);
                }
            }
        }
    }
}

#[test]
fn only_tracked_tensors_get_gradients() {
    let device = Device::flex().autodiff();
    let leaves = Leaves::new([9, 4, 11], &device);
    for reduction in REDUCTIONS {
        for [of_hidden, of_weight] in [[true, false], [false, true], [false, false]] {
            let tracked = |tensor: &Tensor<2>, is_tracked| match is_tracked {
                true => tensor.clone().require_grad(),
                false => tensor.clone(),
            };
            let hidden = tracked(&leaves.hidden, of_hidden);
            let weight = tracked(&leaves.weight, of_weight);
            let inputs = Inputs {
                hidden: hidden.clone(),
                weight: weight.clone(),
                bias: None,
                targets: classes(&leaves.targets, &device.clone().inner()),
            };
            let key = LinearCrossEntropyKey {
                reduction,
                ..LinearCrossEntropyKey::MEAN
            };
            let loss = run(inputs, Settings::default(), key, true);
            assert_eq!(loss.is_tracked(), of_hidden || of_weight);
            if !loss.is_tracked() {
                continue;
            }
            let grads = loss.sum().backward();
            let all = leaves.run(FloatDType::F32, Settings::default(), key, false);
            assert_eq!(hidden.grad(&grads).is_some(), of_hidden);
            assert_eq!(weight.grad(&grads).is_some(), of_weight);
            assert!(all[0].iter().all(|loss| loss.is_finite()));
        }
    }
}

/// The gradient of each token's hidden state is kept in the forward pass, and multiplied by that of the token's loss.
#[test]
fn losses_of_tokens_have_gradients_with_a_frozen_weight() {
    let (device, inner) = (Device::flex().autodiff(), Device::flex());
    const TOKENS: usize = 67;
    const CLASSES: usize = 190;
    let targets = |token: usize| match token % 9 {
        4 => -100,
        _ => (token * 31 % CLASSES) as i64,
    };
    let targets: Vec<i64> = (0..TOKENS).map(targets).collect();
    for (dtype, tolerance) in [
        (FloatDType::F64, 1e-12),
        (FloatDType::F32, 1e-5),
        (FloatDType::BF16, 0.02),
        (FloatDType::F16, 4e-3),
    ] {
        for layout in LAYOUTS {
            let hidden = random([TOKENS, 24], 1.0, &inner).cast(dtype);
            let weight = laid_out(&random([CLASSES, 24], 1.0, &inner).cast(dtype), layout);
            let bias = random([CLASSES], 1.0, &inner).cast(dtype);
            // That of an ignored token doesn't count, whatever it is.
            let factor = |token: usize| match token {
                4 => f64::INFINITY,
                13 => f64::NAN,
                _ => (token as f64 * 0.7).sin() * 3.0,
            };
            let factors: Vec<f64> = (0..TOKENS).map(factor).collect();
            let key = LinearCrossEntropyKey {
                reduction: LossReduction::None,
                layout,
                shift: Shift::Bias,
                ..LinearCrossEntropyKey::MEAN
            };
            let gradient = |dtype: FloatDType, is_fused: bool| {
                let of = |tensor: &Tensor<2>| tensor.clone().cast(dtype).autodiff();
                let hidden = of(&hidden).require_grad();
                let inputs = Inputs {
                    hidden: hidden.clone(),
                    weight: of(&weight),
                    bias: Some(bias.clone().cast(dtype).autodiff()),
                    targets: classes(&targets, &inner),
                };
                let loss = run(inputs, Settings::default(), key, is_fused);
                let counts = |(at, factor): (usize, &f64)| match (is_fused, at % 9) {
                    // The reference multiplies zeros.
                    (false, 4) => 0.0,
                    _ => *factor,
                };
                let factors: Vec<f64> = factors.iter().enumerate().map(counts).collect();
                let data = TensorData::new(factors, [TOKENS]);
                let factors = Tensor::<1>::from_data(data, (&device, loss.dtype()));
                let grads = (loss * factors).sum().backward();
                hidden.grad(&grads).expect("a gradient")
            };
            let found = gradient(dtype, true);
            assert_eq!(found.dtype(), dtype.into());
            let exact = values(gradient(FloatDType::F64, false));
            let what = format!("{dtype:?}, {layout:?}");
            assert_near(&what, &values(found), &exact, tolerance);
        }
    }
}

/// As in PyTorch: the mean is NaN, and gradients are zero.
#[test]
fn without_targets_or_elements_gradients_are_zero() {
    let device = Device::flex().autodiff();
    for [tokens, width, count] in [[3, 2, 4], [0, 2, 4], [3, 0, 4], [3, 2, 0]] {
        for reduction in REDUCTIONS {
            for is_fused in [true, false] {
                let hidden = Tensor::<2>::ones([tokens, width], &device).require_grad();
                let weight = Tensor::<2>::ones([count, width], &device).require_grad();
                let inputs = Inputs {
                    hidden: hidden.clone(),
                    weight: weight.clone(),
                    bias: None,
                    targets: classes(&vec![-100; tokens], &device.clone().inner()),
                };
                let key = LinearCrossEntropyKey {
                    reduction,
                    ..LinearCrossEntropyKey::MEAN
                };
                let loss = run(inputs, Settings::default(), key, is_fused);
                let grads = loss.clone().sum().backward();
                match reduction {
                    LossReduction::Mean => assert!(values(loss)[0].is_nan()),
                    LossReduction::Sum => assert_eq!(values(loss), [0.0]),
                    LossReduction::None => assert_eq!(values(loss), vec![0.0; tokens]),
                }
                let d_hidden = values(hidden.grad(&grads).expect("a gradient"));
                assert_eq!(
                    d_hidden,
                    vec![0.0; tokens * width],
                    "{is_fused} {reduction:?}"
                );
                let d_weight = values(weight.grad(&grads).expect("a gradient"));
                assert_eq!(
                    d_weight,
                    vec![0.0; count * width],
                    "{is_fused} {reduction:?}"
                );
            }
        }
    }
}

/// Without elements, each class has the logit of its bias, or 0, whatever the memory of products held.
#[test]
fn hidden_states_without_elements_have_equal_classes() {
    let device = Device::flex().autodiff();
    for dtype in [
        FloatDType::F64,
        FloatDType::F32,
        FloatDType::BF16,
        FloatDType::F16,
    ] {
        for tokens in [2, 20, 40] {
            for is_fused in [true, false] {
                let of = |rows: usize| Tensor::<2>::ones([rows, 0], &device).cast(dtype);
                let hidden = of(tokens).detach().require_grad();
                let targets: Vec<i64> = (0..tokens as i64).map(|token| token % 8).collect();
                let inputs = Inputs {
                    hidden: hidden.clone(),
                    weight: of(8).detach().require_grad(),
                    bias: None,
                    targets: classes(&targets, &device.clone().inner()),
                };
                let key = LinearCrossEntropyKey::MEAN;
                let loss = run(inputs, Settings::default(), key, is_fused);
                let gradient = hidden.grad(&loss.backward()).expect("a gradient");
                assert_eq!(gradient.dims(), [tokens, 0]);
                let loss = values(loss)[0];
                assert!(
                    (loss - 8.0_f64.ln()).abs() < 1e-6,
                    "{dtype:?}, {tokens} tokens: {loss}"
                );
            }
        }
    }
}

#[test]
fn results_do_not_depend_on_the_number_of_threads() {
    let device = Device::flex().autodiff();
    for sizes in [[150, 32, 3000], [150, 80, 3000]] {
        let leaves = Leaves::new(sizes, &device);
        for dtype in [FloatDType::F32, FloatDType::BF16] {
            let of = |threads: usize| {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
                pool.expect("threads").install(|| {
                    let key = LinearCrossEntropyKey::MEAN;
                    leaves.run(dtype, Settings::default(), key, true)
                })
            };
            assert_eq!(of(1), of(3), "{sizes:?}, {dtype:?}");
        }
    }
}

/// A sliced weight, of which no axis is contiguous, is copied first.
#[test]
fn strided_operands_are_exact() {
    let device = Device::flex();
    let hidden = random([24, 20], 1.0, &device)
        .swap_dims(0, 1)
        .narrow(1, 3, 9);
    let weight = random([50, 9, 2], 1.0, &device)
        .narrow(2, 1, 1)
        .reshape([50, 9]);
    let strided: Tensor<2> = random([9, 50], 1.0, &device).swap_dims(0, 1);
    for weight in [weight, strided] {
        let inputs = || Inputs {
            hidden: hidden.clone(),
            weight: weight.clone(),
            bias: None,
            targets: classes(&[1; 20], &device),
        };
        let key = LinearCrossEntropyKey::MEAN;
        let [fused, plain] =
            [true, false].map(|is_fused| values(run(inputs(), Settings::default(), key, is_fused)));
        assert_near("loss", &fused, &plain, 1e-6);
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
    let good = Inputs {
        hidden: Tensor::ones([3, 4], &device),
        weight: Tensor::ones([5, 4], &device),
        bias: None,
        targets: classes(&[0, 4, -100], &device),
    };
    let key = LinearCrossEntropyKey::MEAN;
    let shifted = LinearCrossEntropyKey {
        shift: Shift::Bias,
        ..key
    };
    let input_major = LinearCrossEntropyKey {
        layout: OutputLayout::InputMajor,
        ..key
    };
    let with = |change: &dyn Fn(&mut Inputs)| {
        let mut inputs = good.clone();
        change(&mut inputs);
        inputs
    };
    for (inputs, key, expected) in [
        (
            with(&|inputs| inputs.targets = classes(&[0, 5, 1], &device)),
            key,
            "Linear cross-entropy: token 1 has the target 5, but there are 5 classes; only -100, the ignored index, \
             may be another number",
        ),
        (
            with(&|inputs| inputs.targets = classes(&[0, 5], &device)),
            key,
            "Linear cross-entropy: there are 2 targets, but 3 tokens",
        ),
        (
            good.clone(),
            input_major,
            "Linear cross-entropy: the weight, [5, 4], takes 5 elements with linear_cross_entropy(reduction=mean, \
             layout=input_major), but hidden states have 4",
        ),
        (
            good.clone(),
            shifted,
            "Linear cross-entropy: a bias is missing, but the semantics are linear_cross_entropy(reduction=mean, \
             shift=bias)",
        ),
        (
            with(&|inputs| inputs.bias = Some(Tensor::ones([4], &device))),
            shifted,
            "Linear cross-entropy: the bias has 4 elements, but there are 5 classes",
        ),
    ] {
        for is_fused in [true, false] {
            let said = message(|| run(inputs.clone(), Settings::default(), key, is_fused));
            assert_eq!(said, expected);
        }
    }
}

const MEAN: SemanticsKey = SemanticsKey::LinearCrossEntropy(LinearCrossEntropyKey::MEAN);

sites! {
    RIGHT: "npu_fused_linear_cross_entropy", MEAN;
    FEW: "npu_fused_linear_cross_entropy", MEAN;
    SMOOTHED: "npu_fused_linear_cross_entropy", MEAN;
}

/// A check compares some tokens and some classes, so that neither reference nor body holds all logits.
#[test]
fn live_verification_takes_some_tokens_and_classes() {
    let device = Device::flex().autodiff();
    let _checked = live::scope(Sampling::first());
    let (many, few) = (
        Leaves::new([60, 8, 900], &device),
        Leaves::new([2, 8, 900], &device),
    );
    let most = std::cell::Cell::new([0; 2]);
    let call = |site: &'static Site, leaves: &Leaves, label_smoothing: f64| {
        let mut body = once(|(hidden, weight, targets): (Tensor<2>, Tensor<2>, _)| {
            most.set([hidden.dims()[0], weight.dims()[0]]);
            let settings = Settings {
                label_smoothing,
                ..Settings::default()
            };
            let inputs = Inputs {
                hidden,
                weight,
                bias: None,
                targets,
            };
            reference(inputs, settings, LinearCrossEntropyKey::MEAN)
        });
        let flowing = (
            leaves.hidden.clone().require_grad(),
            leaves.weight.clone().require_grad(),
            classes(&leaves.targets, &device.clone().inner()),
        );
        linear_cross_entropy(At::new(site), flowing, LossNumbers::default(), &mut body)
    };
    for (site, leaves) in [(&RIGHT, &many), (&FEW, &few)] {
        drop(call(site, leaves, 0.0));
        let [tokens, of_classes] = most.get();
        assert!((2..10).contains(&tokens), "{tokens}");
        assert!((50..90).contains(&of_classes), "{of_classes}");
    }
    let said = message(|| call(&SMOOTHED, &many, 0.1));
    assert!(
        said.contains("the annotated body is the odd one out"),
        "{said}"
    );
}

/// The mean of no losses is NaN, and so may be the gradient that reaches it.
#[test]
fn ignored_tokens_have_no_gradient_whatever_that_of_the_loss_is() {
    let device = Device::flex().autodiff();
    for (targets, factor) in [([-100; 3], f32::NAN), ([1, -100, 0], f32::INFINITY)] {
        for (dtype, reduction) in [DType::F32, DType::BF16]
            .into_iter()
            .flat_map(|dtype| REDUCTIONS.map(|reduction| (dtype, reduction)))
        {
            let of = |shape: [usize; 2]| {
                let tensor = random(shape, 1.0, &device).cast(FloatDType::from(dtype));
                tensor.detach().require_grad()
            };
            let (hidden, weight) = (of([3, 8]), of([5, 8]));
            let inputs = Inputs {
                hidden: hidden.clone(),
                weight: weight.clone(),
                bias: None,
                targets: classes(&targets, &device),
            };
            let key = LinearCrossEntropyKey {
                reduction,
                ..LinearCrossEntropyKey::MEAN
            };
            let loss = run(inputs, Settings::default(), key, true);
            let gradients = (loss * factor).sum().backward();
            let of = |leaf: &Tensor<2>| leaf.grad(&gradients).expect("it is tracked");
            let what = format!("{dtype:?}, {reduction:?}, {factor}");
            let ignored = of(&hidden).narrow(0, 1, 1).into_data();
            assert!(ignored.iter::<f64>().all(|x| x == 0.0), "{what}");
            if targets == [-100; 3] {
                let all = [of(&hidden), of(&weight)].map(Tensor::into_data);
                assert!(
                    all.iter().all(|all| all.iter::<f64>().all(|x| x == 0.0)),
                    "{what}"
                );
            }
        }
    }
}
