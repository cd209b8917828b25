//! Tests sums and their RMSNorms: against transformers' modules, in autodiff's graph, at the edges and in live
//! verification.

use crate::declared::sites;
use crate::support::{self, Fixture, values};
use burn::backend::flex::FlexTensor;
use burn::backend::{BackendTensor, DispatchTensorKind, Flex};
use burn::tensor::{DType, Device, Distribution, FloatDType, Tensor};
use kernels_runtime::__private::{At, add_rms_norm, once};
use kernels_runtime::live::{self, Sampling};
use kernels_runtime::ops::add_rms_norm::{
    self, AddRmsNorm, Inputs, Operands, Settings, fused, reference,
};
use kernels_runtime::ops::fused::FusedKernel;
use kernels_runtime::ops::rms_norm::{self, RmsNorm};
use kernels_runtime::registry::Site;
use kernels_runtime::semantics::*;
use std::panic::{AssertUnwindSafe, catch_unwind};

const EPS: f64 = 1e-6;
const SETTINGS: Settings = Settings {
    eps: EPS,
    group_size: None,
};

fn random<const D: usize>(shape: [usize; D], device: &Device) -> Tensor<D> {
    Tensor::random(shape, Distribution::Uniform(-1.0, 1.0), device)
}

fn inputs<const D: usize>(x: Tensor<D>, residual: Tensor<D>, weight: Tensor<1>) -> Inputs<D> {
    Inputs {
        x,
        residual,
        weight: Some(weight),
        gate: None,
    }
}

fn refusal<T>(run: impl FnOnce() -> T) -> String {
    let panic = catch_unwind(AssertUnwindSafe(run)).err();
    *panic
        .expect("it is refused")
        .downcast::<String>()
        .expect("a message")
}

/// A sum in half types is rounded once, exactly as in PyTorch. The norm may add in another order.
#[test]
fn sums_and_norms_are_those_of_transformers() {
    let fixture = Fixture::open("add_rmsnorm");
    let device = Device::flex().autodiff();
    let gemma = RmsNormKey {
        rounding: Rounding::Gemma,
        ..RmsNormKey::LLAMA
    };
    let gated = |gating, groups| RmsNormKey {
        gating,
        groups,
        ..RmsNormKey::LLAMA
    };
    let modules = [
        ("llama", RmsNormKey::LLAMA),
        ("olmo2", gemma),
        ("gemma2", RmsNormKey::GEMMA),
        ("qwen3_next", gated(Gating::AfterNorm, Groups::One)),
        ("zamba2", gated(Gating::BeforeNorm, Groups::Many)),
    ];
    let cases = fixture.cases("x");
    assert_eq!(cases.len(), 30);
    for case in cases {
        let (module, norm) = *modules
            .iter()
            .find(|(module, _)| case.starts_with(&format!("{module}.")))
            .unwrap_or_else(|| panic!("{case} is of no module"));
        let key = AddRmsNormKey::of_norm(norm);
        for is_fused in [true, false] {
            let input = |name: &str| fixture.rows(&format!("{case}.{name}"), &device);
            let leaf = |name: &str| input(name).require_grad();
            let (x, residual, gate) = (leaf("x"), leaf("residual"), leaf("gate"));
            let weight: Tensor<1> = fixture.tensor(&format!("{case}.weight"), &device);
            let weight = weight.require_grad();
            let inputs = Inputs {
                gate: (key.gating != Gating::None).then(|| gate.clone()),
                ..inputs(x.clone(), residual.clone(), weight.clone())
            };
            let settings = Settings {
                eps: EPS,
                group_size: (key.groups == Groups::Many).then(|| x.dims()[1] / 4),
            };
            let (y, sum) = match is_fused {
                true => fused(inputs, settings, key).expect("a kernel"),
                false => reference(inputs, settings, key),
            };
            let loss = (y.clone() * input("dy")).sum() + (sum.clone() * input("d_sum")).sum();
            let grads = loss.backward();
            let theirs = fixture.values(&format!("{case}.{module}.sum"));
            assert_eq!(values(sum), theirs, "{case}");
            let gradient = |tensor: &Tensor<2>| tensor.grad(&grads).map(values);
            for (result, got) in [
                ("y", Some(values(y))),
                ("d_x", gradient(&x)),
                ("d_residual", gradient(&residual)),
                ("d_gate", gradient(&gate)),
                ("d_weight", weight.grad(&grads).map(values)),
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

/// The gradients of x, the residual, the weight and the gate.
type Gradients = [Option<Vec<f64>>; 4];

#[track_caller]
fn near(ours: &Gradients, formula: &Gradients, what: &str) {
    for (number, (ours, formula)) in ours.iter().zip(formula).enumerate() {
        assert_eq!(ours.is_some(), formula.is_some(), "{what}, tensor {number}");
        if let (Some(ours), Some(formula)) = (ours, formula) {
            let error = support::relative_error(ours, formula);
            assert!(error < 1e-6, "{what}, tensor {number}: {error:e}");
        }
    }
}

/// The sum is a node of its own. If it is used again, its gradient is added to the norm's. If only one result is used,
/// its gradients are complete. The same holds with gradient checkpointing.
#[test]
fn both_results_have_gradients_together_and_alone() {
    let key = AddRmsNormKey::LLAMA;
    let losses: [fn(Tensor<2>, Tensor<2>) -> Tensor<1>; 4] = [
        |y, sum| (y.square() * sum).sum(),
        |y, _| y.square().sum(),
        |_, sum| sum.square().sum(),
        |y, sum| (y + sum.clone() * sum.clone() * sum).sum(),
    ];
    let plain = Device::flex().autodiff();
    let checkpointing = Device::flex().autodiff().gradient_checkpointing();
    for device in [plain, checkpointing] {
        let x: Tensor<2> = random([3, 8], &device).require_grad();
        let residual: Tensor<2> = random([3, 8], &device).require_grad();
        let weight: Tensor<1> = random([8], &device).require_grad();
        for (number, loss) in losses.into_iter().enumerate() {
            let gradients = |is_fused| -> Gradients {
                let inputs = inputs(x.clone() * 2.0, residual.clone(), weight.clone());
                let (y, sum) = match is_fused {
                    true => fused(inputs, SETTINGS, key).expect("a kernel"),
                    false => reference(inputs, SETTINGS, key),
                };
                let grads = loss(y, sum).backward();
                let weight = weight.grad(&grads).map(values);
                let of = |leaf: &Tensor<2>| leaf.grad(&grads).map(values);
                [of(&x), of(&residual), weight, None]
            };
            let ours = gradients(true);
            // The sum alone does not use the weight.
            let expected = [true, true, number != 2, false];
            assert_eq!(ours.each_ref().map(Option::is_some), expected, "{number}");
            near(&ours, &gradients(false), &format!("loss {number}"));
        }
    }
}

/// Only tracked tensors have gradients, which don't depend on what else is tracked.
#[test]
fn any_tensor_alone_may_be_tracked() {
    let device = Device::flex().autodiff();
    let [x, residual, gate]: [Tensor<2>; 3] = [(); 3].map(|()| random([3, 8], &device));
    let weight: Tensor<1> = random([8], &device);
    let key = AddRmsNormKey {
        gating: Gating::AfterNorm,
        ..AddRmsNormKey::GEMMA
    };
    for tracked in 0..4 {
        let leaf = |number: usize, tensor: &Tensor<2>| match number == tracked {
            true => tensor.clone().require_grad(),
            false => tensor.clone(),
        };
        let [x, residual, gate] = [leaf(0, &x), leaf(1, &residual), leaf(3, &gate)];
        let weight = match tracked {
            2 => weight.clone().require_grad(),
            _ => weight.clone(),
        };
        let found = |is_fused| -> Gradients {
            let inputs = Inputs {
                gate: Some(gate.clone()),
                ..inputs(x.clone(), residual.clone(), weight.clone())
            };
            let (y, sum) = match is_fused {
                true => fused(inputs, SETTINGS, key).expect("a kernel"),
                false => reference(inputs, SETTINGS, key),
            };
            let grads = (y * sum).sum().backward();
            let of = |leaf: &Tensor<2>| leaf.grad(&grads).map(values);
            let of_weight = weight.grad(&grads).map(values);
            [of(&x), of(&residual), of_weight, of(&gate)]
        };
        let ours = found(true);
        let expected = std::array::from_fn(|number| number == tracked);
        assert_eq!(ours.each_ref().map(Option::is_some), expected);
        near(&ours, &found(false), &format!("tensor {tracked} alone"));
    }
}

/// The terms have very different sizes. The result is the exact sum, rounded once.
#[test]
fn sums_of_half_types_are_rounded_once() {
    let device = Device::flex();
    for dtype in [FloatDType::F16, FloatDType::BF16] {
        let numbers = |seed: f64, step: i32| -> Tensor<2> {
            let numbers = (0..8192).map(|i| {
                let x = (f64::from(i) * 12.9898 + seed).sin() as f32;
                x * 2_f32.powi(i * step % 24 - 12)
            });
            let numbers: Vec<f32> = numbers.collect();
            Tensor::<1>::from_data(numbers.as_slice(), &device)
                .reshape([64, 128])
                .cast(dtype)
        };
        let (x, residual) = (numbers(0.1, 1), numbers(7.7, 7));
        let weight = Tensor::ones([128], (&device, DType::from(dtype)));
        let exact = x.clone().cast(FloatDType::F64) + residual.clone().cast(FloatDType::F64);
        let (_, sum) = fused(inputs(x, residual, weight), SETTINGS, AddRmsNormKey::LLAMA).unwrap();
        assert_eq!(values(sum), values(exact.cast(dtype)), "{dtype:?}");
    }
}

fn flex<const D: usize>(tensor: Tensor<D>) -> FlexTensor {
    match tensor.into_dispatch().kind {
        DispatchTensorKind::Flex(BackendTensor::Float(tensor)) => tensor,
        other => panic!("{other:?}"),
    }
}

/// The results equal those of a sum and the kernel of RMSNorm bit for bit: for every gate, for groups, for strided and
/// empty tensors, and for rows without elements.
#[test]
fn results_are_those_of_the_norm_of_the_sum() {
    let shapes = [
        [3, 5, 8],
        [8, 1, 8],
        [0, 5, 8],
        [3, 0, 8],
        [3, 5, 0],
        [1, 1, 4],
    ];
    let dtypes = [
        FloatDType::F32,
        FloatDType::F64,
        FloatDType::BF16,
        FloatDType::F16,
    ];
    let gatings = [Gating::None, Gating::BeforeNorm, Gating::AfterNorm];
    for gating in gatings {
        for groups in [Groups::One, Groups::Many] {
            let key = AddRmsNormKey {
                gating,
                groups,
                ..AddRmsNormKey::LLAMA
            };
            for (shape, dtype) in shapes.into_iter().flat_map(|s| dtypes.map(|d| (s, d))) {
                same_as_the_parts(key, shape, dtype);
            }
        }
    }
}

fn same_as_the_parts(key: AddRmsNormKey, [b, a, n]: [usize; 3], dtype: FloatDType) {
    let device = Device::flex();
    let what = format!("{key}, {:?} in {dtype:?}", [a, b, n]);
    let turned = || random([b, a, n], &device).cast(dtype).swap_dims(0, 1);
    let (x, gate): (Tensor<3>, Tensor<3>) = (turned(), turned());
    // The residual is a part of wider rows.
    let residual = random([a, b, n + 3], &device)
        .cast(dtype)
        .slice_dim(2, 2..2 + n);
    let weight = flex(random([n], &device).cast(dtype));
    let gate = (key.gating != Gating::None).then(|| flex(gate));
    let settings = Settings {
        group_size: (key.groups == Groups::Many).then_some(4),
        ..SETTINGS
    };
    let sum = x.clone() + residual.clone();
    let norm = rms_norm::Operands::new(
        flex(sum.clone()),
        Some(weight.clone()),
        gate.clone(),
        settings,
        key.norm(),
    );
    let gated = gate.is_some();
    let wanted = rms_norm::Each {
        x: true,
        weight: true,
        gate: gated,
        ..Default::default()
    };
    let norm = <Flex as FusedKernel<RmsNorm>>::forward(norm.expect(&what), Some(&wanted));
    let operands = Operands::new(flex(x), flex(residual), Some(weight), gate, settings, key);
    let wanted = add_rms_norm::Each {
        x: true,
        residual: true,
        weight: true,
        gate: gated,
    };
    let operands = operands.expect(&what);
    let mut found = <Flex as FusedKernel<AddRmsNorm>>::forward(operands, Some(&wanted));
    let [found_sum, found_rstd, rstd] = [
        found.others.remove(0),
        found.saved.remove(0),
        norm.saved[0].clone(),
    ];
    let numbers = |tensor: FlexTensor| -> Vec<f64> { tensor.into_data().iter().collect() };
    assert_eq!(numbers(found.y), numbers(norm.y), "{what}");
    assert_eq!(numbers(found_sum), values(sum), "{what}");
    // The mean of no elements is NaN.
    assert_eq!(found_rstd.layout().shape(), rstd.layout().shape(), "{what}");
    if n > 0 {
        assert_eq!(numbers(found_rstd), numbers(rstd), "{what}");
    }
}

#[test]
fn operands_that_do_not_go_together_are_refused() {
    let device = Device::flex();
    let (x, weight): (Tensor<2>, Tensor<1>) = (random([3, 8], &device), random([8], &device));
    let narrow = || random([3, 4], &device);
    for (inputs, words) in [
        (
            inputs(x.clone(), narrow(), weight.clone()),
            "AddRMSNorm: the residual is [3, 4], but x is [3, 8]",
        ),
        (
            // This residual would need broadcasting.
            inputs(x.clone(), random([1, 8], &device), weight.clone()),
            "AddRMSNorm: the residual is [1, 8], but x is [3, 8]",
        ),
        (
            inputs(x.clone(), x.clone(), random([4], &device)),
            "AddRMSNorm: RMSNorm: the weight has 4 elements, but the last axis of x, [3, 8], has 8",
        ),
    ] {
        let key = AddRmsNormKey::LLAMA;
        assert_eq!(refusal(|| fused(inputs.clone(), SETTINGS, key)), words);
        assert_eq!(refusal(|| reference(inputs, SETTINGS, key)), words);
    }
    // Mixed dtypes give a reason, which a site counts.
    let mixed = inputs(x.clone(), x.cast(FloatDType::F64), weight);
    let reason = fused(mixed, SETTINGS, AddRmsNormKey::LLAMA).unwrap_err();
    assert_eq!(reason.to_string(), "the tensors have different dtypes");
}

sites! {
    RIGHT: "npu_fused_add_rmsnorm", SemanticsKey::AddRmsNorm(AddRmsNormKey::LLAMA);
    FORGETS: "npu_fused_add_rmsnorm", SemanticsKey::AddRmsNorm(AddRmsNormKey::LLAMA);
    OTHER_EPSILON: "npu_fused_add_rmsnorm", SemanticsKey::AddRmsNorm(AddRmsNormKey::LLAMA);
}

/// Live verification compares both results and their gradients. It finds a body that returns another sum, and one with
/// another epsilon, which only the check's own rows show.
#[test]
fn bodies_are_verified() {
    let _first = live::scope(Sampling::first());
    let device = Device::flex().autodiff();
    let weight: Tensor<1> = random([8], &device);
    let call = |site: &'static Site, eps: f64, returned: fn(Tensor<2>, Tensor<2>) -> Tensor<2>| {
        let (x, residual) = (
            random([6, 8], &device).require_grad(),
            random([6, 8], &device),
        );
        let body = |(x, residual): (Tensor<2>, Tensor<2>)| {
            let sum = x.clone() + residual;
            let mean_square = sum.clone().square().mean_dim(1);
            let y = sum.clone() / (mean_square + eps).sqrt() * weight.clone().unsqueeze();
            (y, returned(sum, x))
        };
        let weight = &|| Some(weight.clone());
        let (y, sum) = add_rms_norm(
            At::new(site),
            x,
            residual,
            weight,
            EPS,
            None,
            &mut once(body),
        );
        (y * sum).sum().backward();
    };
    call(&RIGHT, EPS, |sum, _| sum);
    let rows = live::report().rows;
    let row = rows
        .iter()
        .find(|row| row.site == RIGHT.name())
        .expect("checked");
    assert_eq!((row.checked, row.skipped), (1, 0), "{row:?}");
    let why = refusal(|| call(&FORGETS, EPS, |_, x| x));
    assert!(why.contains("FORGETS"), "{why}");
    let why = refusal(|| call(&OTHER_EPSILON, 1e-3, |sum, _| sum));
    assert!(why.contains("OTHER_EPSILON"), "{why}");
}
