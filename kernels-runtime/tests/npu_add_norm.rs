//! Compares sums and their RMSNorms over CANN's operator with the reference in f64, for every key that it computes, and
//! tests the reasons for refusals.

#![cfg(feature = "npu")]

mod npu;

use burn_cann::{DType, Platform, Spec, Stream, Tensor};
use kernels_runtime::dispatch::Reason;
use kernels_runtime::npu::{Refused, Seen};
use kernels_runtime::ops::add_rms_norm::npu::{Gamma, decide, forward};
use kernels_runtime::ops::add_rms_norm::{Inputs, Normalised, Operands, Settings, reference};
use kernels_runtime::ops::rms_norm;
use kernels_runtime::semantics::*;
use npu::*;

const SETTINGS: Settings = Settings {
    eps: 1e-6,
    group_size: None,
};

const BARE: AddRmsNormKey = AddRmsNormKey {
    scale: Scale::None,
    ..AddRmsNormKey::LLAMA
};

/// Returns the keys that CANN's operator computes in a dtype.
fn keys(dtype: DType) -> Vec<AddRmsNormKey> {
    match dtype {
        DType::F32 => vec![AddRmsNormKey::LLAMA, AddRmsNormKey::GEMMA, BARE],
        _ => vec![AddRmsNormKey::LLAMA, BARE],
    }
}

/// Compares forward, and the gradient by RMSNorm's operator at the returned sum, with the reference.
fn compare(
    stream: &Stream,
    dtype: DType,
    key: AddRmsNormKey,
    shape: [usize; 3],
    lie: Lie,
) -> Vec<String> {
    let n = shape[2];
    let what = format!("{key}, {shape:?} {lie:?}");
    let (x, x_held) = put(stream, dtype, &shape, 1, lie);
    let (residual, residual_held) = put(stream, dtype, &shape, 2, lie);
    let (weight, weight_held) = put(stream, dtype, &[n], 3, Lie::Contiguous);
    let (dy, dy_held) = put(stream, dtype, &shape, 4, lie);
    let weighted = key.scale == Scale::Weight;
    let given = weighted.then(|| Seen(weight.clone()));
    let operands = Operands::new(Seen(x), Seen(residual), given.clone(), None, SETTINGS, key);
    let operands = operands.expect(&what);
    let (found, operators) = without_waiting(|| forward(stream, &operands).expect(&what));
    let Normalised { y, sum, rstd } = found;
    // One value in f32 for each row.
    assert_eq!(
        (rstd.dtype(), rstd.spec().len()),
        (DType::F32, shape[0] * shape[1])
    );
    let norm = rms_norm::Operands::new(Seen(sum.clone()), given, None, SETTINGS, key.norm());
    let norm = norm.expect(&what).backward(Seen(dy), Seen(rstd), weighted);
    let backward = || rms_norm::npu::backward(stream, &norm.expect(&what)).expect(&what);
    let (gradients, _) = without_waiting(backward);

    let (x, weight) = (x_held.exact(), weight_held.exact());
    let inputs = Inputs::<3> {
        x: x.clone(),
        residual: residual_held.plain(),
        weight: weighted.then(|| weight.clone()),
        gate: None,
    };
    let (exact_y, exact_sum) = reference(inputs, SETTINGS, key);
    let expected = (exact_y.clone() * dy_held.plain()).sum().backward();
    let near = |name: &str, tensor: &Tensor, shape: &[usize], expected: &[f64]| {
        let what = format!("{name} of {what}");
        assert_near(what, stream, tensor, dtype, shape, expected);
    };
    near("y", &y, &shape, &elements(exact_y));
    near("sum", &sum, &shape, &elements(exact_sum));
    near("dx", &gradients.x, &shape, &gradient(&x, &expected));
    if let Some(d_weight) = &gradients.weight {
        near("dw", d_weight, &[n], &gradient(&weight, &expected));
    }
    operators
}

#[test]
fn every_key_and_type_beside_the_reference() {
    on_the_emulator("every_key_and_type_beside_the_reference", |_, stream| {
        for dtype in FLOATS {
            for key in keys(dtype) {
                for shape in [[2, 3, 24], [1, 1, 35], [4, 1, 8]] {
                    let operators = compare(stream, dtype, key, shape, Lie::Contiguous);
                    let before: &[&str] = match (key.scale, key.offset) {
                        (Scale::None, _) => &["aclnnInplaceFillScalar"],
                        (_, Offset::One) => &["aclnnAdds"],
                        _ => &[],
                    };
                    assert_eq!(operators, [before, &["aclnnAddRmsNorm"]].concat(), "{key}");
                }
            }
        }
    });
}

/// Strided operands are copied, because CANN does not document that its operator accepts strides.
#[test]
fn strided_operands() {
    on_the_emulator("strided_operands", |_, stream| {
        for dtype in FLOATS {
            for key in keys(dtype) {
                for lie in [Lie::Sliced, Lie::Turned] {
                    compare(stream, dtype, key, [3, 5, 8], lie);
                }
            }
        }
    });
}

#[test]
fn nothing_is_summed_to_nothing() {
    on_the_emulator("nothing_is_summed_to_nothing", |_, stream| {
        for dtype in FLOATS {
            for key in keys(dtype) {
                let operators = compare(stream, dtype, key, [2, 0, 8], Lie::Contiguous);
                assert_eq!(operators, [""; 0], "{key}");
            }
            // A row without elements has an rstd. (Burn can't reshape a weight without elements.)
            let operators = compare(stream, dtype, BARE, [2, 3, 0], Lie::Contiguous);
            assert_eq!(operators, ["aclnnInplaceFillScalar"]);
        }
    });
}

fn asked(
    platform: &Platform,
    dtype: DType,
    n: usize,
    key: AddRmsNormKey,
    settings: Settings,
) -> Result<Gamma, Refused> {
    let seen = |shape: &[usize]| Seen::<Spec>(spec(dtype, shape));
    let weight = (key.scale == Scale::Weight).then(|| seen(&[n]));
    let gate = (key.gating != Gating::None).then(|| seen(&[2, n]));
    let operands = Operands::new(seen(&[2, n]), seen(&[2, n]), weight, gate, settings, key);
    decide(platform, &operands.expect("they go together"))
}

#[test]
fn decisions_and_their_reasons() {
    let here = platform();
    for dtype in FLOATS {
        let plan = |key| asked(&here, dtype, 8, key, SETTINGS);
        assert_eq!(plan(AddRmsNormKey::LLAMA).unwrap(), Gamma::Weight);
        assert_eq!(plan(BARE).unwrap(), Gamma::Ones);
        if dtype == DType::F32 {
            assert_eq!(plan(AddRmsNormKey::GEMMA).unwrap(), Gamma::OnePlusWeight);
            continue;
        }
        let gemma = AddRmsNormKey {
            rounding: Rounding::Gemma,
            ..AddRmsNormKey::LLAMA
        };
        refused(
            plan(gemma),
            Reason::Dtype,
            "rounds half types before the weight",
        );
        let offset = AddRmsNormKey {
            offset: Offset::One,
            ..AddRmsNormKey::LLAMA
        };
        refused(plan(offset), Reason::Dtype, "1 + w would be rounded");
    }
    let f32 = |key, settings| asked(&here, DType::F32, 8, key, settings);
    for gating in [Gating::AfterNorm, Gating::BeforeNorm] {
        let gated = AddRmsNormKey {
            gating,
            ..AddRmsNormKey::LLAMA
        };
        refused(f32(gated, SETTINGS), Reason::Semantics, "without a gate");
    }
    let grouped = AddRmsNormKey {
        groups: Groups::Many,
        ..AddRmsNormKey::LLAMA
    };
    let groups = Settings {
        group_size: Some(4),
        ..SETTINGS
    };
    refused(f32(grouped, groups), Reason::Semantics, "whole rows");
    let nan = Settings {
        eps: f64::NAN,
        ..SETTINGS
    };
    refused(
        f32(AddRmsNormKey::LLAMA, nan),
        Reason::Semantics,
        "epsilon is NaN",
    );
    let wide = asked(&here, DType::F64, 8, AddRmsNormKey::LLAMA, SETTINGS);
    refused(wide, Reason::Dtype, "f64");
    let elsewhere = asked(
        &other_processor(),
        DType::F32,
        8,
        AddRmsNormKey::LLAMA,
        SETTINGS,
    );
    refused(elsewhere, Reason::Capability, "Ascend910B or later");
}
