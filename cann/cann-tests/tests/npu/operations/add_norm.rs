//! Compares sums and their RMSNorms over CANN's operators with the reference in f64, for every key, and tests the reasons
//! for refusals.

use crate::npu::*;
use burn_cann::{DType, Platform, Spec, Stream, Tensor};
use kernels_runtime::dispatch::{Mode, Reason};
use kernels_runtime::npu::{OnNpu, Refused, Seen};
use kernels_runtime::ops::Mismatch;
use kernels_runtime::ops::add_rms_norm::npu::{Gamma, Plan, decide};
use kernels_runtime::ops::add_rms_norm::{AddRmsNorm, Inputs, Operands, Settings, reference};
use kernels_runtime::ops::fused::{Backward, Given};
use kernels_runtime::ops::rms_norm::{self, RmsNorm};
use kernels_runtime::semantics::*;

const SETTINGS: Settings = Settings {
    eps: 1e-6,
    group_size: None,
};

const BARE: AddRmsNormKey = AddRmsNormKey {
    scale: Scale::None,
    ..AddRmsNormKey::LLAMA
};

/// Returns every key.
fn keys() -> impl Iterator<Item = AddRmsNormKey> {
    let gatings = [Gating::None, Gating::AfterNorm, Gating::BeforeNorm];
    let weights = [
        (Scale::None, Offset::Zero),
        (Scale::Weight, Offset::Zero),
        (Scale::Weight, Offset::One),
    ];
    let roundings = [Rounding::Llama, Rounding::Gemma];
    let groups = [Groups::One, Groups::Many];
    let of_weight = move |(scale, offset)| {
        roundings.into_iter().flat_map(move |rounding| {
            gatings.into_iter().flat_map(move |gating| {
                groups.into_iter().map(move |groups| AddRmsNormKey {
                    offset,
                    rounding,
                    scale,
                    gating,
                    groups,
                })
            })
        })
    };
    weights.into_iter().flat_map(of_weight)
}

/// Returns `true` if CANN's operator computes a key in a dtype, so that no sum stands alone.
fn is_fused(dtype: DType, key: AddRmsNormKey) -> bool {
    let whole_rows = key.gating == Gating::None && key.groups == Groups::One;
    let as_llama = key.offset == Offset::Zero && key.rounding == Rounding::Llama;
    whole_rows && (dtype == DType::F32 || as_llama)
}

/// Returns the settings of rows of `n` elements.
fn settings_for(key: AddRmsNormKey, n: usize) -> Settings {
    let size = [4, 7, 1].into_iter().find(|size| n.is_multiple_of(*size));
    Settings {
        group_size: size.filter(|_| key.groups == Groups::Many),
        ..SETTINGS
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
    let (gate, gate_held) = put(stream, dtype, &shape, 5, lie);
    let (weighted, gated) = (key.scale == Scale::Weight, key.gating != Gating::None);
    let settings = settings_for(key, n);
    let given = weighted.then(|| Seen(weight.clone()));
    let gate = gated.then(|| Seen(gate.clone()));
    let (x, residual) = (Seen(x), Seen(residual));
    let operands = Operands::new(x, residual, given.clone(), gate.clone(), settings, key);
    let operands = operands.expect(&what);
    let forward = || AddRmsNorm::forward(stream, &operands, None).expect(&what);
    let (made, operators) = without_waiting(forward);
    let (y, sum, rstd) = (made.y, &made.others[0], made.saved[0].clone());
    // One value in f32 for each row or group that has elements.
    let groups = settings.group_size.map_or(n.min(1), |size| n / size);
    assert_eq!(
        (rstd.dtype(), rstd.spec().len()),
        (DType::F32, shape[0] * shape[1] * groups)
    );
    let norm = rms_norm::Operands::new(Seen(sum.clone()), given, gate, settings, key.norm());
    let norm = norm.expect(&what);
    let terms = read(stream, &rstd);
    let given = Given::new(Seen(dy)).saving([Seen(rstd)]);
    let wanted = vec![true; norm.tensors().count()];
    let norm = Backward::<RmsNorm, _>::new(norm, given, &wanted).expect(&what);
    let backward = || RmsNorm::backward(stream, &norm).expect(&what);
    let (gradients, _) = without_waiting(backward);

    let (x, weight, gate) = (x_held.exact(), weight_held.exact(), gate_held.exact());
    let inputs = Inputs::<3> {
        x: x.clone(),
        residual: residual_held.plain(),
        weight: weighted.then(|| weight.clone()),
        gate: gated.then(|| gate.clone()),
    };
    let (exact_y, exact_sum) = reference(inputs, settings, key);
    let expected = (exact_y.clone() * dy_held.plain()).sum().backward();
    let near = |name: &str, tensor: &Tensor, shape: &[usize], expected: &[f64]| {
        let what = format!("{name} of {what}");
        assert_near(what, stream, tensor, dtype, shape, expected);
    };
    near("y", &y, &shape, &elements(exact_y));
    near("sum", sum, &shape, &elements(exact_sum));
    let dx = gradients.x.as_ref().expect("it is wanted");
    if !shape.contains(&0) {
        let (found, exact) = (read(stream, dx), gradient(&x, &expected));
        assert_close_in_terms(format!("dx of {what}"), &found, &exact, dtype, &terms);
    }
    if let Some(d_weight) = &gradients.weight {
        near("dw", d_weight, &[n], &gradient(&weight, &expected));
    }
    assert_eq!(gradients.gate.is_some(), gated);
    if let Some(d_gate) = &gradients.gate {
        near("d_gate", d_gate, &shape, &gradient(&gate, &expected));
    }
    operators
}

#[test]
fn every_key_and_type_beside_the_reference() {
    on_the_emulator(|_, stream| {
        for dtype in FLOATS {
            for key in keys() {
                for shape in [[2, 3, 24], [1, 1, 35], [4, 1, 8]] {
                    let operators = compare(stream, dtype, key, shape, Lie::Contiguous);
                    let ours = ("npu_fused_add_rmsnorm", "aclnn");
                    assert_named(ours, key, (dtype, Mode::Training), &operators, 2);
                    if !is_fused(dtype, key) {
                        assert_eq!(operators[0], "aclnnAdd", "{key}");
                        assert!(operators.iter().any(|one| one == "aclnnRmsNorm"), "{key}");
                        continue;
                    }
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
    on_the_emulator(|_, stream| {
        for dtype in FLOATS {
            for key in keys() {
                for lie in [Lie::Sliced, Lie::Turned] {
                    compare(stream, dtype, key, [3, 5, 8], lie);
                }
            }
        }
    });
}

#[test]
fn nothing_is_summed_to_nothing() {
    on_the_emulator(|_, stream| {
        for dtype in FLOATS {
            for key in keys() {
                let operators = compare(stream, dtype, key, [2, 0, 8], Lie::Contiguous);
                if is_fused(dtype, key) {
                    assert_eq!(operators, [""; 0], "{key}");
                }
            }
            // A row without elements has no rstd. (Burn can't reshape a weight without elements.)
            let operators = compare(stream, dtype, BARE, [2, 3, 0], Lie::Contiguous);
            assert_eq!(operators, [""; 0]);
        }
    });
}

fn asked(platform: &Platform, dtype: DType, n: usize, key: AddRmsNormKey) -> Result<Plan, Refused> {
    let operands = operands(dtype, n, key, settings_for(key, n)).expect("they go together");
    decide(platform, &operands)
}

fn operands(
    dtype: DType,
    n: usize,
    key: AddRmsNormKey,
    settings: Settings,
) -> Result<Operands<Seen<Spec>>, Mismatch> {
    let seen = |shape: &[usize]| Seen::<Spec>(spec(dtype, shape));
    let weight = (key.scale == Scale::Weight).then(|| seen(&[n]));
    let gate = (key.gating != Gating::None).then(|| seen(&[2, n]));
    Operands::new(seen(&[2, n]), seen(&[2, n]), weight, gate, settings, key)
}

#[test]
fn decisions_and_their_reasons() {
    let here = platform();
    for dtype in FLOATS {
        let plan = |key| asked(&here, dtype, 8, key).unwrap();
        assert_eq!(plan(AddRmsNormKey::LLAMA), Plan::Fused(Gamma::Weight));
        assert_eq!(plan(BARE), Plan::Fused(Gamma::Ones));
        for key in keys() {
            assert_eq!(plan(key) != Plan::Apart, is_fused(dtype, key), "{key}");
        }
    }
    assert_eq!(
        asked(&here, DType::F32, 8, AddRmsNormKey::GEMMA).unwrap(),
        Plan::Fused(Gamma::OnePlusWeight)
    );
    let nan = Settings {
        eps: f64::NAN,
        ..SETTINGS
    };
    mismatched(
        operands(DType::F32, 8, AddRmsNormKey::LLAMA, nan),
        "epsilon is NaN",
    );
    for key in [AddRmsNormKey::LLAMA, AddRmsNormKey::GEMMA] {
        refused(asked(&here, DType::F64, 8, key), Reason::Dtype, "f64");
        let elsewhere = asked(&other_processor(), DType::BF16, 8, key);
        refused(elsewhere, Reason::Capability, "Ascend910B or later");
    }
}
