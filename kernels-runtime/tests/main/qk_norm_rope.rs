//! Tests norms and rotations of queries and keys: against transformers' modules, against the separate operations, and
//! their refusals.

use crate::support::{self, Fixture, values};
use burn::tensor::{Device, Distribution, FloatDType, Tensor};
use kernels_runtime::dispatch::Reason;
use kernels_runtime::ops::qk_norm_rope::{Inputs, Settings, fused, reference};
use kernels_runtime::ops::{rms_norm, rope};
use kernels_runtime::semantics::*;
use std::panic::{AssertUnwindSafe, catch_unwind};

const EPS: f64 = 1e-6;

fn settings(key: QkNormRopeKey) -> Settings {
    Settings {
        eps: (key.norm != QkNorm::None).then_some(EPS),
    }
}

/// Both are as near to the exact numbers as the modules are, results and gradients.
#[test]
fn norms_and_rotations_are_those_of_transformers() {
    let fixture = Fixture::open("qk_norm_rope");
    let device = Device::flex().autodiff();
    let modules = [
        ("qwen3", QkNormRopeKey::QWEN3),
        ("gemma3", QkNormRopeKey::GEMMA3),
        ("olmo2", QkNormRopeKey::OLMO2),
    ];
    for (module, key) in modules {
        for dtype in ["f32", "bf16", "f16"] {
            for is_fused in [true, false] {
                let case = format!("{module}.{dtype}");
                let heads = |name: &str| -> Tensor<4> {
                    fixture.tensor(&format!("{case}.{name}"), &device)
                };
                let weight = |name: &str| -> Tensor<1> {
                    let weight = fixture.tensor(&format!("{case}.{name}"), &device);
                    weight.require_grad()
                };
                let [q, k] = ["q", "k"].map(|name| heads(name).require_grad());
                let [q_weight, k_weight] = ["q_weight", "k_weight"].map(weight);
                let inputs = Inputs {
                    q: q.clone(),
                    k: k.clone(),
                    q_weight: Some(q_weight.clone()),
                    k_weight: Some(k_weight.clone()),
                    cos: fixture.tensor(&format!("{case}.cos"), &device),
                    sin: fixture.tensor(&format!("{case}.sin"), &device),
                };
                let (q_out, k_out) = match is_fused {
                    true => fused(inputs, settings(key), key).expect("a kernel"),
                    false => reference(inputs, settings(key), key),
                };
                let loss = (q_out.clone() * heads("d_q_out")).sum()
                    + (k_out.clone() * heads("d_k_out")).sum();
                let grads = loss.backward();
                let gradient = |tensor: &Tensor<4>| values(tensor.grad(&grads).unwrap());
                let of_weight = |tensor: &Tensor<1>| values(tensor.grad(&grads).unwrap());
                for (result, got) in [
                    ("q_out", values(q_out)),
                    ("k_out", values(k_out)),
                    ("d_q", gradient(&q)),
                    ("d_k", gradient(&k)),
                    ("d_q_weight", of_weight(&q_weight)),
                    ("d_k_weight", of_weight(&k_weight)),
                ] {
                    let what = format!("fused {is_fused}, {case} {result}");
                    let exact = format!("{case}.ref.{result}");
                    let theirs = format!("{case}.{module}.{result}");
                    // The kernel adds in another order than the module, and a composition rounds gradients at its own
                    // casts.
                    let slack = if is_fused { 1.3 } else { 2.0 };
                    fixture.as_near_as(slack, &what, &got, &exact, &theirs);
                }
            }
        }
    }
}

/// Every key that has both a norm or none and a rotation.
fn keys() -> Vec<QkNormRopeKey> {
    let mut keys = Vec::new();
    let bases = [
        QkNormRopeKey::QWEN3,
        QkNormRopeKey::GEMMA3,
        QkNormRopeKey::OLMO2,
        QkNormRopeKey::LLAMA,
    ];
    let orders = [
        (RopeStyle::Half, TableLayout::Halves),
        (RopeStyle::Half, TableLayout::Pairs),
        (RopeStyle::Interleaved, TableLayout::Halves),
        (RopeStyle::Interleaved, TableLayout::Neighbours),
        (RopeStyle::InterleavedToHalf, TableLayout::Pairs),
    ];
    for base in bases {
        for (style, table) in orders {
            for layout in [HeadLayout::Bnsd, HeadLayout::Bsnd] {
                for width in [RotaryWidth::Full, RotaryWidth::Partial] {
                    keys.push(QkNormRopeKey {
                        style,
                        table,
                        layout,
                        width,
                        ..base
                    });
                }
            }
        }
    }
    keys
}

fn random<const D: usize>(shape: [usize; D], dtype: FloatDType, device: &Device) -> Tensor<D> {
    let numbers: Tensor<D> = Tensor::random(shape, Distribution::Uniform(-1.0, 1.0), device);
    numbers.cast(dtype)
}

/// Makes inputs with 3 heads of queries and 2 of keys, of width 12. On a device with autodiff, all have gradients.
fn inputs(
    key: QkNormRopeKey,
    dtype: FloatDType,
    tables: FloatDType,
    [b, s]: [usize; 2],
    device: &Device,
) -> Inputs {
    const WIDTH: usize = 12;
    let rotated = match key.width {
        RotaryWidth::Full => WIDTH,
        RotaryWidth::Partial => WIDTH - 4,
    };
    let columns = match key.table {
        TableLayout::Pairs => rotated / 2,
        TableLayout::Halves | TableLayout::Neighbours => rotated,
    };
    fn leaf<const D: usize>(shape: [usize; D], dtype: FloatDType, device: &Device) -> Tensor<D> {
        let tensor = random(shape, dtype, device);
        match device.is_autodiff() {
            true => tensor.require_grad(),
            false => tensor,
        }
    }
    let heads = |heads| leaf([b, s, heads, WIDTH], dtype, device);
    let table = || leaf([1, s, columns], tables, device);
    let weight = |heads: usize| -> Option<Tensor<1>> {
        let elements = match key.norm {
            QkNorm::None => return None,
            QkNorm::Head => WIDTH,
            QkNorm::Row => heads * WIDTH,
        };
        Some(leaf([elements], dtype, device))
    };
    Inputs {
        q: heads(3),
        k: heads(2),
        q_weight: weight(3),
        k_weight: weight(2),
        cos: table(),
        sin: table(),
    }
}

/// The separate operations: a norm, a change of the layout and a rotation.
fn separately(inputs: Inputs, key: QkNormRopeKey) -> (Tensor<4>, Tensor<4>) {
    let rms = RmsNormKey {
        offset: key.offset,
        rounding: key.rounding,
        ..RmsNormKey::LLAMA
    };
    fn norm<const D: usize>(x: Tensor<D>, weight: Option<Tensor<1>>, key: RmsNormKey) -> Tensor<D> {
        let settings = rms_norm::Settings {
            eps: EPS,
            group_size: None,
        };
        let gate = None;
        rms_norm::fused(rms_norm::Inputs { x, weight, gate }, settings, key).unwrap()
    }
    let prepare = |x: Tensor<4>, weight| {
        let shape @ [b, s, heads, d] = x.dims();
        let x = match key.norm {
            QkNorm::None => x,
            QkNorm::Head => norm(x, weight, rms),
            QkNorm::Row => norm(x.reshape([b, s, heads * d]), weight, rms).reshape(shape),
        };
        match key.layout {
            HeadLayout::Bnsd => x.swap_dims(1, 2),
            HeadLayout::Bsnd => x,
        }
    };
    let q = prepare(inputs.q, inputs.q_weight);
    let k = prepare(inputs.k, inputs.k_weight);
    let rotation = RopeKey {
        style: key.style,
        width: key.width,
        layout: key.layout,
        table: key.table,
        sections: Sections::None,
    };
    rope::fused(q, k, inputs.cos, inputs.sin, rotation).unwrap()
}

/// Results, and the gradients of all inputs.
fn computed(inputs: Inputs, run: impl FnOnce(Inputs) -> (Tensor<4>, Tensor<4>)) -> Vec<Vec<f64>> {
    let (q, k) = run(inputs.clone());
    let slope = |y: &Tensor<4>| {
        let elements = y.shape().num_elements() as i64;
        // Burn's reshape takes a size of 0 for that of the axis before.
        if elements == 0 {
            return y.clone().sum();
        }
        let numbers = Tensor::<1, burn::tensor::Int>::arange(0..elements, &y.device());
        let slope = numbers.float().sin().cast(FloatDType::from(y.dtype()));
        (y.clone() * slope.reshape(y.shape())).sum()
    };
    let grads = (slope(&q) + slope(&k)).backward();
    let mut all = vec![values(q), values(k)];
    all.extend([inputs.q, inputs.k].map(|x| values(x.grad(&grads).unwrap())));
    all.extend([inputs.cos, inputs.sin].map(|x| values(x.grad(&grads).unwrap())));
    let weights = [inputs.q_weight, inputs.k_weight].into_iter().flatten();
    all.extend(weights.map(|x| values(x.grad(&grads).unwrap())));
    all
}

/// The kernel gives the bits of the separate kernels, so turning it on changes nothing. Only the gradients of weights
/// may be summed in another order.
#[test]
fn every_key_and_type_beside_the_separate_operations() {
    let device = Device::flex().autodiff();
    let dtypes = [
        (FloatDType::F64, FloatDType::F64),
        (FloatDType::F32, FloatDType::F32),
        (FloatDType::BF16, FloatDType::BF16),
        (FloatDType::BF16, FloatDType::F32),
        (FloatDType::F16, FloatDType::F16),
    ];
    for key in keys() {
        for (dtype, tables) in dtypes {
            let inputs = inputs(key, dtype, tables, [2, 5], &device);
            let what = format!("{key}, {dtype:?}, tables {tables:?}");
            let ours = computed(inputs.clone(), |inputs| {
                fused(inputs, settings(key), key).expect(&what)
            });
            let apart = computed(inputs, |inputs| separately(inputs, key));
            assert_eq!(ours.len(), apart.len(), "{what}");
            for (number, (ours, apart)) in ours.iter().zip(&apart).enumerate() {
                if number < 6 {
                    assert_eq!(ours, apart, "{what}, tensor {number}");
                } else {
                    let error = support::relative_error(ours, apart);
                    assert!(error < 1e-2, "{what}, tensor {number}: {error:e}");
                }
            }
        }
    }
}

/// Work that is spread over threads, with several chunks for each sequence.
#[test]
fn many_tokens_are_as_those_of_the_separate_operations() {
    let device = Device::flex().autodiff();
    for base in [QkNormRopeKey::QWEN3, QkNormRopeKey::OLMO2] {
        for layout in [HeadLayout::Bnsd, HeadLayout::Bsnd] {
            let key = QkNormRopeKey { layout, ..base };
            let f32 = FloatDType::F32;
            let inputs = inputs(key, f32, f32, [3, 1400], &device);
            let ours = computed(inputs.clone(), |inputs| {
                fused(inputs, settings(key), key).unwrap()
            });
            let apart = computed(inputs, |inputs| separately(inputs, key));
            for (number, (ours, apart)) in ours.iter().zip(&apart).enumerate() {
                let error = support::relative_error(ours, apart);
                let bound = if number < 6 { 0.0 } else { 1e-5 };
                assert!(error <= bound, "{key}, tensor {number}: {error:e}");
            }
        }
    }
}

/// Queries and keys that are parts of one packed projection are read in place.
#[test]
fn parts_of_a_packed_projection() {
    let device = Device::flex();
    for base in [
        QkNormRopeKey::QWEN3,
        QkNormRopeKey::OLMO2,
        QkNormRopeKey::LLAMA,
    ] {
        let f32 = FloatDType::F32;
        let given = inputs(base, f32, f32, [2, 4], &device);
        let packed = random([2, 4, 5, 12], f32, &device);
        let parts = |copied: bool| {
            let part = |start, heads| {
                let part = packed.clone().narrow(2, start, heads);
                match copied {
                    true => Tensor::from_data(part.into_data(), &device),
                    false => part,
                }
            };
            let inputs = Inputs {
                q: part(0, 3),
                k: part(3, 2),
                ..given.clone()
            };
            let (q, k) = fused(inputs, settings(base), base).unwrap();
            [values(q), values(k)]
        };
        assert_eq!(parts(false), parts(true), "{base}");
    }
}

#[test]
fn nothing_to_compute() {
    let device = Device::flex().autodiff();
    for key in keys() {
        for sizes in [[0, 5], [2, 0]] {
            let inputs = inputs(key, FloatDType::F32, FloatDType::F32, sizes, &device);
            let found = computed(inputs, |inputs| fused(inputs, settings(key), key).unwrap());
            for gradient in &found[6..] {
                assert!(gradient.iter().all(|value| *value == 0.0), "{key}");
            }
        }
    }
}

fn refusal<T>(run: impl FnOnce() -> T) -> String {
    let panic = catch_unwind(AssertUnwindSafe(run)).err();
    *panic
        .expect("it is refused")
        .downcast::<String>()
        .expect("a message")
}

#[test]
fn operands_that_do_not_fit_are_refused_in_sentences() {
    let device = Device::flex();
    let f32 = FloatDType::F32;
    let key = QkNormRopeKey::QWEN3;
    let good = || inputs(key, f32, f32, [2, 5], &device);
    let with = |inputs: Inputs, key| {
        let own = inputs.clone();
        let by_kernel = refusal(|| fused(inputs, settings(key), key));
        assert_eq!(by_kernel, refusal(|| reference(own, settings(key), key)));
        by_kernel
    };
    let missing = Inputs {
        q_weight: None,
        ..good()
    };
    assert!(with(missing, key).contains("the norm of q must have its weight"));
    let row = with(good(), QkNormRopeKey::OLMO2);
    assert_eq!(
        row,
        "QkNormRoPE: the weight for q has 12 elements, but all heads of a token have 36"
    );
    let longer = Inputs {
        k: random([2, 6, 2, 12], f32, &device),
        ..good()
    };
    assert!(with(longer, key).contains("the cos table is [1, 5, 12]"));
    let batches = Inputs {
        k: random([1, 5, 2, 12], f32, &device),
        ..good()
    };
    assert!(with(batches, key).contains("only their numbers of heads (axis 2) may differ"));
    let mixed = Inputs {
        k_weight: Some(random([12], FloatDType::F64, &device)),
        ..good()
    };
    assert_eq!(
        fused(mixed, settings(key), key).unwrap_err(),
        Reason::MixedDtypes
    );
}
