//! Compares RMSNorm over CANN's operators with the reference in f64, for every key, dtype and layout.

use crate::npu::*;
use burn_cann::{DType, Platform, Spec, Tensor};
use kernels_runtime::dispatch::{Mode, Reason};
use kernels_runtime::npu::{OnNpu, Refused, Seen};
use kernels_runtime::ops::Mismatch;
use kernels_runtime::ops::fused::{Backward, Given};
use kernels_runtime::ops::rms_norm::npu::{Gamma, Plan, decide};
use kernels_runtime::ops::rms_norm::{
    Inputs, Operands, RmsNorm, Settings, reference, reference_with_bias,
};
use kernels_runtime::semantics::*;

const EPS: f64 = 1e-6;

/// Returns every key, and for each one without a gate that with a bias.
fn keys() -> impl Iterator<Item = RmsNormKey> {
    let with_bias = |key: RmsNormKey| RmsNormKey {
        shift: Shift::Bias,
        ..key
    };
    let plain = keys_without_a_bias().filter(|key| key.gating == Gating::None);
    keys_without_a_bias().chain(plain.map(with_bias))
}

fn keys_without_a_bias() -> impl Iterator<Item = RmsNormKey> {
    let offsets = [Offset::Zero, Offset::One];
    let roundings = [Rounding::Llama, Rounding::Gemma];
    let scales = [Scale::Weight, Scale::None];
    let gatings = [Gating::None, Gating::AfterNorm, Gating::BeforeNorm];
    let groups = [Groups::One, Groups::Many];
    offsets.into_iter().flat_map(move |offset| {
        roundings.into_iter().flat_map(move |rounding| {
            scales.into_iter().flat_map(move |scale| {
                gatings.into_iter().flat_map(move |gating| {
                    groups.into_iter().map(move |groups| RmsNormKey {
                        offset,
                        rounding,
                        scale,
                        gating,
                        groups,
                        shift: Shift::None,
                    })
                })
            })
        })
    })
}

/// Compares forward and every gradient of one key on one shape with the reference.
fn compare(
    stream: &burn_cann::Stream,
    dtype: DType,
    key: RmsNormKey,
    shape: [usize; 3],
    group_size: Option<usize>,
    lie: Lie,
) -> (Plan, Vec<String>) {
    let n = shape[2];
    let what = format!("{key}, {shape:?} {lie:?}");
    let (x, x_held) = put(stream, dtype, &shape, 1, lie);
    let (gate, gate_held) = put(stream, dtype, &shape, 2, lie);
    let (weight, weight_held) = put(stream, dtype, &[n], 3, lie);
    let (dy, dy_held) = put(stream, dtype, &shape, 4, lie);
    let (bias, bias_held) = put(stream, dtype, &[n], 5, lie);
    let shifted = key.shift == Shift::Bias;
    let (weighted, gated) = (key.scale == Scale::Weight, key.gating != Gating::None);
    let settings = Settings {
        eps: EPS,
        group_size,
    };
    let weight = weighted.then_some(Seen(weight));
    let gate = gated.then_some(Seen(gate));
    let bias = shifted.then_some(Seen(bias));
    let operands = Operands::with_later(Seen(x), weight, gate, bias, settings, key).expect(&what);
    let plan = decide(stream.device().platform(), &operands).expect(&what);
    let forward = || RmsNorm::forward(stream, &operands, None).expect(&what);
    let (made, operators) = without_waiting(forward);
    let (y, rstd) = (made.y, &made.saved[0]);
    let given = Given::new(Seen(dy)).saving([Seen(rstd.clone())]);
    let wanted = vec![true; operands.tensors().count()];
    let backward = Backward::<RmsNorm, _>::new(operands, given, &wanted).expect(&what);
    let backward = || RmsNorm::backward(stream, &backward).expect(&what);
    let (gradients, _) = without_waiting(backward);

    let (x, gate, weight) = (x_held.exact(), gate_held.exact(), weight_held.exact());
    let inputs = Inputs::<3> {
        x: x.clone(),
        weight: weighted.then(|| weight.clone()),
        gate: gated.then(|| gate.clone()),
    };
    let bias = bias_held.exact();
    let expected = match shifted {
        true => reference_with_bias(inputs, bias.clone(), settings, key),
        false => reference(inputs, settings, key),
    };
    let exact = (expected.clone() * dy_held.plain()).sum().backward();
    let near = |name: &str, tensor: &Tensor, shape: &[usize], expected: &[f64]| {
        assert_near(
            format!("{name} of {what}"),
            stream,
            tensor,
            dtype,
            shape,
            expected,
        );
    };
    near("y", &y, &shape, &elements(expected));
    let dx = gradients.x.as_ref().expect("it is wanted");
    assert_eq!((dx.shape(), dx.dtype()), (&shape[..], dtype));
    if !shape.contains(&0) {
        let (found, rstd) = (read(stream, dx), read(stream, rstd));
        let expected = gradient(&x, &exact);
        assert_close_in_terms(format!("dx of {what}"), &found, &expected, dtype, &rstd);
    }
    assert_eq!(gradients.weight.is_some(), weighted);
    assert_eq!(gradients.gate.is_some(), gated);
    if let Some(d_weight) = &gradients.weight {
        near("dw", d_weight, &[n], &gradient(&weight, &exact));
    }
    assert_eq!(gradients.bias.is_some(), shifted);
    if let Some(d_bias) = &gradients.bias {
        near("d_bias", d_bias, &[n], &gradient(&bias, &exact));
    }
    if let Some(d_gate) = &gradients.gate {
        near("d_gate", d_gate, &shape, &gradient(&gate, &exact));
    }
    // One value in f32 for each row or group that has elements.
    assert_eq!(rstd.dtype(), DType::F32);
    let groups = group_size.map_or(n.min(1), |size| n / size);
    assert_eq!(rstd.spec().len(), shape[0] * shape[1] * groups);
    (plan, operators)
}

#[test]
fn every_key_and_type_beside_the_reference() {
    on_the_emulator(|_, stream| {
        for dtype in FLOATS {
            for key in keys() {
                let many = key.groups == Groups::Many;
                for shape in [[2, 3, 24], [1, 1, 35], [4, 1, 3]] {
                    let size = [12, 7, 1][[24, 35, 3].iter().position(|n| *n == shape[2]).unwrap()];
                    let size = many.then_some(size);
                    let (plan, operators) =
                        compare(stream, dtype, key, shape, size, Lie::Contiguous);
                    // A cast from f32 to f32 needs no call.
                    let mut expected = plan.forward();
                    expected.retain(|name| dtype != DType::F32 || *name != "aclnnCast");
                    assert_eq!(operators, expected, "{key}");
                    let ours = ("npu_fused_rmsnorm", "aclnn");
                    assert_named(ours, key, (dtype, Mode::Training), &operators, 3);
                }
            }
        }
    });
}

#[test]
fn strided_operands() {
    on_the_emulator(|_, stream| {
        for dtype in FLOATS {
            for key in keys().filter(|key| key.rounding == Rounding::Gemma) {
                let size = (key.groups == Groups::Many).then_some(4);
                for lie in [Lie::Sliced, Lie::Turned] {
                    compare(stream, dtype, key, [3, 5, 8], size, lie);
                }
            }
        }
    });
}

#[test]
fn nothing_is_normalised_to_nothing() {
    on_the_emulator(|_, stream| {
        for key in keys() {
            let size = (key.groups == Groups::Many).then_some(4);
            for dtype in FLOATS {
                compare(stream, dtype, key, [2, 0, 8], size, Lie::Contiguous);
                // Burn can't reshape a weight or a bias without elements.
                if key.scale == Scale::None && key.shift == Shift::None {
                    compare(stream, dtype, key, [2, 3, 0], size, Lie::Contiguous);
                }
            }
        }
    });
}

#[test]
fn any_number_of_axes() {
    on_the_emulator(|_, stream| {
        for shape in [vec![16], vec![2, 8], vec![1, 2, 1, 3, 1, 2, 1, 1, 1, 8]] {
            for lie in LIES {
                let (x, held) = put(stream, DType::F32, &shape, 5, lie);
                let n = *shape.last().unwrap();
                let (weight, weight_held) = put(stream, DType::F32, &[n], 6, Lie::Contiguous);
                let settings = Settings {
                    eps: EPS,
                    group_size: None,
                };
                let weight = Some(Seen(weight));
                let operands =
                    Operands::new(Seen(x), weight, None, settings, RmsNormKey::LLAMA).unwrap();
                let made = match RmsNorm::forward(stream, &operands, None) {
                    Ok(made) => made,
                    // Only contiguous tensors can be viewed with fewer axes.
                    Err(error) => {
                        assert!(
                            shape.len() > 8 && lie != Lie::Contiguous,
                            "{shape:?} {lie:?}"
                        );
                        assert!(error.to_string().contains("10 dimensions"), "{error}");
                        continue;
                    }
                };
                let rows = Held {
                    shape: vec![held.values.len() / n, n],
                    ..held
                };
                let x = rows.exact::<2>();
                let inputs = Inputs {
                    x: x.clone(),
                    weight: Some(weight_held.plain()),
                    gate: None,
                };
                let exact = reference(inputs, settings, RmsNormKey::LLAMA);
                assert_near(
                    (&shape, lie),
                    stream,
                    &made.y,
                    DType::F32,
                    &shape,
                    &elements(exact.clone()),
                );
                let given = Given::new(Seen(made.y)).saving(made.saved.into_iter().map(Seen));
                let backward = Backward::<RmsNorm, _>::new(operands, given, &[true, false]);
                let gradients = RmsNorm::backward(stream, &backward.unwrap()).unwrap();
                assert!(gradients.weight.is_none(), "it was not asked for");
                let dy = exact.clone().detach();
                let expected = gradient(&x, &(exact * dy).sum().backward());
                assert_near(
                    (&shape, lie),
                    stream,
                    &gradients.x.unwrap(),
                    DType::F32,
                    &shape,
                    &expected,
                );
            }
        }
    });
}

fn operands(
    x: &Spec,
    weight: Option<&Spec>,
    gate: Option<&Spec>,
    group_size: Option<usize>,
    key: RmsNormKey,
) -> Result<Operands<Seen<Spec>>, Mismatch> {
    let settings = Settings {
        eps: EPS,
        group_size,
    };
    let seen = |spec: &Spec| Seen(spec.clone());
    Operands::new(seen(x), weight.map(seen), gate.map(seen), settings, key)
}

fn asked(
    platform: &Platform,
    x: &Spec,
    weight: Option<&Spec>,
    group_size: Option<usize>,
    key: RmsNormKey,
) -> Result<Plan, Refused> {
    decide(
        platform,
        &operands(x, weight, None, group_size, key).unwrap(),
    )
}

#[test]
fn decisions_and_their_reasons() {
    let here = platform();
    let (key, many) = (
        RmsNormKey::LLAMA,
        RmsNormKey {
            groups: Groups::Many,
            ..RmsNormKey::LLAMA
        },
    );
    let of = |dtype| (spec(dtype, &[2, 8]), spec(dtype, &[8]));
    for dtype in FLOATS {
        let (x, weight) = of(dtype);
        let plan = |key, weight, size| asked(&here, &x, weight, size, key).unwrap();
        assert_eq!(plan(key, Some(&weight), None).gamma, Gamma::Weight);
        assert_eq!(
            plan(RmsNormKey::GEMMA, Some(&weight), None).gamma,
            Gamma::OnePlusWeight
        );
        let none = RmsNormKey {
            scale: Scale::None,
            ..key
        };
        assert_eq!(plan(none, None, None).gamma, Gamma::Ones);
        let grouped = plan(many, Some(&weight), Some(4));
        assert_eq!(
            (grouped.gamma, grouped.gain, grouped.width),
            (Gamma::Ones, Some(Offset::Zero), 4)
        );
    }
    let (x, weight) = of(DType::F32);
    let refuse = |x: &Spec, weight: &Spec, reason, words: &str| {
        refused(asked(&here, x, Some(weight), None, key), reason, words);
    };
    let (wide, wide_weight) = of(DType::F64);
    refuse(&wide, &wide_weight, Reason::Dtype, "f64");
    refuse(&spec(DType::I32, &[2, 8]), &weight, Reason::Dtype, "i32");
    let half = spec(DType::BF16, &[8]);
    refuse(&x, &half, Reason::MixedDtypes, "weight is of type bf16");
    let apart = |x: &Spec, weight: Option<&Spec>, size, key, words: &str| {
        mismatched(operands(x, weight, None, size, key), words);
    };
    apart(&x, None, None, key, "a weight is missing");
    apart(&x, Some(&weight), Some(4), key, "a group size is given");
    apart(&x, Some(&weight), Some(3), many, "the group size 3");
    apart(&x, Some(&weight), Some(0), many, "the group size 0");
    let narrow = spec(DType::F32, &[7]);
    apart(&x, Some(&narrow), None, key, "the weight has 7 elements");
    let scalar = spec(DType::F32, &[]);
    apart(&scalar, Some(&weight), None, key, "no axis");
    let gated = RmsNormKey {
        gating: Gating::AfterNorm,
        ..key
    };
    let gate = spec(DType::F32, &[2, 7]);
    mismatched(
        operands(&x, Some(&weight), Some(&gate), None, gated),
        "the gate is [2, 7]",
    );
    refused(
        asked(&other_processor(), &x, Some(&weight), None, key),
        Reason::Capability,
        "Ascend910B or later",
    );
    let settings = Settings {
        eps: f64::NAN,
        group_size: None,
    };
    let operands = Operands::new(Seen(x), Some(Seen(weight)), None, settings, key);
    mismatched(operands, "epsilon is NaN");
}
