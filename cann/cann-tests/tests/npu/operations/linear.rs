//! Compares the linear layer over CANN's operators with the reference in f64, for every key, dtype and layout, and tests
//! the reasons for refusals.

use crate::npu::*;
use crate::passes::{forward, given};
use burn_cann::{DType, Platform, Spec, Stream, Tensor};
use kernels_runtime::dispatch::{Mode, Reason};
use kernels_runtime::npu::{OnNpu, Refused, Seen};
use kernels_runtime::ops::Mismatch;
use kernels_runtime::ops::linear::npu::decide;
use kernels_runtime::ops::linear::{Inputs, Linear, Operands, reference};
use kernels_runtime::semantics::*;

fn keys() -> impl Iterator<Item = LinearKey> {
    let layouts = [OutputLayout::InputMajor, OutputLayout::OutputMajor];
    let of = |layout| [Shift::None, Shift::Bias].map(|shift| LinearKey { layout, shift });
    layouts.into_iter().flat_map(of)
}

/// Compares forward and every gradient of one key on one shape, `[a, b, inputs, outputs]`, with the reference. Returns the
/// operators.
fn compare(
    stream: &Stream,
    dtype: DType,
    key: LinearKey,
    [a, b, inputs, outputs]: [usize; 4],
    lie: Lie,
) -> [Vec<String>; 2] {
    let what = format!("{key}, {a} × {b} × {inputs} × {outputs} in {dtype}, {lie:?}");
    let axes = match key.layout {
        OutputLayout::InputMajor => [inputs, outputs],
        OutputLayout::OutputMajor => [outputs, inputs],
    };
    let (x, x_held) = put(stream, dtype, &[a, b, inputs], 1, lie);
    let (weight, weight_held) = put(stream, dtype, &axes, 2, lie);
    let (bias, bias_held) = put(stream, dtype, &[outputs], 3, lie);
    let (dy, dy_held) = put(stream, dtype, &[a, b, outputs], 4, lie);
    let shifted = key.shift == Shift::Bias;
    let bias = shifted.then_some(Seen(bias));
    let operands = Operands::new(Seen(x), Seen(weight), bias, key).expect(&what);
    let (made, operators) = without_waiting(|| forward::<Linear>(stream, &operands).expect(&what));
    let y = made.y;
    let wanted = &[true; 3][..2 + usize::from(shifted)];
    let operands = given::<Linear, _>(operands, dy, [], wanted).expect(&what);
    let (gradients, backward) =
        without_waiting(|| Linear::backward(stream, &operands).expect(&what));

    let (x, weight, bias) = (x_held.exact(), weight_held.exact(), bias_held.exact());
    let inputs_of_call = Inputs::<3> {
        x: x.clone(),
        weight: weight.clone(),
        bias: shifted.then(|| bias.clone()),
    };
    let expected = reference(inputs_of_call, key);
    let exact = (expected.clone() * dy_held.plain()).sum().backward();
    let near = |name: &str, tensor: &Tensor, shape: &[usize], expected: &[f64]| {
        let what = format!("{name} of {what}");
        assert_near(what, stream, tensor, dtype, shape, expected);
    };
    near("y", &y, &[a, b, outputs], &elements(expected));
    let dx = gradients.x.expect("it was wanted");
    near("dx", &dx, &[a, b, inputs], &gradient(&x, &exact));
    let d_weight = gradients.weight.expect("it was wanted");
    near("dw", &d_weight, &axes, &gradient(&weight, &exact));
    assert_eq!(gradients.bias.is_some(), shifted);
    if let Some(d_bias) = &gradients.bias {
        near("db", d_bias, &[outputs], &gradient(&bias, &exact));
    }
    [operators, backward]
}

#[test]
fn every_key_and_type_beside_the_reference() {
    on_the_emulator(|_, stream| {
        for dtype in FLOATS {
            for key in keys() {
                for shape in [[2, 3, 24, 16], [1, 1, 35, 7], [4, 1, 3, 1], [3, 2, 1, 5]] {
                    let [forward, backward] = compare(stream, dtype, key, shape, Lie::Contiguous);
                    let expected: &[&str] = match key.shift {
                        Shift::None => &["aclnnMatmul"],
                        Shift::Bias => &["aclnnInplaceCopy", "aclnnInplaceAddmm"],
                    };
                    assert_eq!(forward, expected, "{key}");
                    let ours = ("npu_fused_linear", "aclnn");
                    assert_named(ours, key, (dtype, Mode::Training), &forward, 0);
                    let products = backward.iter().filter(|name| *name == "aclnnMatmul");
                    assert_eq!(products.count(), 2, "{key}: {backward:?}");
                }
            }
        }
    });
}

#[test]
fn strided_operands() {
    on_the_emulator(|_, stream| {
        for dtype in FLOATS {
            for key in keys() {
                for lie in LIES {
                    compare(stream, dtype, key, [3, 5, 8, 4], lie);
                }
            }
        }
    });
}

#[test]
fn nothing_is_multiplied_to_nothing() {
    on_the_emulator(|_, stream| {
        for dtype in FLOATS {
            for key in keys() {
                compare(stream, dtype, key, [2, 0, 8, 4], Lie::Contiguous);
            }
        }
    });
}

fn operands(
    x: &Spec,
    weight: &Spec,
    bias: Option<&Spec>,
) -> Result<Operands<Seen<Spec>>, Mismatch> {
    let key = match bias {
        Some(_) => LinearKey::BURN,
        None => LinearKey::PROJECTION,
    };
    let seen = |spec: &Spec| Seen(spec.clone());
    Operands::new(seen(x), seen(weight), bias.map(seen), key)
}

fn asked(platform: &Platform, x: &Spec, weight: &Spec, bias: Option<&Spec>) -> Result<(), Refused> {
    decide(platform, &operands(x, weight, bias).unwrap())
}

#[test]
fn decisions_and_their_reasons() {
    let here = platform();
    for dtype in FLOATS {
        let (x, weight) = (spec(dtype, &[2, 8]), spec(dtype, &[8, 4]));
        let bias = spec(dtype, &[4]);
        for bias in [None, Some(&bias)] {
            assert_eq!(asked(&here, &x, &weight, bias), Ok(()));
            let empty = spec(dtype, &[0, 8]);
            assert_eq!(asked(&here, &empty, &weight, bias), Ok(()));
            let elsewhere = other_processor();
            for x in [&x, &empty] {
                let decided = asked(&elsewhere, x, &weight, bias);
                refused(decided, Reason::Capability, "Matmul");
            }
        }
    }
    let (x, weight) = (spec(DType::F32, &[2, 8]), spec(DType::F32, &[8, 4]));
    let (wide, wide_weight) = (spec(DType::F64, &[2, 8]), spec(DType::F64, &[8, 4]));
    refused(
        asked(&here, &wide, &wide_weight, None),
        Reason::Dtype,
        "f64",
    );
    let half = spec(DType::BF16, &[8, 4]);
    let decided = asked(&here, &x, &half, None);
    refused(decided, Reason::MixedDtypes, "weight is of type bf16");
    let half = spec(DType::BF16, &[4]);
    let decided = asked(&here, &x, &weight, Some(&half));
    refused(decided, Reason::MixedDtypes, "bias is of type bf16");
    mismatched(
        operands(&x, &spec(DType::F32, &[7, 4]), None),
        "takes 7 elements",
    );
    let short = spec(DType::F32, &[3]);
    mismatched(
        operands(&x, &weight, Some(&short)),
        "the bias has 3 elements",
    );
    mismatched(operands(&spec(DType::F32, &[]), &weight, None), "no axis");
    let bare = operands(&x, &weight, None).unwrap();
    let backward = |dy: &[usize], wanted: &[bool]| {
        given::<Linear, _>(bare.clone(), spec(DType::F32, dy), [], wanted)
    };
    assert!(backward(&[2, 4], &[true; 2]).is_ok());
    mismatched(backward(&[2, 8], &[true; 2]), "dy is [2, 8]");
    mismatched(backward(&[2, 4], &[true; 3]), "there are 2 tensors");
}
