//! Tests the divergence of a student's tokens from a teacher's: kernel and reference in f64 at sizes around the blocks, what is
//! frozen, padding, infinite numbers of tokens, refusals, and live verification of right and wrong bodies.

use crate::comparison::{difference, relative_to};
use crate::declared::sites;
use crate::support::values;
use burn::tensor::{DType, Device, Distribution, FloatDType, Tensor};
use kernels_runtime::__private::{At, DivergenceNumbers, linear_divergence, once};
use kernels_runtime::live::{self, Sampling};
use kernels_runtime::ops::linear_divergence::{Inputs, Settings, fused, reference};
use kernels_runtime::registry::Site;
use kernels_runtime::semantics::*;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The mixtures of each form, and of ones near the ends.
const MIXTURES: [f64; 5] = [0.0, 1.0, 0.5, 0.01, 0.9];

fn random<const D: usize>(shape: [usize; D], size: f64, device: &Device) -> Tensor<D> {
    Tensor::random(shape, Distribution::Normal(0.0, size), device)
}

/// Operands in f64, rounded to f16 and bf16.
struct Given {
    inputs: Inputs,
    settings: Settings,
    key: LinearDivergenceKey,
}

/// Sizes: tokens, widths and classes of student and teacher.
fn given(tokens: usize, widths: [usize; 2], classes: [usize; 2], settings: Settings) -> Given {
    let device = Device::flex();
    let rounded = |x: Tensor<2>| {
        let x = x.cast(FloatDType::F16).cast(FloatDType::BF16);
        x.cast(FloatDType::F64)
    };
    let weight = |at: usize| {
        let shape = [classes[at], widths[at]];
        rounded(random(shape, (widths[at] as f64).powf(-0.5), &device)).transpose()
    };
    let hidden = |at: usize| rounded(random([tokens, widths[at]], 1.5, &device));
    let bias = |at: usize| rounded(random([1, classes[at]], 0.3, &device)).squeeze_dim(0);
    let is_biased = settings.temperature != 1.0;
    Given {
        inputs: Inputs {
            hidden: hidden(0),
            weight: weight(0),
            bias: is_biased.then(|| bias(0)),
            teacher_hidden: hidden(1),
            teacher_weight: weight(1),
            teacher_bias: is_biased.then(|| bias(1)),
            factors: random([tokens], 1.0, &device).cast(FloatDType::F32),
        },
        settings,
        key: LinearDivergenceKey {
            shift: if is_biased { Shift::Bias } else { Shift::None },
        },
    }
}

/// The result, and the gradients of hidden states, weight, bias and factors, as far as they are wanted.
struct Found {
    sum: Vec<f64>,
    gradients: [Option<Vec<f64>>; 4],
}

/// Computes in a type. A tensor whose flag is not set is frozen.
fn run(given: &Given, dtype: FloatDType, is_fused: bool, wanted: [bool; 4]) -> Found {
    let wide = match dtype {
        FloatDType::F64 => FloatDType::F64,
        _ => FloatDType::F32,
    };
    fn leaf<const D: usize>(x: &Tensor<D>, dtype: FloatDType, wanted: bool) -> Tensor<D> {
        let x = x.clone().cast(dtype).autodiff();
        if wanted { x.require_grad() } else { x }
    }
    let of = &given.inputs;
    let hidden = leaf(&of.hidden, dtype, wanted[0]);
    let weight = leaf(&of.weight, dtype, wanted[1]);
    let bias = of.bias.as_ref().map(|bias| leaf(bias, dtype, wanted[2]));
    let factors = leaf(&of.factors, wide, wanted[3]);
    let inputs = Inputs {
        hidden: hidden.clone(),
        weight: weight.clone(),
        bias: bias.clone(),
        teacher_hidden: leaf(&of.teacher_hidden, dtype, false),
        teacher_weight: leaf(&of.teacher_weight, dtype, false),
        teacher_bias: of
            .teacher_bias
            .as_ref()
            .map(|bias| leaf(bias, dtype, false)),
        factors: factors.clone(),
    };
    let sum = match is_fused {
        true => fused(inputs, given.settings, given.key).expect("a kernel"),
        false => reference(inputs, given.settings, given.key),
    };
    assert_eq!(sum.dtype(), DType::from(wide));
    if !wanted.contains(&true) {
        return Found {
            sum: values(sum),
            gradients: Default::default(),
        };
    }
    let gradients = (sum.clone() * 0.75).sum().backward();
    let gradients = [
        hidden.grad(&gradients).map(values),
        weight.grad(&gradients).map(values),
        bias.and_then(|bias| bias.grad(&gradients)).map(values),
        factors.grad(&gradients).map(values),
    ];
    Found {
        sum: values(sum),
        gradients,
    }
}

/// Settings of a mixture, plain or with everything.
fn settings(mixture: f64, with_all: bool) -> Settings {
    match with_all {
        false => Settings::of_mixture(mixture),
        true => Settings {
            mixture,
            temperature: 1.7,
            cap: Some(3.0),
            teacher_cap: Some(2.0),
        },
    }
}

#[test]
fn sizes_around_the_blocks_are_those_of_f64() {
    let plain = [(1, [1, 1], [1, 1]), (3, [5, 7], [17, 17])];
    // Several groups, of several blocks, and padding of either.
    let large = [
        (9, [16, 24], [2_100, 2_113]),
        (70, [8, 3], [4_300, 4_200]),
        (130, [33, 20], [65, 64]),
    ];
    let sizes = plain.into_iter().chain(large);
    for (at, (tokens, widths, classes)) in sizes.enumerate() {
        for (mixture, with_all) in [(0.0, true), (1.0, false), (0.5, true), (0.1, false)] {
            let given = given(tokens, widths, classes, settings(mixture, with_all));
            let wanted = [true; 4];
            let exact = run(&given, FloatDType::F64, false, wanted);
            for (dtype, tolerance) in [
                (FloatDType::F64, 1e-12),
                (FloatDType::F32, 1e-5),
                // Gradients of logits are rounded for products, and gradients once.
                (FloatDType::BF16, 1.0 / 128.0),
                (FloatDType::F16, 1.0 / 1024.0),
            ] {
                let found = run(&given, dtype, true, wanted);
                let what = format!("case {at}, mixture {mixture}, {dtype:?}");
                let error = relative_to(tokens as f64, &found.sum, &exact.sum);
                assert!(error < f64::min(tolerance, 1e-5), "{what}, sum: {error:e}");
                let names = ["hidden", "weight", "bias", "factors"];
                for (name, (found, exact)) in names
                    .iter()
                    .zip(found.gradients.iter().zip(&exact.gradients))
                {
                    let (Some(found), Some(exact)) = (found, exact) else {
                        assert!(
                            found.is_none() && exact.is_none() && !with_all,
                            "{what}, {name}"
                        );
                        continue;
                    };
                    let error = relative_to(1e-3, found, exact);
                    assert!(error < tolerance, "{what}, {name}: {error:e}");
                }
            }
        }
    }
}

/// More tokens than a chunk has are those of calls of their own.
#[test]
fn chunks_of_tokens_are_those_of_separate_calls() {
    let (tokens, first) = (67, 40);
    let all = given(tokens, [4, 3], [140_000, 140_000], settings(0.5, false));
    let part = |start: usize, count: usize| {
        let of = &all.inputs;
        let inputs = Inputs {
            hidden: of.hidden.clone().narrow(0, start, count),
            teacher_hidden: of.teacher_hidden.clone().narrow(0, start, count),
            factors: of.factors.clone().narrow(0, start, count),
            ..of.clone()
        };
        let given = Given { inputs, ..all };
        run(&given, FloatDType::F32, true, [true, true, false, true])
    };
    let whole = part(0, tokens);
    let parts = [part(0, first), part(first, tokens - first)];
    let sum = parts[0].sum[0] + parts[1].sum[0];
    assert!(relative_to(1.0, &whole.sum, &[sum]) < 1e-5);
    let gradient = |of: &Found, at: usize| of.gradients[at].clone().expect("wanted");
    for at in [0, 3] {
        let both = parts.iter().flat_map(|part| gradient(part, at));
        let error = relative_to(1e-3, &gradient(&whole, at), &both.collect::<Vec<_>>());
        assert!(error < 1e-5, "{at}: {error:e}");
    }
    let [one, two] = parts.each_ref().map(|part| gradient(part, 1));
    let both: Vec<f64> = one.iter().zip(&two).map(|(one, two)| one + two).collect();
    let error = relative_to(1e-6, &gradient(&whole, 1), &both);
    assert!(error < 1e-5, "weight: {error:e}");
}

/// Each gradient is the same, whatever else is wanted.
#[test]
fn frozen_tensors_change_no_other_gradient() {
    for mixture in [0.0, 0.3] {
        let given = given(37, [12, 20], [150, 140], settings(mixture, true));
        let all = run(&given, FloatDType::F32, true, [true; 4]);
        for bits in 0..16 {
            let wanted = std::array::from_fn(|at| bits >> at & 1 == 1);
            let found = run(&given, FloatDType::F32, true, wanted);
            assert_eq!(found.sum, all.sum, "{wanted:?}");
            for (at, gradient) in found.gradients.iter().enumerate() {
                let expected = all.gradients[at].as_ref().filter(|_| wanted[at]);
                assert_eq!(gradient.as_ref(), expected, "{wanted:?}, {at}");
            }
        }
    }
}

/// Classes that one vocabulary lacks have no part in the result, and no gradient.
#[test]
fn padding_is_left_out() {
    for mixture in MIXTURES {
        for (classes, both) in [([90, 77], 77), ([77, 90], 77)] {
            let padded = given(11, [6, 9], classes, settings(mixture, true));
            let cut = |weight: &Tensor<2>| weight.clone().narrow(1, 0, both);
            let cut_bias =
                |bias: &Option<Tensor<1>>| bias.clone().map(|bias| bias.narrow(0, 0, both));
            let of = &padded.inputs;
            let trimmed = Given {
                inputs: Inputs {
                    weight: cut(&of.weight),
                    bias: cut_bias(&of.bias),
                    teacher_weight: cut(&of.teacher_weight),
                    teacher_bias: cut_bias(&of.teacher_bias),
                    ..of.clone()
                },
                ..padded
            };
            for is_fused in [true, false] {
                let [found, expected] =
                    [&padded, &trimmed].map(|of| run(of, FloatDType::F64, is_fused, [true; 4]));
                assert!(difference(&found.sum, &expected.sum) < 1e-12);
                let weight = |found: &Found| found.gradients[1].clone().expect("wanted");
                let (found, expected) = (weight(&found), weight(&expected));
                let kept = classes[0].min(both);
                for (row, expected) in found.chunks(classes[0]).zip(expected.chunks(kept)) {
                    assert!(difference(&row[..kept], expected) < 1e-12);
                    assert!(row[kept..].iter().all(|gradient| *gradient == 0.0));
                }
            }
        }
    }
}

/// A student that is its teacher has no divergence, and nothing to learn.
#[test]
fn equal_distributions_have_no_divergence() {
    for mixture in MIXTURES {
        let Given {
            inputs,
            settings,
            key,
        } = given(13, [16, 16], [300, 300], settings(mixture, false));
        let equal = Given {
            inputs: Inputs {
                teacher_hidden: inputs.hidden.clone(),
                teacher_weight: inputs.weight.clone(),
                ..inputs
            },
            settings,
            key,
        };
        let found = run(&equal, FloatDType::F32, true, [true, true, false, false]);
        assert!(found.sum[0].abs() < 1e-5, "{mixture}: {:?}", found.sum);
        for gradient in found.gradients[..2].iter().flatten() {
            assert!(
                gradient.iter().all(|gradient| gradient.abs() < 1e-5),
                "{mixture}"
            );
        }
    }
}

#[test]
fn no_tokens_have_no_divergence() {
    let given = given(0, [4, 3], [6, 6], settings(0.5, true));
    let found = run(&given, FloatDType::F32, true, [true; 4]);
    assert_eq!(found.sum, [0.0]);
    let [hidden, weight, bias, factors] = found.gradients.map(|gradient| gradient.expect("wanted"));
    assert!(hidden.is_empty() && factors.is_empty());
    assert_eq!(weight, [0.0; 24]);
    assert_eq!(bias, [0.0; 6]);
}

#[test]
fn what_does_not_go_together_is_refused() {
    let said = |change: &dyn Fn(&mut Given)| {
        let mut given = given(5, [4, 3], [6, 7], settings(0.5, true));
        change(&mut given);
        let call = || run(&given, FloatDType::F32, true, [false; 4]);
        let panic = catch_unwind(AssertUnwindSafe(call))
            .err()
            .expect("a refusal");
        panic.downcast_ref::<String>().expect("a sentence").clone()
    };
    let device = Device::flex();
    let zeros = |shape: [usize; 2]| Tensor::<2>::zeros(shape, &device);
    type Change<'a> = &'a dyn Fn(&mut Given);
    let changes: [(Change<'_>, &str); 10] = [
        (
            &|of| of.settings.mixture = 1.5,
            "the mixture is 1.5, but must be from 0 to 1",
        ),
        (&|of| of.settings.mixture = f64::NAN, "the mixture is NaN"),
        (&|of| of.settings.temperature = 0.0, "the temperature is 0"),
        (
            &|of| of.settings.teacher_cap = Some(-1.0),
            "the teacher's cap is -1",
        ),
        (
            &|of| of.inputs.weight = zeros([3, 6]),
            "takes 3 elements, but its hidden states have 4",
        ),
        (
            &|of| of.inputs.teacher_hidden = zeros([4, 3]),
            "5 tokens, but the teacher 4",
        ),
        (
            &|of| of.inputs.factors = Tensor::zeros([4], &device),
            "4 factors, but 5 tokens",
        ),
        (
            &|of| of.inputs.bias = Some(Tensor::zeros([7], &device)),
            "7 elements, but there are 6",
        ),
        (
            &|of| of.inputs.teacher_bias = None,
            "a teacher's bias is missing",
        ),
        (
            &|of| {
                of.inputs.teacher_weight = zeros([3, 0]);
                of.inputs.teacher_bias = Some(Tensor::zeros([0], &device));
            },
            "both must have one",
        ),
    ];
    for (change, expected) in changes {
        let said = said(change);
        assert!(
            said.starts_with("Linear divergence: ") && said.contains(expected),
            "{said}"
        );
    }
}

/// Student and teacher in two types are for the body, and the reason says so.
#[test]
fn mixed_types_have_no_kernel() {
    let Given {
        inputs,
        settings,
        key,
    } = given(3, [4, 4], [6, 6], settings(0.0, false));
    let single = |x: Tensor<2>| x.cast(FloatDType::F32);
    let inputs = Inputs {
        hidden: single(inputs.hidden),
        weight: single(inputs.weight),
        teacher_hidden: inputs.teacher_hidden.cast(FloatDType::BF16),
        teacher_weight: inputs.teacher_weight.cast(FloatDType::BF16),
        ..inputs
    };
    let reason = fused(inputs, settings, key).unwrap_err().to_string();
    assert!(reason.contains("dtype"), "{reason}");
}

sites! {
    RIGHT: "npu_fused_linear_divergence", SemanticsKey::LinearDivergence(LinearDivergenceKey::PLAIN);
    REVERSED: "npu_fused_linear_divergence", SemanticsKey::LinearDivergence(LinearDivergenceKey::PLAIN);
    COLD: "npu_fused_linear_divergence", SemanticsKey::LinearDivergence(LinearDivergenceKey::PLAIN);
}

/// The tensors that a body takes.
type Flowing = (Tensor<2>, Tensor<2>, Tensor<2>, Tensor<2>, Tensor<1>);

/// A check compares some tokens and some classes, and finds a body that takes the divergence in the other direction, or forgets
/// the temperature.
#[test]
fn wrong_bodies_are_found() {
    let _checked = live::scope(Sampling::first());
    let device = Device::flex().autodiff();
    let right = Settings {
        temperature: 2.0,
        ..Settings::of_mixture(0.0)
    };
    let most = std::cell::Cell::new([0; 2]);
    let call = |site: &'static Site, settings: Settings| {
        let flowing = (
            random([40, 8], 1.0, &device).require_grad(),
            random([8, 900], 0.5, &device).require_grad(),
            random([40, 6], 1.0, &device),
            random([6, 901], 0.5, &device),
            Tensor::ones([40], &device) / 40.0,
        );
        let numbers = DivergenceNumbers {
            mixture: right.mixture,
            temperature: Some(right.temperature),
            cap: None,
            teacher_cap: Some(f64::INFINITY),
        };
        let mut body = once(
            |(hidden, weight, teacher_hidden, teacher_weight, factors): Flowing| {
                most.set([hidden.dims()[0], weight.dims()[1]]);
                let inputs = Inputs {
                    hidden,
                    weight,
                    bias: None,
                    teacher_hidden,
                    teacher_weight,
                    teacher_bias: None,
                    factors,
                };
                reference(inputs, settings, LinearDivergenceKey::PLAIN)
            },
        );
        linear_divergence(At::new(site), flowing, numbers, &mut body)
    };
    drop(call(&RIGHT, right));
    let [tokens, classes] = most.get();
    assert!((2..10).contains(&tokens), "{tokens}");
    assert!((50..90).contains(&classes), "{classes}");
    for (site, mixture, temperature) in [(&REVERSED, 1.0, 2.0), (&COLD, 0.0, 1.0)] {
        let wrong = Settings {
            mixture,
            temperature,
            ..right
        };
        let found = catch_unwind(AssertUnwindSafe(|| call(site, wrong)));
        let panic = found.expect_err("a wrong body");
        let said = panic.downcast_ref::<String>().expect("a sentence");
        assert!(
            said.contains("the annotated body is the odd one out"),
            "{said}"
        );
    }
}
