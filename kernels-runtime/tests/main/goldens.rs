//! Compares the operations with Hugging Face transformers' modules and PyTorch's AdamW, by numbers that those computed.
//!
//! The fixtures hold inputs rounded to a dtype, exact results (`ref.*`, f64), and the module's results in the dtype. A
//! path passes if its error against the exact result, in the L2 norm of the tensor, is at most the module's own. The
//! tolerance is 10 % for the order of additions, and one f32 rounding (6e-8) in case the module is exact by chance.

use crate::comparison::difference;
use crate::support::{Fixture, values};
use burn::tensor::{Device, Tensor, TensorData};
use kernels_runtime::ops::{adam_w, glu, rms_norm, rope};
use kernels_runtime::semantics::*;

/// Both paths of an operation.
const PATHS: [(&str, bool); 2] = [("fused", true), ("reference", false)];

/// The tolerance for another order of additions than the module's.
const SLACK: f64 = 1.1;

fn norm(
    x: Tensor<2>,
    weight: Option<Tensor<1>>,
    eps: f64,
    key: RmsNormKey,
    fused: bool,
) -> Tensor<2> {
    let inputs = rms_norm::Inputs {
        x,
        weight,
        gate: None,
    };
    let settings = rms_norm::Settings {
        eps,
        group_size: None,
    };
    if fused {
        rms_norm::fused(inputs, settings, key).unwrap()
    } else {
        rms_norm::reference(inputs, settings, key)
    }
}

#[test]
fn rms_norm_matches_transformers() {
    let fixture = Fixture::open("rmsnorm");
    let device = Device::flex().autodiff();
    let gemma = RmsNormKey {
        rounding: Rounding::Gemma,
        ..RmsNormKey::LLAMA
    };
    let bare = RmsNormKey {
        scale: Scale::None,
        ..gemma
    };
    let modules = [
        ("llama", "weight", Some("w"), RmsNormKey::LLAMA),
        ("olmo2", "weight", Some("w"), gemma),
        ("gemma3n", "weight", Some("w"), gemma),
        ("gemma2", "one_plus", Some("w0"), RmsNormKey::GEMMA),
        ("llama4_l2", "none", None, bare),
    ];
    let cases = fixture.cases("x");
    assert_eq!(cases.len(), 15);
    for case in cases {
        let eps = if case.starts_with("3x33") || case.starts_with("1x1040") {
            1e-5
        } else {
            1e-6
        };
        for (module, exact, weight, key) in modules {
            for (path, fused) in PATHS {
                let x = fixture.rows(&format!("{case}.x"), &device).require_grad();
                let weight: Option<Tensor<1>> = weight.map(|name| {
                    let weight: Tensor<1> = fixture.tensor(&format!("{case}.{name}"), &device);
                    weight.require_grad()
                });
                let y = norm(x.clone(), weight.clone(), eps, key, fused);
                let dy = fixture.rows(&format!("{case}.dy"), &device);
                let grads = (y.clone() * dy).sum().backward();
                let mut results = vec![("y", values(y)), ("dx", values(x.grad(&grads).unwrap()))];
                if let Some(weight) = weight {
                    results.push(("dw", values(weight.grad(&grads).unwrap())));
                }
                for (result, got) in results {
                    fixture.as_near_as(
                        SLACK,
                        &format!("{path} {module} {case} {result}"),
                        &got,
                        &format!("{case}.ref.{exact}.{result}"),
                        &format!("{case}.{module}.{result}"),
                    );
                }
            }
        }
    }
}

/// Compares gated norms. `tests/fixtures/ops/generate_gated.py` generates their numbers with transformers' modules.
#[test]
fn gated_norms_match_transformers() {
    let fixture = Fixture::open("rmsnorm_gated");
    let device = Device::flex().autodiff();
    let modules = [
        ("qwen3_next", Gating::AfterNorm, Rounding::Llama, 1),
        ("mamba2", Gating::BeforeNorm, Rounding::Llama, 1),
        ("zamba2", Gating::BeforeNorm, Rounding::Llama, 4),
        ("falcon_h1_after", Gating::AfterNorm, Rounding::Gemma, 2),
        ("falcon_h1_before", Gating::BeforeNorm, Rounding::Gemma, 2),
    ];
    let cases = fixture.cases("x");
    assert_eq!(cases.len(), 30);
    for case in cases {
        let (module, gating, rounding, groups) = *modules
            .iter()
            .find(|(module, ..)| case.starts_with(&format!("{module}.")))
            .unwrap_or_else(|| panic!("{case} is of no module"));
        let key = RmsNormKey {
            rounding,
            gating,
            groups: if groups == 1 {
                Groups::One
            } else {
                Groups::Many
            },
            ..RmsNormKey::LLAMA
        };
        for (path, fused) in PATHS {
            let input = |name: &str| fixture.rows(&format!("{case}.{name}"), &device);
            let (x, gate) = (input("x").require_grad(), input("gate").require_grad());
            let weight: Tensor<1> = fixture.tensor(&format!("{case}.weight"), &device);
            let weight = weight.require_grad();
            let inputs = rms_norm::Inputs {
                x: x.clone(),
                weight: Some(weight.clone()),
                gate: Some(gate.clone()),
            };
            let settings = rms_norm::Settings {
                eps: 1e-6,
                group_size: (groups > 1).then(|| x.dims()[1] / groups),
            };
            let y = if fused {
                rms_norm::fused(inputs, settings, key).unwrap()
            } else {
                rms_norm::reference(inputs, settings, key)
            };
            let grads = (y.clone() * input("dy")).sum().backward();
            for (result, got) in [
                ("y", values(y)),
                ("dx", values(x.grad(&grads).unwrap())),
                ("dgate", values(gate.grad(&grads).unwrap())),
                ("dw", values(weight.grad(&grads).unwrap())),
            ] {
                fixture.as_near_as(
                    SLACK,
                    &format!("{path} {case} {result}"),
                    &got,
                    &format!("{case}.ref.{result}"),
                    &format!("{case}.{module}.{result}"),
                );
            }
        }
    }
}

/// The place of the rounding is part of the semantics. With Llama's, results in half types equal those of transformers'
/// Llama bit for bit, except for the few where rstd is another f32.
#[test]
fn the_rounding_order_is_that_of_the_model() {
    let fixture = Fixture::open("rmsnorm");
    let device = Device::flex();
    for case in ["2x7x64.bf16", "2x7x64.f16", "2x200.bf16", "2x200.f16"] {
        let different = |rounding, module: &str| {
            let key = RmsNormKey {
                rounding,
                ..RmsNormKey::LLAMA
            };
            let x = fixture.rows(&format!("{case}.x"), &device);
            let w = fixture.tensor(&format!("{case}.w"), &device);
            let y = values(norm(x, Some(w), 1e-6, key, true));
            let theirs = fixture.values(&format!("{case}.{module}.y"));
            let count = y.iter().zip(&theirs).filter(|(a, b)| a != b).count();
            count as f64 / y.len() as f64
        };
        assert!(different(Rounding::Llama, "llama") < 0.005, "{case}");
        assert!(different(Rounding::Gemma, "gemma3n") < 0.005, "{case}");
        assert!(different(Rounding::Gemma, "olmo2") < 0.005, "{case}");
        assert!(different(Rounding::Gemma, "llama") > 0.05, "{case}");
    }
}

fn unit(inputs: glu::Inputs<2>, settings: glu::Settings, key: GluKey, fused: bool) -> Tensor<2> {
    if fused {
        glu::fused(inputs, settings, key).unwrap()
    } else {
        glu::reference(inputs, settings, key)
    }
}

#[test]
fn gated_linear_units_match_transformers() {
    let fixture = Fixture::open("glu");
    let device = Device::flex().autodiff();
    let activations = [
        ("silu", Activation::Silu),
        ("gelu", Activation::Gelu),
        ("gelu_pytorch_tanh", Activation::GeluTanh),
    ];
    let mut compared = 0;
    for case in fixture.cases("b") {
        for (name, activation) in activations {
            // The large shapes are tested with silu only.
            if !fixture.has(&format!("{case}.{name}.y")) {
                continue;
            }
            let key = GluKey {
                activation,
                ..GluKey::SWIGLU
            };
            for (path, fused) in PATHS {
                let gate = fixture.rows(&format!("{case}.a"), &device).require_grad();
                let up = fixture.rows(&format!("{case}.b"), &device).require_grad();
                let inputs = glu::Inputs::Separate {
                    gate: gate.clone(),
                    up: up.clone(),
                };
                let y = unit(inputs, glu::Settings::default(), key, fused);
                let dy = fixture.rows(&format!("{case}.dy"), &device);
                let grads = (y.clone() * dy).sum().backward();
                for (result, got) in [
                    ("y", values(y)),
                    ("da", values(gate.grad(&grads).unwrap())),
                    ("db", values(up.grad(&grads).unwrap())),
                ] {
                    fixture.as_near_as(
                        SLACK,
                        &format!("{path} {name} {case} {result}"),
                        &got,
                        &format!("{case}.ref.{name}.{result}"),
                        &format!("{case}.{name}.{result}"),
                    );
                }
                compared += 1;
            }
        }
    }
    // Five shapes with silu, three of them with both GELUs, in three dtypes on both paths.
    assert_eq!(compared, (5 + 3 + 3) * 3 * 2);
}

/// Compares gpt-oss's units: interleaved, clamped at 7, with the offset of up. In the half types some elements are
/// exactly 7, where the gradient is zero.
#[test]
fn clamped_units_match_transformers() {
    let fixture = Fixture::open("glu");
    let device = Device::flex().autodiff();
    let key = GluKey {
        activation: Activation::QuickGelu,
        projections: Projections::Interleaved,
        clamp: Clamp::Limit,
        up_offset: Offset::One,
        topk: TopK::None,
    };
    let settings = glu::Settings {
        limit: Some(7.0),
        sparsity: None,
    };
    let cases = fixture.cases("gate_up");
    assert_eq!(cases.len(), 9);
    for case in cases {
        for (path, fused) in PATHS {
            let gate_up = fixture
                .rows(&format!("{case}.gate_up"), &device)
                .require_grad();
            let y = unit(glu::Inputs::Packed(gate_up.clone()), settings, key, fused);
            let dy = fixture.rows(&format!("{case}.dy"), &device);
            let grads = (y.clone() * dy).sum().backward();
            for (result, got) in [
                ("y", values(y)),
                ("d_gate_up", values(gate_up.grad(&grads).unwrap())),
            ] {
                fixture.as_near_as(
                    SLACK,
                    &format!("{path} {case} {result}"),
                    &got,
                    &format!("{case}.ref.{result}"),
                    &format!("{case}.gpt_oss.{result}"),
                );
            }
        }
    }
}

/// Compares Gemma 3n's top-k alone: the activation is the identity and up is 1.
#[test]
fn sparse_gates_match_transformers() {
    let fixture = Fixture::open("glu");
    let device = Device::flex().autodiff();
    let key = GluKey {
        activation: Activation::Identity,
        topk: TopK::Gaussian,
        ..GluKey::SWIGLU
    };
    let settings = glu::Settings {
        limit: None,
        sparsity: Some(0.95),
    };
    let cases: Vec<String> = fixture
        .cases("a")
        .into_iter()
        .filter(|case| case.starts_with("gemma3n_topk"))
        .collect();
    assert_eq!(cases.len(), 6);
    for case in cases {
        for (path, fused) in PATHS {
            let gate = fixture.rows(&format!("{case}.a"), &device).require_grad();
            let inputs = glu::Inputs::Separate {
                gate: gate.clone(),
                up: gate.ones_like(),
            };
            let y = unit(inputs, settings, key, fused);
            let dy = fixture.rows(&format!("{case}.dy"), &device);
            let grads = (y.clone() * dy).sum().backward();
            for (result, got) in [("y", values(y)), ("da", values(gate.grad(&grads).unwrap()))] {
                fixture.as_near_as(
                    SLACK,
                    &format!("{path} {case} {result}"),
                    &got,
                    &format!("{case}.ref.{result}"),
                    &format!("{case}.gemma3n.{result}"),
                );
            }
        }
    }
}

/// Returns the key of a case of `rope`, such as `partial_rotate_half.b2h4k2s17d16r8.bf16`.
fn rope_key(case: &str) -> RopeKey {
    let mut words = case.split('.');
    let (kind, shape) = (words.next().unwrap(), words.next().unwrap());
    let (_, widths) = shape.split_once('d').unwrap();
    let (head, rotated) = widths.split_once('r').unwrap();
    let width = if head == rotated {
        RotaryWidth::Full
    } else {
        RotaryWidth::Partial
    };
    let key = RopeKey {
        width,
        ..RopeKey::LLAMA
    };
    match kind {
        "rotate_half" | "partial_rotate_half" | "rotate_half_f32_table_olmo2" => key,
        "interleaved_glm4" => RopeKey {
            style: RopeStyle::Interleaved,
            ..key
        },
        "interleaved_to_half_dsv3" => RopeKey {
            style: RopeStyle::InterleavedToHalf,
            ..key
        },
        "half_table_gpt_oss" => RopeKey {
            table: TableLayout::Pairs,
            ..key
        },
        "complex_interleaved_llama4" => RopeKey {
            style: RopeStyle::Interleaved,
            layout: HeadLayout::Bsnd,
            table: TableLayout::Pairs,
            ..key
        },
        other => panic!("no key is known for {other}"),
    }
}

#[test]
fn rope_matches_transformers() {
    let fixture = Fixture::open("rope");
    let device = Device::flex().autodiff();
    let cases = fixture.cases("q");
    // 14 cases of seven kinds, in three dtypes.
    assert_eq!(cases.len(), 14 * 3);
    for case in cases {
        let key = rope_key(&case);
        for (path, fused) in PATHS {
            let input =
                |name: &str| -> Tensor<4> { fixture.tensor(&format!("{case}.{name}"), &device) };
            let table =
                |name: &str| -> Tensor<3> { fixture.tensor(&format!("{case}.{name}"), &device) };
            let (q, k) = (input("q").require_grad(), input("k").require_grad());
            let (cos, sin) = (table("cos"), table("sin"));
            let (q_out, k_out) = if fused {
                rope::fused(q.clone(), k.clone(), cos, sin, key).unwrap()
            } else {
                rope::reference(q.clone(), k.clone(), cos, sin, key)
            };
            let loss =
                (q_out.clone() * input("d_q_out")).sum() + (k_out.clone() * input("d_k_out")).sum();
            let grads = loss.backward();
            for (result, got) in [
                ("q_out", values(q_out)),
                ("k_out", values(k_out)),
                ("d_q", values(q.grad(&grads).unwrap())),
                ("d_k", values(k.grad(&grads).unwrap())),
            ] {
                fixture.as_near_as(
                    SLACK,
                    &format!("{path} {case} {result}"),
                    &got,
                    &format!("{case}.ref.{result}"),
                    &format!("{case}.hf.{result}"),
                );
            }
        }
    }
}

/// Returns the table of one axis of positions `[b, s, w]`, as transformers' `cat(freqs, freqs)`.
fn table_of(positions: &[f64], frequencies: &[f64], function: fn(f32) -> f32) -> Vec<f32> {
    positions
        .iter()
        .flat_map(|position| {
            let angle = |frequency: &f64| *position as f32 * *frequency as f32;
            let row: Vec<f32> = frequencies.iter().map(|f| function(angle(f))).collect();
            row.repeat(2)
        })
        .collect()
}

/// Tables of time, height and width become transformers' merged ones. Heads of ones and zeros show every element of a
/// table that is read.
#[test]
fn sections_merge_like_transformers() {
    let fixture = Fixture::open("rope_tables");
    let device = Device::flex();
    let models = [
        ("mrope_qwen2_5_vl_d16", [2, 3, 3], Sections::Chunked),
        ("mrope_qwen2_5_vl_d128", [16, 24, 24], Sections::Chunked),
        ("mrope_qwen3_vl_d16", [4, 2, 2], Sections::Interleaved),
        ("mrope_qwen3_vl_d128", [24, 20, 20], Sections::Interleaved),
    ];
    for (case, sections, order) in models {
        let key = RopeKey {
            sections: order,
            ..RopeKey::LLAMA
        };
        let positions = fixture.data(&format!("{case}.position_ids"));
        let [three, b, s] = positions.shape().dims();
        let positions: Vec<f64> = positions.iter::<f64>().collect();
        let frequencies = fixture.values(&format!("{case}.inv_freq"));
        let w = 2 * frequencies.len();
        let table = |function| -> Tensor<4> {
            let values = table_of(&positions, &frequencies, function);
            Tensor::from_data(TensorData::new(values, [three, b, s, w]), &device)
        };
        let (one, zero) = (
            Tensor::<4>::ones([b, 1, s, w / 2], &device),
            Tensor::<4>::zeros([b, 1, s, w / 2], &device),
        );
        let first = Tensor::cat(vec![one.clone(), zero.clone()], 3);
        let second = Tensor::cat(vec![zero, one], 3);
        let theirs = |name: &str| fixture.tensor::<3>(&format!("{case}.{name}"), &device);
        let (their_cos, their_sin) = (theirs("cos"), theirs("sin"));
        let half = |table: &Tensor<3>, i| table.clone().narrow(2, i * w / 2, w / 2);
        // (1, 0) rotates to (cos, sin), and (0, 1) to (−sin, cos).
        let expected = [
            Tensor::cat(vec![half(&their_cos, 0), half(&their_sin, 1)], 2),
            Tensor::cat(vec![half(&their_sin, 0).neg(), half(&their_cos, 1)], 2),
        ];
        for (path, fused) in PATHS {
            let (cos, sin) = (table(f32::cos), table(f32::sin));
            let (q, k) = (first.clone(), second.clone());
            let (q, k) = if fused {
                rope::fused_sections(q, k, cos, sin, sections, key).unwrap()
            } else {
                rope::reference_sections(q, k, cos, sin, sections, key)
            };
            for (got, expected) in [q, k].into_iter().zip(&expected) {
                let worst = difference(&values(got), &values(expected.clone()));
                // The cosines of the f32 angles come from another library.
                assert!(worst < 1e-6, "{path} {case}: {worst:e}");
            }
        }
    }
}

/// Compares five steps of AdamW. PyTorch's fused optimiser also computes in f32, with as many roundings.
#[test]
fn steps_of_adam_w_match_torch() {
    let fixture = Fixture::open("adam_w");
    let device = Device::flex();
    let cases = fixture.cases("start");
    assert_eq!(cases.len(), 3);
    for case in cases {
        for (path, fused) in PATHS {
            let parameter: Tensor<2> = fixture.tensor(&format!("{case}.start"), &device);
            let gradients: Tensor<3> = fixture.tensor(&format!("{case}.gradients"), &device);
            let mut state = adam_w::State {
                moment_1: parameter.zeros_like(),
                moment_2: parameter.zeros_like(),
                parameter,
            };
            for (before, gradient) in gradients.iter_dim(0).enumerate() {
                let settings = adam_w::Settings {
                    learning_rate: 0.01,
                    beta_1: 0.9,
                    beta_2: 0.999,
                    epsilon: 1e-8,
                    weight_decay: 0.1,
                    step: before + 1,
                };
                let gradient = gradient.squeeze_dim(0);
                state = match fused {
                    true => adam_w::fused(state, gradient, settings).unwrap(),
                    false => adam_w::reference(state, gradient, settings),
                };
            }
            for (result, got) in [
                ("parameter", state.parameter),
                ("moment_1", state.moment_1),
                ("moment_2", state.moment_2),
            ] {
                fixture.as_near_as(
                    SLACK,
                    &format!("{path} {case} {result}"),
                    &values(got),
                    &format!("{case}.ref.{result}"),
                    &format!("{case}.torch.{result}"),
                );
            }
        }
    }
}
