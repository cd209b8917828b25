//! Tests attention: against transformers' functions, between kernel and reference at sizes around the blocks, at the
//! edges, and in live verification.

use crate::comparison::{difference, relative};
use crate::declared::sites;
use crate::support::{Fixture, values};
use burn::tensor::{DType, Device, Distribution, FloatDType, Tensor, TensorData};
use kernels_runtime::__private::{At, attention, once};
use kernels_runtime::live::{self, Sampling};
use kernels_runtime::ops::attention::{Inputs, Lengths, Settings, fused, reference};
use kernels_runtime::registry::Site;
use kernels_runtime::semantics::*;
use std::panic::{AssertUnwindSafe, catch_unwind};

fn run(inputs: Inputs, settings: Settings, key: AttentionKey, is_fused: bool) -> Tensor<4> {
    match is_fused {
        true => fused(inputs, settings, key).expect("a kernel"),
        false => reference(inputs, settings, key),
    }
}

fn random(shape: [usize; 4], device: &Device) -> Tensor<4> {
    Tensor::random(shape, Distribution::Normal(0.0, 1.0), device)
}

/// The settings of a case of the fixture.
fn of_case(case: &str) -> (Settings, AttentionKey) {
    let causal = AttentionKey::CAUSAL;
    let plain = Settings::default();
    let windowed = |window, size| {
        let settings = Settings {
            window: Some(size),
            ..plain
        };
        (settings, AttentionKey { window, ..causal })
    };
    let bias = AttentionBias::Additive;
    match case.split('.').next().expect("a name") {
        "causal" | "grouped" | "cached" | "values" => (plain, causal),
        "full" => {
            let mask = AttentionMask::None;
            (plain, AttentionKey { mask, ..causal })
        }
        "sliding" => windowed(AttentionWindow::Sliding, 6),
        "chunked" => windowed(AttentionWindow::Chunked, 8),
        "capped" => {
            let settings = Settings {
                scale: Some(0.4),
                cap: Some(3.0),
                ..plain
            };
            let cap = ScoreCap::Tanh;
            (settings, AttentionKey { cap, ..causal })
        }
        "sinks" => {
            let (settings, key) = windowed(AttentionWindow::Sliding, 8);
            let sink = Sinks::Learned;
            (settings, AttentionKey { sink, ..key })
        }
        "biased" => {
            let mask = AttentionMask::None;
            let key = AttentionKey {
                mask,
                bias,
                ..causal
            };
            (plain, key)
        }
        "alibi" => (plain, AttentionKey { bias, ..causal }),
        other => panic!("the fixture has another case, {other}"),
    }
}

/// The kernel computes in f32 and rounds once, so it is nearer to the exact result than the eager functions, which round
/// scores and weights.
#[test]
fn attention_is_that_of_transformers() {
    let fixture = Fixture::open("attention");
    let device = Device::flex().autodiff();
    let cases = fixture.cases("q");
    assert_eq!(cases.len(), 33);
    for case in cases {
        let (settings, key) = of_case(&case);
        for layout in [HeadLayout::Bnsd, HeadLayout::Bsnd] {
            for is_fused in [true, false] {
                let leaf = |name: &str| -> Tensor<4> {
                    fixture
                        .tensor(&format!("{case}.{name}"), &device)
                        .require_grad()
                };
                let (q, k, v) = (leaf("q"), leaf("k"), leaf("v"));
                let bias = (key.bias == AttentionBias::Additive).then(|| leaf("bias"));
                let sinks = (key.sink == Sinks::Learned).then(|| {
                    let sinks: Tensor<1> = fixture.tensor(&format!("{case}.sinks"), &device);
                    sinks.require_grad()
                });
                let laid_out = |tensor: &Tensor<4>| match layout {
                    HeadLayout::Bnsd => tensor.clone(),
                    HeadLayout::Bsnd => tensor.clone().swap_dims(1, 2),
                };
                let inputs = Inputs {
                    q: laid_out(&q),
                    k: laid_out(&k),
                    v: laid_out(&v),
                    bias: bias.clone(),
                    sinks: sinks.clone(),
                    lengths: Lengths::default(),
                };
                let key = AttentionKey { layout, ..key };
                let y = laid_out(&run(inputs, settings, key, is_fused));
                let dy: Tensor<4> = fixture.tensor(&format!("{case}.dy"), &device);
                let grads = (y.clone() * dy).sum().backward();
                let gradient = |tensor: &Tensor<4>| Some(values(tensor.grad(&grads)?));
                for (result, got) in [
                    ("y", Some(values(y))),
                    ("d_q", gradient(&q)),
                    ("d_k", gradient(&k)),
                    ("d_v", gradient(&v)),
                    ("d_bias", bias.as_ref().and_then(gradient)),
                    (
                        "d_sinks",
                        sinks.and_then(|sinks| Some(values(sinks.grad(&grads)?))),
                    ),
                ] {
                    let theirs = format!("{case}.hf.{result}");
                    assert_eq!(got.is_some(), fixture.has(&theirs), "{theirs}");
                    let Some(got) = got else { continue };
                    let what = format!("fused {is_fused}, {case} {layout:?} {result}");
                    let exact = format!("{case}.ref.{result}");
                    // In f32 both only add in other orders. The gradient of a sink is two numbers, in which terms
                    // cancel; on half types these are products with the rounded result.
                    let slack = match (case.ends_with("f32"), result) {
                        (_, "d_sinks") => 5.0,
                        (true, _) => 3.0,
                        _ => 1.1,
                    };
                    fixture.as_near_as(slack, &what, &got, &exact, &theirs);
                }
            }
        }
    }
}

/// Returns the result and the gradients of `q`, `k` and `v`, all in the layout `bnsd`.
fn with_gradients(
    tensors: &[Tensor<4>; 3],
    dtype: DType,
    settings: Settings,
    key: AttentionKey,
    is_fused: bool,
) -> [Vec<f64>; 4] {
    with_bias(tensors, None, dtype, settings, key, is_fused)
}

/// Computes as [`with_gradients`] does, with a bias that is held by the dtype.
fn with_bias(
    tensors: &[Tensor<4>; 3],
    bias: Option<&Tensor<4>>,
    dtype: DType,
    settings: Settings,
    key: AttentionKey,
    is_fused: bool,
) -> [Vec<f64>; 4] {
    let in_layout = |tensor: Tensor<4>| match key.layout {
        HeadLayout::Bnsd => tensor,
        HeadLayout::Bsnd => tensor.swap_dims(1, 2),
    };
    let [q, k, v] = tensors.clone().map(|tensor| {
        in_layout(tensor)
            .cast(FloatDType::from(dtype))
            .autodiff()
            .require_grad()
    });
    let inputs = Inputs {
        q: q.clone(),
        k: k.clone(),
        v: v.clone(),
        bias: bias.map(|bias| bias.clone().cast(FloatDType::from(dtype)).autodiff()),
        sinks: None,
        lengths: Lengths::default(),
    };
    let y = run(inputs, settings, key, is_fused);
    // A gradient that is not constant along any axis, of numbers that all dtypes hold.
    let number = |i: usize| ((i * 7919) % 31) as f64 / 16.0 - 1.0;
    let shape = in_layout(y.clone()).dims();
    let numbers: Vec<f64> = (0..shape.iter().product()).map(number).collect();
    let dy = Tensor::<4>::from_data(TensorData::new(numbers, shape), (&y.device(), dtype));
    let dy = in_layout(dy);
    let grads = (y.clone() * dy).sum().backward();
    let values = |tensor| values(in_layout(tensor));
    let gradient = |tensor: &Tensor<4>| tensor.grad(&grads).map(values).unwrap_or_default();
    [values(y), gradient(&q), gradient(&k), gradient(&v)]
}

/// The dtypes with the bounds of a result's error and of a gradient's, both of the number plus 1. In bf16, a result is rounded
/// once, by 2^-9 of it, and the scores' gradients are rounded before up to 200 of them are summed.
const BOUNDS: [(DType, [f64; 2]); 3] = [
    (DType::F64, [1e-12; 2]),
    (DType::F32, [2e-5; 2]),
    (DType::BF16, [0.0045, 0.02]),
];

/// Compares the kernel with the reference in f64, from operands that the dtype holds, in both layouts.
fn assert_near(tensors: &[Tensor<4>; 3], settings: Settings, key: AttentionKey) {
    for (dtype, [of_result, of_gradient]) in BOUNDS {
        let held = tensors
            .clone()
            .map(|tensor| tensor.cast(FloatDType::from(dtype)));
        let exact = with_gradients(&held, DType::F64, settings, key, false);
        for layout in [HeadLayout::Bnsd, HeadLayout::Bsnd] {
            let key = AttentionKey { layout, ..key };
            let got = with_gradients(&held, dtype, settings, key, true);
            let names = ["y", "dq", "dk", "dv"].iter();
            for (name, (got, exact)) in names.zip(got.iter().zip(&exact)) {
                let bound = if *name == "y" { of_result } else { of_gradient };
                assert_eq!(got.len(), exact.len());
                for (i, (got, exact)) in got.iter().zip(exact).enumerate() {
                    assert!(
                        (got - exact).abs() <= bound * (1.0 + exact.abs()),
                        "{name} {i} of {key}, {settings:?}, {dtype:?}: {got}, not {exact}"
                    );
                }
            }
        }
    }
}

/// Blocks have 96 queries and 64 keys, and vectors 16 lanes.
#[test]
fn sizes_around_the_blocks() {
    let device = Device::flex();
    let sliding = |size| (AttentionWindow::Sliding, Some(size));
    let chunked = |size| (AttentionWindow::Chunked, Some(size));
    let none = (AttentionWindow::None, None);
    for ([batch, heads, kv_heads, queries, keys, width, value_width], windows, offset) in [
        ([1, 1, 1, 1, 1, 1, 1], [none, sliding(1)], None),
        ([1, 2, 1, 1, 65, 16, 16], [none, sliding(64)], None),
        ([2, 4, 2, 15, 64, 8, 24], [none, chunked(16)], None),
        ([1, 4, 1, 17, 63, 33, 5], [none, sliding(7)], None),
        ([1, 6, 2, 48, 130, 16, 16], [none, sliding(65)], None),
        ([1, 2, 1, 49, 49, 16, 16], [none, chunked(17)], None),
        ([1, 2, 2, 97, 97, 20, 20], [none, sliding(33)], None),
        ([1, 1, 1, 193, 129, 16, 16], [none, sliding(40)], None),
        ([1, 1, 1, 200, 100, 16, 16], [none, chunked(30)], Some(0)),
        ([1, 1, 1, 90, 200, 16, 16], [none, sliding(3)], Some(50)),
        ([1, 1, 1, 20, 30, 16, 16], [none, sliding(3)], Some(100)),
        // Few queries for each head of keys.
        ([2, 4, 2, 1, 150, 33, 5], [none, sliding(70)], None),
        ([1, 8, 1, 1, 300, 64, 65], [none, chunked(17)], None),
        ([1, 2, 1, 4, 130, 16, 16], [none, sliding(9)], Some(50)),
        ([1, 9, 1, 1, 66, 8, 8], [none, sliding(65)], None),
        // Heads so wide that products in f32 have tiles, where the machine has any.
        ([1, 2, 1, 97, 97, 64, 64], [none, sliding(33)], None),
        ([2, 2, 2, 49, 130, 65, 70], [none, chunked(17)], None),
        ([1, 1, 1, 193, 129, 96, 64], [none, sliding(40)], None),
        ([1, 3, 1, 10, 200, 64, 128], [none, sliding(3)], Some(50)),
    ] {
        let tensors = [
            random([batch, heads, queries, width], &device),
            random([batch, kv_heads, keys, width], &device),
            random([batch, kv_heads, keys, value_width], &device),
        ];
        for (window, size) in windows {
            for mask in [AttentionMask::Causal, AttentionMask::None] {
                let key = AttentionKey {
                    mask,
                    window,
                    ..AttentionKey::CAUSAL
                };
                let settings = Settings {
                    window: size,
                    offset,
                    ..Settings::default()
                };
                assert_near(&tensors, settings, key);
            }
        }
    }
}

/// Scores that are capped, or turned by a scale below zero, are scaled before the largest is found.
#[test]
fn scales_and_caps_over_several_blocks() {
    let device = Device::flex();
    let plain = AttentionKey::CAUSAL;
    let capped = AttentionKey {
        cap: ScoreCap::Tanh,
        ..plain
    };
    for (key, scale, cap) in [
        (plain, -0.3, None),
        (plain, 0.0, None),
        (plain, 0.3, None),
        (capped, 0.3, Some(2.0)),
    ] {
        let settings = Settings {
            scale: Some(scale),
            cap,
            ..Settings::default()
        };
        for [width, value_width] in [[32, 24], [64, 64]] {
            let tensors = [
                [1, 4, 100, width],
                [1, 2, 130, width],
                [1, 2, 130, value_width],
            ];
            let tensors = tensors.map(|shape| random(shape, &device));
            assert_near(&tensors, settings, key);
        }
    }
}

/// Numbers of f32 that tiles would change, some of them in a few queries, keys or values only. Errors are measured by the
/// largest number of a tensor.
#[test]
fn large_and_small_numbers() {
    let device = Device::flex();
    let tensors = [[1, 2, 120, 64], [1, 1, 120, 64], [1, 1, 120, 64]];
    let tensors = tensors.map(|shape| random(shape, &device));
    for (powers, first) in [
        ([-45, 45, 0], 0),
        ([45, -45, 0], 0),
        ([-38, 38, -38], 0),
        ([-20, 20, 29], 0),
        ([0, 0, 60], 0),
        ([0, 0, -60], 0),
        ([-120, 120, 0], 0),
        ([120, -120, 0], 0),
        ([0, 0, -122], 0),
        ([-45, -45, 0], 90),
        ([-70, 0, 0], 90),
        ([0, -70, -60], 90),
        ([0, 0, 100], 90),
        ([0, 0, 35], 90),
    ] {
        let mut scaled = tensors.clone();
        for (tensor, power) in scaled.iter_mut().zip(powers) {
            let rest = tensor.clone().slice_dim(2, first..);
            let factor = 2_f32.powi(power);
            *tensor = tensor.clone().slice_assign(
                [0..1, 0..tensor.dims()[1], first..120, 0..64],
                rest * factor,
            );
        }
        let of = |dtype, is_fused| {
            let (settings, key) = (Settings::default(), AttentionKey::CAUSAL);
            with_gradients(&scaled, dtype, settings, key, is_fused)
        };
        let (got, exact) = (of(DType::F32, true), of(DType::F64, false));
        for (name, (got, exact)) in ["y", "dq", "dk", "dv"].iter().zip(got.iter().zip(&exact)) {
            let error = relative(got, exact);
            assert!(
                error <= 2e-5,
                "{name} with {powers:?} from {first} on: {error:e}"
            );
        }
    }
}

/// A head of so many keys is copied alone, unless there are more threads.
#[test]
fn heads_of_many_keys() {
    let device = Device::flex();
    let tensors = [[1, 3, 20, 64], [1, 3, 5000, 64], [1, 3, 5000, 64]];
    let tensors = tensors.map(|shape| random(shape, &device));
    assert_near(&tensors, Settings::default(), AttentionKey::CAUSAL);
}

#[test]
fn a_query_that_sees_no_key_has_the_result_zero() {
    let device = Device::flex();
    let tensors = [[1, 1, 5, 8], [1, 1, 2, 8], [1, 1, 2, 8]].map(|shape| random(shape, &device));
    for is_fused in [true, false] {
        let [y, dq, ..] = with_gradients(
            &tensors,
            DType::F32,
            Settings::default(),
            AttentionKey::CAUSAL,
            is_fused,
        );
        assert!(y[..24].iter().chain(&dq[..24]).all(|value| *value == 0.0));
        assert!(y[24..].iter().all(|value| *value != 0.0));
    }
}

#[test]
fn large_scores_stay_in_range() {
    let device = Device::flex();
    // Scores of whole numbers are exact in f32: rounded, they would differ by as much as weights of nearly equal keys do.
    let tensors = [[1, 1, 40, 16]; 3].map(|shape| (random(shape, &device) * 100.0).round());
    let run = |dtype, is_fused| {
        let (settings, key) = (Settings::default(), AttentionKey::CAUSAL);
        with_gradients(&tensors, dtype, settings, key, is_fused)
    };
    let (got, exact) = (run(DType::F32, true), run(DType::F64, false));
    for (got, exact) in got[0].iter().zip(&exact[0]) {
        assert!(
            (got - exact).abs() < 1e-3 * (1.0 + exact.abs()),
            "{got}, not {exact}"
        );
    }
}

/// A bias of -10⁹ for all keys of a query, or of the lowest number, is usual for a query that is hidden: it sees all
/// keys alike. A bias may also grow with the key. Blocks of queries are not full.
#[test]
fn gradients_with_a_bias_of_any_size() {
    let device = Device::flex();
    let key = AttentionKey {
        mask: AttentionMask::None,
        bias: AttentionBias::Additive,
        ..AttentionKey::CAUSAL
    };
    for (dtype, [of_result, of_gradient]) in BOUNDS {
        for [queries, keys] in [[1, 64], [5, 5], [200, 200]] {
            let held = |shape| random(shape, &device).cast(FloatDType::from(dtype));
            let [k, v] = [16, 8].map(|width| held([1, 1, keys, width]));
            let of_keys = Tensor::<1, burn::tensor::Int>::arange(0..keys as i64, &device);
            let slope = (of_keys.float() * 0.5).reshape([1, 1, 1, keys]);
            let same = |bias: f64| Tensor::full([1, 1, 1, keys], bias, &device);
            // A score in f32 is lost beside the largest of these biases, so it is zero.
            let zeros = Tensor::zeros([1, 1, queries, 16], &device);
            let lowest = f64::from(f32::MIN);
            for (bias, q) in [
                (same(100.0), held([1, 1, queries, 16])),
                (slope, held([1, 1, queries, 16])),
                (same(-1e9), zeros.clone()),
                (same(lowest), zeros.clone()),
                (same(1e30), zeros),
            ] {
                let bias = match dtype {
                    // bf16 does not have the lowest number of f32.
                    DType::BF16 => bias.clamp_min(-3e38),
                    _ => bias,
                };
                let bias = bias.cast(FloatDType::from(dtype));
                let tensors = [q, k.clone(), v.clone()];
                let of = |dtype, is_fused| {
                    let settings = Settings::default();
                    with_bias(&tensors, Some(&bias), dtype, settings, key, is_fused)
                };
                let (got, exact) = (of(dtype, true), of(DType::F64, false));
                for (name, (got, exact)) in
                    ["y", "dq", "dk", "dv"].iter().zip(got.iter().zip(&exact))
                {
                    let bound = if *name == "y" { of_result } else { of_gradient };
                    assert_eq!(got.len(), exact.len());
                    for (i, (got, exact)) in got.iter().zip(exact).enumerate() {
                        assert!(
                            (got - exact).abs() <= 10.0 * bound * (1.0 + exact.abs()),
                            "{name} {i}, {dtype:?}, {queries} × {keys}, {bias}: {got}, not {exact}"
                        );
                    }
                }
            }
        }
    }
}

/// The largest scores are far from zero, and a sink is as far.
#[test]
fn gradients_of_sinks_and_of_a_bias_far_from_zero() {
    let device = Device::flex();
    let key = AttentionKey {
        mask: AttentionMask::None,
        bias: AttentionBias::Additive,
        sink: Sinks::Learned,
        ..AttentionKey::CAUSAL
    };
    let [q, k] = [5, 70].map(|rows| Tensor::<4>::zeros([1, 2, rows, 16], &device));
    // Numbers that bf16 holds.
    let v = (random([1, 2, 70, 8], &device) * 8.0).round() / 8.0;
    let gradients = |dtype: DType, far: f64, is_fused| {
        let leaf = |tensor: Tensor<4>| {
            let tensor = tensor.cast(FloatDType::from(dtype));
            tensor.autodiff().require_grad()
        };
        let bias = leaf(Tensor::full([1, 2, 5, 70], far, &device));
        let sinks = Tensor::<1>::full([2], far, &device).cast(FloatDType::from(dtype));
        let sinks = sinks.autodiff().require_grad();
        let inputs = Inputs {
            q: leaf(q.clone()),
            k: leaf(k.clone()),
            v: leaf(v.clone()),
            bias: Some(bias.clone()),
            sinks: Some(sinks.clone()),
            lengths: Lengths::default(),
        };
        let y = run(inputs, Settings::default(), key, is_fused);
        let found = y.sum().backward();
        [
            values(bias.grad(&found).expect("a gradient")),
            values(sinks.grad(&found).expect("a gradient")),
        ]
    };
    for (dtype, [_, bound]) in BOUNDS {
        for far in [2000.0, -2000.0] {
            let (got, exact) = (
                gradients(dtype, far, true),
                gradients(DType::F64, far, false),
            );
            for (name, (got, exact)) in ["d_bias", "d_sinks"].iter().zip(got.iter().zip(&exact)) {
                assert!(exact.iter().any(|exact| exact.abs() > 1e-4));
                for (got, exact) in got.iter().zip(exact) {
                    assert!(
                        (got - exact).abs() <= bound * (0.01 + exact.abs()),
                        "{name}, {dtype:?}, {far}: {got}, not {exact}"
                    );
                }
            }
        }
    }
}

#[test]
fn empty_tensors() {
    let device = Device::flex();
    for ([batch, heads, kv_heads, queries, keys, width], key) in [
        ([0, 2, 1, 3, 3, 4], AttentionKey::CAUSAL),
        ([2, 0, 1, 3, 3, 4], AttentionKey::CAUSAL),
        ([2, 2, 1, 0, 3, 4], AttentionKey::CAUSAL),
        ([2, 2, 1, 3, 0, 4], AttentionKey::CAUSAL),
        ([2, 2, 1, 3, 3, 0], AttentionKey::CAUSAL),
        // So many queries are computed in blocks.
        ([1, 2, 1, 192, 192, 0], AttentionKey::CAUSAL),
        ([1, 0, 1, 192, 192, 4], AttentionKey::CAUSAL),
    ] {
        for value_width in [5, 0] {
            let tensors = [
                random([batch, heads, queries, width], &device),
                random([batch, kv_heads, keys, width], &device),
                Tensor::ones([batch, kv_heads, keys, value_width], &device),
            ];
            for dtype in [DType::F32, DType::F64, DType::BF16] {
                let settings = Settings::default();
                let of = |is_fused| with_gradients(&tensors, dtype, settings, key, is_fused);
                let (fused, plain) = (of(true), of(false));
                assert_eq!(fused[0].len(), batch * heads * queries * value_width);
                let mut both = fused[0].iter().zip(&plain[0]);
                assert!(both.all(|(fused, plain)| (fused - plain).abs() < 1e-6));
                for (fused, plain) in fused[1..].iter().zip(&plain[1..]) {
                    assert!(fused.iter().all(|gradient| gradient.is_finite()));
                    assert_eq!(fused.len(), plain.len());
                }
            }
        }
    }
}

#[test]
fn results_do_not_depend_on_the_number_of_threads() {
    let device = Device::flex();
    for (width, keys) in [(32, 150), (64, 150), (64, 5000)] {
        let keys = [2, 2, keys, width];
        let tensors = [[2, 6, 150, width], keys, keys].map(|shape| random(shape, &device));
        let of = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
            pool.expect("threads").install(|| {
                let (settings, key) = (Settings::default(), AttentionKey::CAUSAL);
                with_gradients(&tensors, DType::F32, settings, key, true)
            })
        };
        assert_eq!(of(1), of(3));
    }
}

/// Returns the result and the gradients of queries, keys and values, `[batch, seq, heads, width]`.
fn of_sequences(
    tensors: &[Tensor<4>; 4],
    lengths: Lengths,
    (settings, key): (Settings, AttentionKey),
    is_fused: bool,
) -> [Tensor<4>; 4] {
    let [q, k, v, dy] = tensors.clone().map(|tensor| tensor.require_grad());
    let inputs = Inputs {
        q: q.clone(),
        k: k.clone(),
        v: v.clone(),
        bias: None,
        sinks: None,
        lengths,
    };
    let y = run(inputs, settings, key, is_fused);
    let grads = (y.clone() * dy).sum().backward();
    let of = |tensor: Tensor<4>| tensor.grad(&grads).expect("it is tracked");
    [y.inner(), of(q), of(k), of(v)]
}

fn assert_same(found: &Tensor<4>, expected: &Tensor<4>, what: &str) {
    let worst = difference(&values(found.clone()), &values(expected.clone()));
    // Sums of the same terms in another order.
    assert!(worst < 1e-13, "{what}: {worst:e}");
}

/// Documents in one sequence are what each of them is alone, and padding changes nothing.
#[test]
fn sequences_do_not_see_each_other() {
    let device = Device::flex().autodiff();
    let wide = |shape| random(shape, &device).cast(FloatDType::F64);
    // Blocks of queries and keys begin and end within documents.
    let documents = [[40, 0, 1, 129], [100, 30, 20, 20]];
    let seq = 170;
    let tensors = [4, 2, 2, 4].map(|heads| wide([2, seq, heads, 8]));
    let part = |sequence: usize, from: usize, length: usize| {
        tensors.clone().map(|tensor| {
            let tensor = tensor.narrow(0, sequence, 1).narrow(1, from, length);
            tensor.detach()
        })
    };
    for (mask, window) in [
        (AttentionMask::Causal, AttentionWindow::None),
        (AttentionMask::Causal, AttentionWindow::Sliding),
        (AttentionMask::Causal, AttentionWindow::Chunked),
        (AttentionMask::None, AttentionWindow::None),
        (AttentionMask::None, AttentionWindow::Sliding),
    ] {
        let key = |lengths| AttentionKey {
            mask,
            window,
            lengths,
            layout: HeadLayout::Bsnd,
            ..AttentionKey::CAUSAL
        };
        let settings = Settings {
            window: (window != AttentionWindow::None).then_some(24),
            ..Settings::default()
        };
        let alone = (settings, key(SequenceLengths::None));
        for is_fused in [true, false] {
            let packed = Lengths::new(documents.as_flattened());
            let of_packed = (settings, key(SequenceLengths::Packed));
            let found = of_sequences(&tensors, packed, of_packed, is_fused);
            for (sequence, lengths) in documents.iter().enumerate() {
                let mut from = 0;
                for length in lengths.iter().copied().filter(|length| *length > 0) {
                    let own = part(sequence, from, length);
                    let expected = of_sequences(&own, Lengths::default(), alone, false);
                    for (found, expected) in found.iter().zip(&expected) {
                        let found = found.clone().narrow(0, sequence, 1).narrow(1, from, length);
                        let what = format!("{}, {sequence}, {length}", of_packed.1);
                        assert_same(&found, expected, &what);
                    }
                    from += length;
                }
            }

            let lengths = [97, seq];
            let of_padded = (settings, key(SequenceLengths::Padded));
            // Queries of the padding have results too, which a loss leaves out.
            let mut tensors = tensors.clone();
            let all_dy = tensors[3].clone();
            let rest = Tensor::zeros([1, seq - lengths[0], 4, 8], (&device, DType::F64));
            let start = lengths[0];
            tensors[3] = tensors[3]
                .clone()
                .slice_assign([0..1, start..seq, 0..4, 0..8], rest);
            let found = of_sequences(&tensors, Lengths::new(&lengths), of_padded, is_fused);
            for (sequence, length) in lengths.into_iter().enumerate() {
                let own = part(sequence, 0, length);
                let expected = of_sequences(&own, Lengths::default(), alone, false);
                for (found, expected) in found.iter().zip(&expected) {
                    let found = found.clone().narrow(0, sequence, 1).narrow(1, 0, length);
                    assert_same(&found, expected, &format!("{}, {sequence}", of_padded.1));
                }
            }
            // With the padding on the left, the last queries are those of the sequence.
            let of_left = (settings, key(SequenceLengths::LeftPadded));
            let mut left = tensors.clone();
            let rest = Tensor::zeros([1, seq - start, 4, 8], (&device, DType::F64));
            left[3] = all_dy.slice_assign([0..1, 0..seq - start, 0..4, 0..8], rest);
            let of_sequence = of_sequences(&left, Lengths::new(&lengths), of_left, is_fused);
            let own = part(0, seq - start, start);
            let expected = of_sequences(&own, Lengths::default(), alone, false);
            for (found, expected) in of_sequence.iter().zip(&expected) {
                let found = found.clone().narrow(0, 0, 1);
                let found = found.narrow(1, seq - start, start);
                assert_same(&found, expected, &of_left.1.to_string());
            }
            // Keys and values of the padding have no influence and no gradient.
            for gradient in &found[2..] {
                let rest = gradient
                    .clone()
                    .narrow(0, 0, 1)
                    .narrow(1, start, seq - start);
                assert_eq!(rest.abs().max().into_scalar::<f64>(), 0.0);
            }
        }
    }
}

/// A prefix is a mask of infinities. In a packed sequence each document has its own.
#[test]
fn the_prefix_is_visible_from_everywhere() {
    let device = Device::flex().autodiff();
    let wide = |shape| random(shape, &device).cast(FloatDType::F64);
    let documents = [[40, 0, 1, 129], [100, 30, 20, 20]];
    let seq = 170;
    let tensors = [4, 2, 2, 4].map(|heads| wide([2, seq, heads, 8]));
    for prefix in [0, 1, 33, 129, 500] {
        for of in [SequenceLengths::None, SequenceLengths::Packed] {
            let lengths = match of {
                SequenceLengths::Packed => Lengths::new(documents.as_flattened()),
                _ => Lengths::default(),
            };
            let key = AttentionKey {
                mask: AttentionMask::Prefix,
                lengths: of,
                layout: HeadLayout::Bsnd,
                ..AttentionKey::CAUSAL
            };
            let settings = Settings {
                prefix: Some(prefix),
                ..Settings::default()
            };
            let mut hidden = vec![f64::NEG_INFINITY; 2 * seq * seq];
            for (sequence, own) in documents.iter().enumerate() {
                let whole = [seq];
                let own = match of {
                    SequenceLengths::Packed => own.as_slice(),
                    _ => &whole,
                };
                let mut from = 0;
                for length in own.iter().copied() {
                    for query in 0..length {
                        for key in 0..length {
                            if key <= query || key < prefix {
                                hidden[(sequence * seq + from + query) * seq + from + key] = 0.0;
                            }
                        }
                    }
                    from += length;
                }
            }
            let bias = TensorData::new(hidden, [2, 1, seq, seq]);
            let [q, k, v, dy] = tensors.clone().map(|tensor| tensor.require_grad());
            let inputs = Inputs {
                q: q.clone(),
                k: k.clone(),
                v: v.clone(),
                bias: Some(Tensor::from_data(bias, (&device, DType::F64))),
                sinks: None,
                lengths: Lengths::default(),
            };
            let masked = AttentionKey {
                mask: AttentionMask::None,
                bias: AttentionBias::Additive,
                layout: HeadLayout::Bsnd,
                ..AttentionKey::CAUSAL
            };
            let y = reference(inputs, Settings::default(), masked);
            let grads = (y.clone() * dy).sum().backward();
            let expected = [y.inner()]
                .into_iter()
                .chain([q, k, v].map(|tensor| tensor.grad(&grads).expect("it is tracked")));
            let expected: Vec<_> = expected.collect();
            for is_fused in [true, false] {
                let found = of_sequences(&tensors, lengths.clone(), (settings, key), is_fused);
                for (found, expected) in found.iter().zip(&expected) {
                    assert_same(
                        found,
                        expected,
                        &format!("{key}, {prefix}, fused {is_fused}"),
                    );
                }
            }
        }
    }
}

#[test]
fn a_prefix_must_fit_the_key() {
    let device = Device::flex();
    let said = |settings: Settings, key: AttentionKey| {
        let inputs = Inputs {
            q: random([1, 1, 5, 4], &device),
            k: random([1, 1, 5, 4], &device),
            v: random([1, 1, 5, 4], &device),
            bias: None,
            sinks: None,
            lengths: Lengths::default(),
        };
        let panic = catch_unwind(AssertUnwindSafe(|| fused(inputs, settings, key))).err();
        *panic
            .expect("it is refused")
            .downcast::<String>()
            .expect("a sentence")
    };
    let with = AttentionKey {
        mask: AttentionMask::Prefix,
        ..AttentionKey::CAUSAL
    };
    let windowed = AttentionKey {
        window: AttentionWindow::Sliding,
        ..with
    };
    let prefix = Settings {
        prefix: Some(2),
        ..Settings::default()
    };
    let both = Settings {
        window: Some(2),
        ..prefix
    };
    assert_eq!(
        said(Settings::default(), with),
        "Attention: a prefix is missing, but the semantics are attention(mask=prefix)"
    );
    assert_eq!(
        said(prefix, AttentionKey::CAUSAL),
        "Attention: a prefix is given, but the semantics are attention(mask=causal)"
    );
    assert!(said(both, windowed).ends_with("kernels take one of them; use an additive bias"));
}

#[test]
fn lengths_that_do_not_fit_are_refused() {
    let device = Device::flex();
    let sentence = |[queries, keys]: [usize; 2], lengths: Lengths, of: SequenceLengths, offset| {
        let inputs = Inputs {
            q: random([2, 1, queries, 4], &device),
            k: random([2, 1, keys, 4], &device),
            v: random([2, 1, keys, 4], &device),
            bias: None,
            sinks: None,
            lengths,
        };
        let settings = Settings {
            offset,
            ..Settings::default()
        };
        let key = AttentionKey {
            lengths: of,
            ..AttentionKey::CAUSAL
        };
        let panic = catch_unwind(AssertUnwindSafe(|| fused(inputs, settings, key))).err();
        *panic
            .expect("it is refused")
            .downcast::<String>()
            .expect("a sentence")
    };
    let none = Lengths::default;
    use SequenceLengths::{None as Whole, Packed, Padded};
    for (said, expected) in [
        (
            sentence([5, 5], none(), Packed, None),
            "attention(mask=causal, lengths=packed) needs lengths",
        ),
        (
            sentence([5, 5], Lengths::new(&[5, 5]), Whole, None),
            "there are lengths, but attention(mask=causal) has none",
        ),
        (
            sentence([5, 5], Lengths::new(&[5]), Padded, None),
            "there are 1 lengths, but 2 sequences",
        ),
        (
            sentence([5, 5], Lengths::new(&[5, 6]), Padded, None),
            "sequence 1 has a length of 6, but there are only 5 keys",
        ),
        (
            sentence([5, 5], Lengths::new(&[5, 4]), Packed, None),
            "the documents have 9 positions in all, but there are 2 sequences of 5",
        ),
        (
            sentence([5, 5], Lengths::new(&[usize::MAX, 11]), Packed, None),
            "positions in all, but there are 2 sequences of 5",
        ),
        (
            sentence([5, 5], Lengths::new(&[4, 6]), Packed, None),
            "a document lies in sequence 0 and goes on in sequence 1",
        ),
        (
            sentence([4, 5], Lengths::new(&[5, 5]), Packed, None),
            "packed documents need as many queries as keys, but there are 4 and 5",
        ),
        (
            sentence([5, 5], Lengths::new(&[5, 5]), Packed, Some(1)),
            "there is no offset of the queries",
        ),
    ] {
        assert!(said.contains(expected), "{said}");
    }
}

#[test]
fn what_does_not_go_together_is_refused() {
    let device = Device::flex();
    let q = || random([1, 4, 3, 8], &device);
    let k = || random([1, 2, 5, 8], &device);
    let sentence =
        |q: Tensor<4>, k: Tensor<4>, v: Tensor<4>, settings: Settings, key: AttentionKey| {
            let inputs = Inputs {
                q,
                k,
                v,
                bias: None,
                sinks: None,
                lengths: Lengths::default(),
            };
            let panic = catch_unwind(AssertUnwindSafe(|| fused(inputs, settings, key))).err();
            *panic
                .expect("it is refused")
                .downcast::<String>()
                .expect("a sentence")
        };
    let (plain, causal) = (Settings::default(), AttentionKey::CAUSAL);
    let sliding = AttentionKey {
        window: AttentionWindow::Sliding,
        ..causal
    };
    for (said, expected) in [
        (
            sentence(random([1, 3, 3, 8], &device), k(), k(), plain, causal),
            "Attention: the 3 heads of q can't share the 2 of k equally",
        ),
        (
            sentence(q(), random([1, 2, 5, 7], &device), k(), plain, causal),
            "Attention: heads of q are 8 wide, [1, 4, 3, 8], but heads of k 7, [1, 2, 5, 7]",
        ),
        (
            sentence(q(), k(), random([1, 2, 4, 8], &device), plain, causal),
            "Attention: k is [1, 2, 5, 8] and v [1, 2, 4, 8], but both must have the same heads and keys",
        ),
        (
            sentence(q(), k(), k(), plain, sliding),
            "Attention: a window is missing, but the semantics are attention(mask=causal, window=sliding)",
        ),
        (
            sentence(
                q(),
                k(),
                k(),
                Settings {
                    window: Some(0),
                    ..plain
                },
                sliding,
            ),
            "Attention: a window of 0 positions hides all keys",
        ),
        (
            sentence(
                q(),
                k(),
                k(),
                Settings {
                    scale: Some(f64::NAN),
                    ..plain
                },
                causal,
            ),
            "Attention: the scale is NaN, but must be a finite number in f32",
        ),
    ] {
        assert_eq!(said, expected);
    }
}

const SLIDING: AttentionKey = AttentionKey {
    window: AttentionWindow::Sliding,
    ..AttentionKey::CAUSAL
};
const FULL: AttentionKey = AttentionKey {
    mask: AttentionMask::None,
    ..AttentionKey::CAUSAL
};

sites! {
    RIGHT: "npu_fused_attention", SemanticsKey::Attention(AttentionKey::CAUSAL);
    RIGHT_WINDOW: "npu_fused_attention", SemanticsKey::Attention(SLIDING);
    RIGHT_CACHE: "npu_fused_attention", SemanticsKey::Attention(AttentionKey::CAUSAL);
    RIGHT_FULL: "npu_fused_attention", SemanticsKey::Attention(FULL);
    SEES_ALL: "npu_fused_attention", SemanticsKey::Attention(AttentionKey::CAUSAL);
    OTHER_SCALE: "npu_fused_attention", SemanticsKey::Attention(FULL);
    OTHER_WINDOW: "npu_fused_attention", SemanticsKey::Attention(SLIDING);
}

/// A check compares the first positions of causal attention and, with a window, more of them than the window has.
#[test]
fn bodies_are_compared_on_few_positions() {
    let _first = live::scope(Sampling::first());
    let device = Device::flex().autodiff();
    let call = |site: &'static Site,
                [queries, keys]: [usize; 2],
                window: Option<usize>,
                body: AttentionKey| {
        let settings = Settings {
            window,
            ..Settings::default()
        };
        let of_body = Settings {
            scale: (body == FULL && queries == 41).then_some(0.5),
            window: (body.window == AttentionWindow::Sliding).then(|| {
                window.map_or(1, |window| if queries == 301 { window + 1 } else { window })
            }),
            ..settings
        };
        let most = std::cell::Cell::new(0);
        let run = |(q, k, v): (Tensor<4>, Tensor<4>, Tensor<4>)| {
            most.set(q.dims()[2] * k.dims()[2]);
            let inputs = Inputs {
                q,
                k,
                v,
                bias: None,
                sinks: None,
                lengths: Lengths::default(),
            };
            reference(inputs, of_body, body)
        };
        let shapes = [[3, 4, queries, 8], [3, 2, keys, 8], [3, 2, keys, 8]];
        let tensors = shapes.map(|shape| random(shape, &device).require_grad());
        let y = attention(
            At::new(site),
            tensors,
            &|| None,
            None,
            settings,
            &mut once(run),
        );
        y.sum().backward();
        most.get()
    };
    let causal = AttentionKey::CAUSAL;
    assert_eq!(call(&RIGHT, [300, 300], None, causal), 32 * 32);
    assert_eq!(call(&RIGHT_WINDOW, [300, 300], Some(9), SLIDING), 41 * 41);
    assert_eq!(call(&RIGHT_CACHE, [3, 200], None, causal), 3 * 200);
    assert_eq!(call(&RIGHT_FULL, [300, 280], None, FULL), 2 * 280);
    for site in [&RIGHT, &RIGHT_WINDOW, &RIGHT_CACHE, &RIGHT_FULL] {
        let rows = live::report().rows;
        let row = rows.iter().find(|row| row.site == site.name());
        let row = row.expect("it was checked");
        assert_eq!((row.checked, row.skipped), (1, 0), "{row:?}");
    }
    let mistakes = [
        (&SEES_ALL, [300, 300], None, FULL),
        (&OTHER_SCALE, [41, 41], None, FULL),
        (&OTHER_WINDOW, [301, 301], Some(9), SLIDING),
    ];
    for (site, sizes, window, body) in mistakes {
        let panic = catch_unwind(AssertUnwindSafe(|| call(site, sizes, window, body)));
        let said = *panic
            .expect_err("it is found")
            .downcast::<String>()
            .expect("a message");
        assert!(
            said.contains(site.name().rsplit(':').next().unwrap()),
            "{said}"
        );
    }
}

/// What is infinite or NaN in one row must not reach the gradients of keys that no query of it sees, nor those of others
/// through the padding of a block of queries.
#[test]
fn numbers_that_are_none_stay_in_their_rows() {
    const NAN: f32 = f32::NAN;
    const INF: f32 = f32::INFINITY;
    let none = AttentionKey {
        mask: AttentionMask::None,
        ..AttentionKey::CAUSAL
    };
    // The tensor, the row and the number: of queries, keys, values, and the gradient of the result.
    for (key, [queries, keys], (tensor, row, number)) in [
        (AttentionKey::CAUSAL, [40, 40], (3, 0, NAN)),
        (AttentionKey::CAUSAL, [40, 40], (3, 7, INF)),
        (AttentionKey::CAUSAL, [40, 40], (0, 3, NAN)),
        (AttentionKey::CAUSAL, [40, 40], (0, 3, INF)),
        (AttentionKey::CAUSAL, [40, 40], (1, 39, -INF)),
        (none, [1, 40], (1, 5, INF)),
        (none, [5, 5], (1, 2, -INF)),
    ] {
        for dtype in [DType::F64, DType::F32, DType::BF16, DType::F16] {
            let device = Device::flex();
            let shapes = [queries, keys, keys, queries].map(|rows| [1, 1, rows, 32]);
            // Positive, so that a score with an infinite key has no other infinite term.
            let mut tensors = shapes.map(|shape| {
                let numbers = Distribution::Uniform(0.1, 0.5);
                Tensor::<4>::random(shape, numbers, (&device, dtype))
            });
            let spoilt = Tensor::<4>::full([1, 1, 1, 1], number, (&device, dtype));
            tensors[tensor] = tensors[tensor]
                .clone()
                .slice_assign([0..1, 0..1, row..row + 1, 0..1], spoilt);
            let gradients = |is_fused| {
                let [q, k, v, dy] = tensors.clone().map(Tensor::autodiff);
                let leaves = [q, k, v].map(Tensor::require_grad);
                let [q, k, v] = leaves.clone();
                let inputs = Inputs {
                    q,
                    k,
                    v,
                    bias: None,
                    sinks: None,
                    lengths: Lengths::default(),
                };
                let y = run(inputs, Settings::default(), key, is_fused);
                let gradients = (y * dy).sum().backward();
                leaves.map(|leaf| leaf.grad(&gradients).expect("it is tracked").into_data())
            };
            for (name, (ours, theirs)) in ["q", "k", "v"]
                .into_iter()
                .zip(gradients(true).iter().zip(&gradients(false)))
            {
                let lost = ours.iter::<f64>().zip(theirs.iter::<f64>());
                let lost = lost.filter(|(ours, theirs)| theirs.is_finite() && !ours.is_finite());
                let what = format!("{key}, {dtype:?}, {number} in tensor {tensor}: d_{name}");
                assert_eq!(lost.count(), 0, "{what}");
            }
        }
    }
}
