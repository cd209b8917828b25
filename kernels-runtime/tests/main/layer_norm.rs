//! Tests LayerNorm: against PyTorch's and transformers' modules, far from zero, in autodiff's graph, on strided tensors
//! and in live verification.

use crate::declared::sites;
use crate::support::{Fixture, relative_error, values};
use burn::tensor::{Device, Distribution, FloatDType, Tensor, TensorData};
use kernels_runtime::__private::{At, NormParameters, layer_norm, once};
use kernels_runtime::live::{self, Sampling};
use kernels_runtime::ops::layer_norm::{Inputs, Settings, fused, reference};
use kernels_runtime::registry::Site;
use kernels_runtime::semantics::*;
use std::panic::{AssertUnwindSafe, catch_unwind};

const EPS: f64 = 1e-5;
const SETTINGS: Settings = Settings { eps: EPS };
const KEYS: [LayerNormKey; 2] = [LayerNormKey::GPT2, LayerNormKey::COHERE];
const DTYPES: [FloatDType; 4] = [
    FloatDType::F32,
    FloatDType::F64,
    FloatDType::BF16,
    FloatDType::F16,
];

fn random<const D: usize>(shape: [usize; D], device: &Device) -> Tensor<D> {
    Tensor::random(shape, Distribution::Uniform(-1.0, 1.0), device)
}

fn refusal<T>(run: impl FnOnce() -> T) -> String {
    let panic = catch_unwind(AssertUnwindSafe(run)).err();
    *panic
        .expect("it is refused")
        .downcast::<String>()
        .expect("a message")
}

fn key_of(bias: &Option<Tensor<1>>) -> LayerNormKey {
    match bias {
        Some(_) => LayerNormKey::GPT2,
        None => LayerNormKey::COHERE,
    }
}

fn run<const D: usize>(is_fused: bool, inputs: Inputs<D>) -> Tensor<D> {
    let key = key_of(&inputs.bias);
    match is_fused {
        true => fused(inputs, SETTINGS, key).expect("a kernel"),
        false => reference(inputs, SETTINGS, key),
    }
}

#[test]
fn norms_are_those_of_torch() {
    let fixture = Fixture::open("layernorm");
    let device = Device::flex().autodiff();
    let cases = fixture.cases("x");
    assert_eq!(cases.len(), 3 * 2 * 3);
    for case in cases {
        let module = case.split('.').next().expect("a module");
        let vector = |name: &str| {
            let name = format!("{case}.{name}");
            let vector = || fixture.tensor::<1>(&name, &device).require_grad();
            fixture.has(&name).then(vector)
        };
        assert_eq!(vector("bias").is_some(), module == "torch", "{case}");
        for is_fused in [true, false] {
            let rows = |name: &str| fixture.rows(&format!("{case}.{name}"), &device);
            let x = rows("x").require_grad();
            let (weight, bias) = (vector("weight").expect("always"), vector("bias"));
            let y = run(
                is_fused,
                Inputs {
                    x: x.clone(),
                    weight: weight.clone(),
                    bias: bias.clone(),
                },
            );
            let grads = (y.clone() * rows("dy")).sum().backward();
            for (result, got) in [
                ("y", Some(values(y))),
                ("d_x", x.grad(&grads).map(values)),
                ("d_weight", weight.grad(&grads).map(values)),
                (
                    "d_bias",
                    bias.and_then(|bias| bias.grad(&grads).map(values)),
                ),
            ] {
                let theirs = format!("{case}.{module}.{result}");
                assert_eq!(got.is_some(), fixture.has(&theirs), "{theirs}");
                let Some(got) = got else { continue };
                let what = format!("fused {is_fused}, {case} {result}");
                let exact = format!("{case}.ref.{result}");
                // The kernel adds in another order than the module, and a composition rounds gradients at its own
                // casts.
                let slack = if is_fused { 1.1 } else { 2.0 };
                fixture.as_near_as(slack, &what, &got, &exact, &theirs);
            }
        }
    }
}

/// The mean of such rows is not a number of f32. A kernel that subtracts the rounded mean is off by a hundredth of the
/// deviation, and squares of the elements themselves cancel entirely.
#[test]
fn rows_far_from_zero_are_as_exact_as_others() {
    let device = Device::flex().autodiff();
    for n in [7, 64, 1000, 5000] {
        for mean in [0.0, 1e2, -3e5] {
            let deviation = |i: usize| (i as f64 * 12.9898).sin() * 1.7;
            let numbers: Vec<f32> = (0..3 * n).map(|i| (mean + deviation(i)) as f32).collect();
            let x = Tensor::<2>::from_data(TensorData::new(numbers, [3, n]), &device);
            let (dy, weight) = (random([3, n], &device), random([n], &device));
            let found = |dtype: FloatDType, is_fused| {
                let (x, dy) = (x.clone().cast(dtype), dy.clone().cast(dtype));
                let (x, weight) = (x.require_grad(), weight.clone().cast(dtype).require_grad());
                let inputs = Inputs {
                    x: x.clone(),
                    weight: weight.clone(),
                    bias: None,
                };
                let y = run(is_fused, inputs);
                let grads = (y.clone() * dy).sum().backward();
                let [dx, dw] = [x.grad(&grads).map(values), weight.grad(&grads).map(values)];
                [
                    values(y),
                    dx.expect("it is tracked"),
                    dw.expect("it is tracked"),
                ]
            };
            let exact = found(FloatDType::F64, false);
            let ours = found(FloatDType::F32, true);
            for (result, (ours, exact)) in ["y", "dx", "dw"].iter().zip(ours.iter().zip(&exact)) {
                let error = relative_error(ours, exact);
                assert!(
                    error < 3e-7,
                    "{result} of {n} elements around {mean}: {error:e}"
                );
            }
        }
    }
}

#[test]
fn rows_of_equal_elements_are_the_bias() {
    let device = Device::flex().autodiff();
    for dtype in DTYPES {
        for number in [0.0, 0.1, -3000.0, 1e4] {
            let bias = random([37], &device).cast(dtype);
            let x = Tensor::<2>::full([3, 37], number, &device).cast(dtype);
            let x = x.require_grad();
            let inputs = Inputs {
                x: x.clone(),
                weight: random([37], &device).cast(dtype),
                bias: Some(bias.clone()),
            };
            let y = run(true, inputs);
            let got = values(y.clone());
            for (y, bias) in got.iter().zip(values(bias).iter().cycle()) {
                assert!(
                    (y - bias).abs() < 1e-4,
                    "{dtype:?}, rows of {number}: {y}, not {bias}"
                );
            }
            let dx = x.grad(&y.sum().backward()).expect("it is tracked");
            assert!(
                values(dx).iter().all(|dx| dx.is_finite()),
                "{dtype:?}, rows of {number}"
            );
        }
    }
}

/// The gradients of x, the weight and the bias.
type Gradients = [Option<Vec<f64>>; 3];

#[track_caller]
fn near(ours: &Gradients, formula: &Gradients, what: &str) {
    for (number, (ours, formula)) in ours.iter().zip(formula).enumerate() {
        assert_eq!(ours.is_some(), formula.is_some(), "{what}, tensor {number}");
        if let (Some(ours), Some(formula)) = (ours, formula) {
            let error = relative_error(ours, formula);
            assert!(error < 2e-6, "{what}, tensor {number}: {error:e}");
        }
    }
}

/// Only tracked tensors have gradients, which don't depend on what else is tracked. The same holds with gradient
/// checkpointing, and where x is the result of another operation.
#[test]
fn any_tensors_may_be_tracked() {
    let plain = Device::flex().autodiff();
    let checkpointing = Device::flex().autodiff().gradient_checkpointing();
    for device in [plain, checkpointing] {
        let x: Tensor<2> = random([3, 8], &device);
        let [weight, bias]: [Tensor<1>; 2] = [(); 2].map(|()| random([8], &device));
        for tracked in 1..8_usize {
            let is_tracked = |number: usize| tracked & (1 << number) != 0;
            let x = match is_tracked(0) {
                true => x.clone().require_grad(),
                false => x.clone(),
            };
            let leaf = |number: usize, tensor: &Tensor<1>| match is_tracked(number) {
                true => tensor.clone().require_grad(),
                false => tensor.clone(),
            };
            for bias in [Some(leaf(2, &bias)), None] {
                if bias.is_none() && tracked == 1 << 2 {
                    continue; // Nothing is tracked.
                }
                let weight = leaf(1, &weight);
                let found = |is_fused| -> Gradients {
                    let inputs = Inputs {
                        x: x.clone() * 2.0,
                        weight: weight.clone(),
                        bias: bias.clone(),
                    };
                    let grads = run(is_fused, inputs).square().sum().backward();
                    let of = |leaf: &Tensor<1>| leaf.grad(&grads).map(values);
                    [
                        x.grad(&grads).map(values),
                        of(&weight),
                        bias.as_ref().and_then(of),
                    ]
                };
                let ours = found(true);
                let expected: [bool; 3] = std::array::from_fn(is_tracked);
                let expected = [expected[0], expected[1], expected[2] && bias.is_some()];
                assert_eq!(ours.each_ref().map(Option::is_some), expected, "{tracked}");
                near(&ours, &found(false), &format!("tracked {tracked}"));
            }
        }
    }
}

/// Results and gradients of views equal those of contiguous copies bit for bit. (A gradient arrives strided where the
/// result is turned before it is used.)
#[test]
fn views_give_the_bits_of_their_copies() {
    let device = Device::flex().autodiff();
    for dtype in DTYPES {
        for key in KEYS {
            let base = random([5, 3, 11], &device).cast(dtype);
            let weight: Tensor<1> = random([16], &device).cast(dtype);
            let dy = random([5, 3, 8], &device).cast(dtype);
            let of = |is_view: bool| {
                let base = base.clone().require_grad();
                let seen = base.clone().slice_dim(2, 2..10).swap_dims(0, 1);
                let [w, b] = [0, 8].map(|from| weight.clone().slice_dim(0, from..from + 8));
                let copied = |x: Tensor<3>| {
                    let data = x.clone().into_data();
                    x.zeros_like() + Tensor::from_data(data, (&device, x.dtype()))
                };
                let w = w.require_grad();
                let inputs = Inputs {
                    x: if is_view { seen } else { seen * 1.0 },
                    weight: w.clone(),
                    bias: (key.shift == Shift::Bias).then_some(b),
                };
                let y = run(true, inputs);
                let turned = match is_view {
                    true => y.clone().swap_dims(0, 1) * dy.clone(),
                    false => y.clone() * copied(dy.clone().swap_dims(0, 1)),
                };
                let grads = turned.sum().backward();
                [
                    values(y),
                    values(base.grad(&grads).expect("it is tracked")),
                    values(w.grad(&grads).expect("it is tracked")),
                ]
            };
            assert_eq!(of(true), of(false), "{key} in {dtype:?}");
        }
    }
}

#[test]
fn results_do_not_depend_on_the_number_of_threads() {
    let device = Device::flex().autodiff();
    let (x, dy) = (random([700, 300], &device), random([700, 300], &device));
    let [weight, bias]: [Tensor<1>; 2] = [(); 2].map(|()| random([300], &device).require_grad());
    let on = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        pool.expect("a pool").install(|| {
            let x = x.clone().require_grad();
            let y = run(
                true,
                Inputs {
                    x: x.clone(),
                    weight: weight.clone(),
                    bias: Some(bias.clone()),
                },
            );
            let grads = (y.clone() * dy.clone()).sum().backward();
            let of = |leaf: &Tensor<1>| values(leaf.grad(&grads).expect("it is tracked"));
            let dx = values(x.grad(&grads).expect("it is tracked"));
            [values(y), dx, of(&weight), of(&bias)]
        })
    };
    let one = on(1);
    for threads in [2, 3, 7] {
        assert_eq!(on(threads), one, "{threads} threads");
    }
}

#[test]
fn operands_that_do_not_go_together_are_refused() {
    let device = Device::flex();
    let x: Tensor<2> = random([3, 8], &device);
    let vector = |n: usize| -> Tensor<1> { random([n], &device) };
    let with = |weight: usize, bias: Option<usize>| Inputs {
        x: x.clone(),
        weight: vector(weight),
        bias: bias.map(vector),
    };
    let (shifted, bare) = (LayerNormKey::GPT2, LayerNormKey::COHERE);
    for (inputs, key, words) in [
        (
            with(8, None),
            shifted,
            "LayerNorm: a bias is missing, but the semantics are layer_norm(shift=bias)",
        ),
        (
            with(8, Some(8)),
            bare,
            "LayerNorm: a bias is given, but the semantics are layer_norm(shift=none)",
        ),
        (
            with(4, None),
            bare,
            "LayerNorm: the weight has 4 elements, but the last axis of x, [3, 8], has 8",
        ),
        (
            with(8, Some(1)),
            shifted,
            "LayerNorm: the bias has 1 elements, but the last axis of x, [3, 8], has 8",
        ),
    ] {
        assert_eq!(refusal(|| fused(inputs.clone(), SETTINGS, key)), words);
        assert_eq!(refusal(|| reference(inputs, SETTINGS, key)), words);
    }
    // Mixed dtypes give a reason, which a site counts.
    let mixed = Inputs {
        weight: vector(8).cast(FloatDType::F64),
        ..with(8, None)
    };
    let reason = fused(mixed, SETTINGS, bare).unwrap_err();
    assert_eq!(reason.to_string(), "the tensors have different dtypes");
}

sites! {
    RIGHT: "npu_fused_layernorm", SemanticsKey::LayerNorm(LayerNormKey::GPT2);
    RIGHT_IN_HALF: "npu_fused_layernorm", SemanticsKey::LayerNorm(LayerNormKey::COHERE);
    OTHER_EPSILON: "npu_fused_layernorm", SemanticsKey::LayerNorm(LayerNormKey::GPT2);
    FORGETS_THE_BIAS: "npu_fused_layernorm", SemanticsKey::LayerNorm(LayerNormKey::GPT2);
    UNBIASED: "npu_fused_layernorm", SemanticsKey::LayerNorm(LayerNormKey::GPT2);
    NO_MEAN: "npu_fused_layernorm", SemanticsKey::LayerNorm(LayerNormKey::COHERE);
}

/// A body that computes something else than its site's key says.
#[derive(Clone, Copy)]
struct Body {
    eps: f64,
    subtracts: bool,
    adds: bool,
    divides_by_less: bool,
}

const BODY: Body = Body {
    eps: EPS,
    subtracts: true,
    adds: true,
    divides_by_less: false,
};

/// Calls a site with rows of mean 0 and variance 1, and a backward pass.
fn call(site: &'static Site, dtype: FloatDType, body: Body) {
    let device = Device::flex().autodiff();
    let has_bias = matches!(
        site.spec().key,
        SemanticsKey::LayerNorm(key) if key.shift == Shift::Bias
    );
    let [weight, bias]: [Tensor<1>; 2] = [(); 2].map(|()| random([64], &device).cast(dtype));
    let number = |i: usize| if i.is_multiple_of(2) { 1.0 } else { -1.0_f32 };
    let numbers: Vec<f32> = (0..6 * 64).map(number).collect();
    let x = Tensor::<2>::from_data(TensorData::new(numbers, [6, 64]), &device);
    let plain = |x: Tensor<2>| {
        let x = x.cast(FloatDType::F32);
        let mean = x.clone().mean_dim(1);
        let x = if body.subtracts { x - mean } else { x };
        let n = if body.divides_by_less { 63.0 } else { 64.0 };
        let variance = x.clone().square().sum_dim(1) / n;
        let y = x / (variance + body.eps).sqrt();
        let wide = |vector: &Tensor<1>| vector.clone().cast(FloatDType::F32).unsqueeze();
        let y = y * wide(&weight);
        let y = if has_bias && body.adds {
            y + wide(&bias)
        } else {
            y
        };
        y.cast(dtype)
    };
    let parameters = match has_bias {
        true => NormParameters::new(&weight).bias(&bias),
        false => NormParameters::new(&weight),
    };
    let x = x.cast(dtype).require_grad();
    let y = layer_norm(At::new(site), x, parameters, EPS, &mut once(plain));
    y.sum().backward();
}

/// Live verification finds bodies that compute something else, also where only its own rows show it: with another
/// epsilon, or in half types without the mean, which is 0 in the rows of the run.
#[test]
fn bodies_are_verified() {
    let _first = live::scope(Sampling::first());
    for (site, dtype) in [
        (&RIGHT, FloatDType::F32),
        (&RIGHT_IN_HALF, FloatDType::BF16),
    ] {
        call(site, dtype, BODY);
        let rows = live::report().rows;
        let row = rows.iter().find(|row| row.site == site.name());
        let row = row.expect("checked");
        assert_eq!((row.checked, row.skipped), (1, 0), "{row:?}");
    }
    let f32 = FloatDType::F32;
    for (site, dtype, body) in [
        (&OTHER_EPSILON, f32, Body { eps: 1e-3, ..BODY }),
        (
            &FORGETS_THE_BIAS,
            f32,
            Body {
                adds: false,
                ..BODY
            },
        ),
        (
            &UNBIASED,
            f32,
            Body {
                divides_by_less: true,
                ..BODY
            },
        ),
        (
            &NO_MEAN,
            FloatDType::BF16,
            Body {
                subtracts: false,
                ..BODY
            },
        ),
    ] {
        let why = refusal(|| call(site, dtype, body));
        assert!(why.contains(&site.name()), "{why}");
    }
}
