//! Compares LayerNorm over CANN's operators with the reference in f64, for every key, dtype and layout, and tests the
//! reasons for refusals.

use crate::npu::*;
use crate::passes::{forward, given};
use burn_cann::{DType, Platform, Spec, Stream, Tensor};
use kernels_runtime::dispatch::{Mode, Reason};
use kernels_runtime::npu::{OnNpu, Refused, Seen};
use kernels_runtime::ops::Mismatch;
use kernels_runtime::ops::layer_norm::npu::decide;
use kernels_runtime::ops::layer_norm::{Inputs, LayerNorm, Operands, Settings, reference};
use kernels_runtime::semantics::*;

const SETTINGS: Settings = Settings { eps: 1e-5 };
const KEYS: [LayerNormKey; 2] = [LayerNormKey::GPT2, LayerNormKey::COHERE];

/// Compares forward and every gradient of one key on one shape with the reference. Returns the operators.
fn compare(
    stream: &Stream,
    dtype: DType,
    key: LayerNormKey,
    shape: [usize; 3],
    [lie, lie_of_dy]: [Lie; 2],
) -> [Vec<String>; 2] {
    let n = shape[2];
    let what = format!("{key}, {shape:?} {lie:?}, {lie_of_dy:?}");
    let (x, x_held) = put(stream, dtype, &shape, 1, lie);
    let (weight, weight_held) = put(stream, dtype, &[n], 2, lie);
    let (bias, bias_held) = put(stream, dtype, &[n], 3, lie);
    let (dy, dy_held) = put(stream, dtype, &shape, 4, lie_of_dy);
    let shifted = key.shift == Shift::Bias;
    let bias = shifted.then_some(Seen(bias));
    let operands = Operands::new(Seen(x), Seen(weight), bias, SETTINGS, key).expect(&what);
    let (found, operators) =
        without_waiting(|| forward::<LayerNorm>(stream, &operands).expect(&what));
    let y = found.y;
    // One value in f32 for each row.
    assert_eq!(found.saved.len(), 2);
    for statistic in &found.saved {
        assert_eq!(statistic.dtype(), DType::F32);
        assert_eq!(statistic.spec().len(), shape[0] * shape[1]);
    }
    let wanted = &[true; 3][..2 + usize::from(shifted)];
    let operands = given::<LayerNorm, _>(operands, dy, found.saved, wanted).expect(&what);
    let (gradients, backward) =
        without_waiting(|| LayerNorm::backward(stream, &operands).expect(&what));

    let (x, weight, bias) = (x_held.exact(), weight_held.exact(), bias_held.exact());
    let inputs = Inputs::<3> {
        x: x.clone(),
        weight: weight.clone(),
        bias: shifted.then(|| bias.clone()),
    };
    let expected = reference(inputs, SETTINGS, key);
    let exact = (expected.clone() * dy_held.plain()).sum().backward();
    let near = |name: &str, tensor: &Tensor, shape: &[usize], expected: &[f64]| {
        let what = format!("{name} of {what}");
        assert_near(what, stream, tensor, dtype, shape, expected);
    };
    near("y", &y, &shape, &elements(expected));
    let dx = gradients.x.expect("it was wanted");
    near("dx", &dx, &shape, &gradient(&x, &exact));
    let d_weight = gradients.weight.expect("it was wanted");
    near("dw", &d_weight, &[n], &gradient(&weight, &exact));
    assert_eq!(gradients.bias.is_some(), shifted);
    if let Some(d_bias) = &gradients.bias {
        near("db", d_bias, &[n], &gradient(&bias, &exact));
    }
    [operators, backward]
}

const PLAIN: [Lie; 2] = [Lie::Contiguous; 2];

#[test]
fn every_key_and_type_beside_the_reference() {
    on_the_emulator(|_, stream| {
        for dtype in FLOATS {
            for key in KEYS {
                for shape in [[2, 3, 24], [1, 1, 35], [4, 1, 3], [3, 2, 1]] {
                    let [forward, backward] = compare(stream, dtype, key, shape, PLAIN);
                    assert_eq!(forward, ["aclnnLayerNorm"], "{key}");
                    let ours = ("npu_fused_layernorm", "aclnn");
                    assert_named(ours, key, (dtype, Mode::Training), &forward, 0);
                    assert_eq!(backward, ["aclnnLayerNormBackward"], "{key}");
                }
            }
        }
    });
}

/// The operators take strides. Only a `dy` whose rows can't be viewed as those of `x` is copied.
#[test]
fn strided_operands() {
    on_the_emulator(|_, stream| {
        for dtype in FLOATS {
            for key in KEYS {
                for lie in LIES {
                    for lie_of_dy in LIES {
                        let lies = [lie, lie_of_dy];
                        let [forward, backward] = compare(stream, dtype, key, [3, 5, 8], lies);
                        assert_eq!(forward, ["aclnnLayerNorm"], "{lies:?}");
                        let is_copied = lie == Lie::Contiguous && lie_of_dy != Lie::Contiguous;
                        let copies = if is_copied {
                            vec!["aclnnInplaceCopy"]
                        } else {
                            vec![]
                        };
                        let expected = [copies, vec!["aclnnLayerNormBackward"]].concat();
                        assert_eq!(backward, expected, "{lies:?}");
                    }
                }
            }
        }
    });
}

/// Rounded to bf16, the mean of these rows would be off by a fifth of their deviation.
#[test]
fn statistics_of_half_types_are_not_rounded() {
    on_the_emulator(|_, stream| {
        let n = 32;
        let far = (0..2 * n).map(|i| if i % 3 == 0 { 99.0 } else { 101.0 });
        let far: Vec<f64> = far.collect();
        let (x, x_held) = put_values(stream, DType::BF16, &far, &[2, n], Lie::Contiguous);
        let (dy, dy_held) = put(stream, DType::BF16, &[2, n], 2, Lie::Contiguous);
        let (weight, weight_held) = put(stream, DType::BF16, &[n], 3, Lie::Contiguous);
        let key = LayerNormKey::COHERE;
        let operands = Operands::new(Seen(x), Seen(weight), None, SETTINGS, key).unwrap();
        let saved = forward::<LayerNorm>(stream, &operands).unwrap().saved;
        let operands = given::<LayerNorm, _>(operands, dy, saved, &[true; 2]);
        let found = LayerNorm::backward(stream, &operands.unwrap()).unwrap();
        let (x, weight) = (x_held.exact::<2>(), weight_held.exact());
        let inputs = Inputs {
            x: x.clone(),
            weight: weight.clone(),
            bias: None,
        };
        let exact = (reference(inputs, SETTINGS, key) * dy_held.plain()).sum();
        let exact = exact.backward();
        for (found, expected) in [
            (found.x.as_ref().unwrap(), gradient(&x, &exact)),
            (found.weight.as_ref().unwrap(), gradient(&weight, &exact)),
        ] {
            let found = read(stream, found);
            assert_close_on_the_whole("far rows", &found, &expected, DType::BF16);
        }
    });
}

#[test]
fn nothing_is_normalised_to_nothing() {
    on_the_emulator(|_, stream| {
        for dtype in FLOATS {
            for key in KEYS {
                let [forward, _] = compare(stream, dtype, key, [2, 0, 8], PLAIN);
                assert_eq!(forward, [""; 0], "{key}");
            }
            // A row without elements has no statistics. (Burn can't reshape a weight without elements.)
            let (x, _) = put(stream, dtype, &[2, 3, 0], 1, Lie::Contiguous);
            let (weight, _) = put(stream, dtype, &[0], 1, Lie::Contiguous);
            let dy = x.clone();
            let key = LayerNormKey::COHERE;
            let operands = Operands::new(Seen(x), Seen(weight), None, SETTINGS, key).unwrap();
            let found = forward::<LayerNorm>(stream, &operands).unwrap();
            assert_eq!(found.y.shape(), [2, 3, 0]);
            let operands = given::<LayerNorm, _>(operands, dy, found.saved, &[true; 2]).unwrap();
            let found = LayerNorm::backward(stream, &operands).unwrap();
            assert_eq!(found.x.expect("it was wanted").shape(), [2, 3, 0]);
            assert_eq!(found.weight.expect("it was wanted").shape(), [0]);
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
                let key = LayerNormKey::COHERE;
                let operands = Operands::new(Seen(x), Seen(weight), None, SETTINGS, key).unwrap();
                let found = match forward::<LayerNorm>(stream, &operands) {
                    Ok(found) => found,
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
                let inputs = Inputs {
                    x: rows.plain::<2>(),
                    weight: weight_held.plain(),
                    bias: None,
                };
                let exact = elements(reference(inputs, SETTINGS, key));
                assert_near((&shape, lie), stream, &found.y, DType::F32, &shape, &exact);
                let (dy, saved) = (found.y, found.saved);
                let operands = given::<LayerNorm, _>(operands, dy, saved, &[true, false]).unwrap();
                let gradients = LayerNorm::backward(stream, &operands).unwrap();
                assert_eq!(gradients.x.expect("it was wanted").shape(), shape);
                assert!(gradients.weight.is_none() && gradients.bias.is_none());
            }
        }
    });
}

fn operands(
    x: &Spec,
    weight: &Spec,
    bias: Option<&Spec>,
    settings: Settings,
) -> Result<Operands<Seen<Spec>>, Mismatch> {
    let key = match bias {
        Some(_) => LayerNormKey::GPT2,
        None => LayerNormKey::COHERE,
    };
    let seen = |spec: &Spec| Seen(spec.clone());
    Operands::new(seen(x), seen(weight), bias.map(seen), settings, key)
}

fn asked(platform: &Platform, x: &Spec, weight: &Spec, bias: Option<&Spec>) -> Result<(), Refused> {
    decide(platform, &operands(x, weight, bias, SETTINGS).unwrap())
}

#[test]
fn decisions_and_their_reasons() {
    let here = platform();
    let of = |dtype| (spec(dtype, &[2, 8]), spec(dtype, &[8]));
    for dtype in FLOATS {
        let (x, vector) = of(dtype);
        for bias in [None, Some(&vector)] {
            assert_eq!(asked(&here, &x, &vector, bias), Ok(()));
            let empty = spec(dtype, &[0, 8]);
            assert_eq!(asked(&here, &empty, &vector, bias), Ok(()));
            let elsewhere = other_processor();
            for x in [&x, &empty] {
                let decided = asked(&elsewhere, x, &vector, bias);
                refused(decided, Reason::Capability, "Ascend910B or later");
            }
        }
    }
    let (x, vector) = of(DType::F32);
    let (wide, wide_vector) = of(DType::F64);
    let decided = asked(&here, &wide, &wide_vector, None);
    refused(decided, Reason::Dtype, "f64");
    let half = spec(DType::BF16, &[8]);
    let decided = asked(&here, &x, &half, None);
    refused(decided, Reason::MixedDtypes, "weight is of type bf16");
    let decided = asked(&here, &x, &vector, Some(&half));
    refused(decided, Reason::MixedDtypes, "bias is of type bf16");
    let eps = |eps| operands(&x, &vector, None, Settings { eps });
    mismatched(eps(f64::NAN), "epsilon is NaN");
    let negative = decide(&here, &eps(-1.0).unwrap());
    refused(negative, Reason::Semantics, "epsilon is");
    let narrow = spec(DType::F32, &[7]);
    let apart = |x: &Spec, weight: &Spec, bias: Option<&Spec>, words: &str| {
        mismatched(operands(x, weight, bias, SETTINGS), words);
    };
    apart(&x, &narrow, None, "the weight has 7 elements");
    apart(&x, &vector, Some(&narrow), "the bias has 7 elements");
    apart(&spec(DType::F32, &[]), &vector, None, "no axis");
    let bare = Operands::new(
        Seen(x.clone()),
        Seen(vector.clone()),
        None,
        SETTINGS,
        KEYS[1],
    );
    let mean = || spec(DType::F32, &[2, 1]);
    let backward = |dy: Spec, mean, rstd, wanted: &[bool]| {
        let bare = bare.clone().unwrap();
        given::<LayerNorm, _>(bare, dy, [mean, rstd], wanted)
    };
    let both = &[true; 2];
    assert!(backward(x.clone(), mean(), mean(), both).is_ok());
    let few = || spec(DType::F32, &[1]);
    mismatched(backward(vector, mean(), mean(), both), "dy is [8]");
    mismatched(backward(x.clone(), few(), mean(), both), "the mean is [1]");
    mismatched(backward(x.clone(), mean(), few(), both), "rstd is [1]");
    let rounded = spec(DType::BF16, &[2, 1]);
    mismatched(
        backward(x.clone(), rounded, mean(), both),
        "the mean is [2, 1] of BF16",
    );
    mismatched(
        backward(x, mean(), mean(), &[true; 3]),
        "there are 2 tensors",
    );
}
