//! Compares the cross-entropy over CANN's operators with the reference in f64, for every key, setting, dtype and layout,
//! and tests the reasons for refusals.

use crate::npu::common::Scenario;
use crate::npu::*;
use crate::passes::{forward, given};
use burn::tensor::Device;
use burn_cann::{DType, Platform, Spec, Stream, Tensor, backend};
use kernels_runtime::dispatch::Reason;
use kernels_runtime::npu::{OnNpu, Refused, Seen};
use kernels_runtime::ops::cross_entropy::npu::{backward_by, decide, forward_by};
use kernels_runtime::ops::cross_entropy::{
    CrossEntropy, Each, Inputs, Operands, Settings, fused, reference,
};
use kernels_runtime::semantics::*;

const REDUCTIONS: [LossReduction; 3] =
    [LossReduction::Mean, LossReduction::Sum, LossReduction::None];

/// A target of any sign may be the ignored one. One of these is that of a class.
const TARGETS: [i64; 7] = [5, -100, 11, 0, 3, 11, 7];
const CLASSES: usize = 12;

fn key(reduction: LossReduction, cap: Option<f64>) -> CrossEntropyKey {
    let cap = match cap {
        Some(_) => LogitCap::Tanh,
        None => LogitCap::None,
    };
    CrossEntropyKey { reduction, cap }
}

/// Every combination of settings.
fn settings() -> impl Iterator<Item = Settings> {
    let smoothings = [0.0, 0.125, 1.0].into_iter();
    let all = smoothings.flat_map(|label_smoothing| {
        [0.0, 0.0625].map(|z_loss| [None, Some(0.5)].map(|cap| (label_smoothing, z_loss, cap)))
    });
    all.flatten().zip([-100, 11].into_iter().cycle()).map(
        |((label_smoothing, z_loss, cap), ignore_index)| Settings {
            ignore_index,
            label_smoothing,
            cap,
            z_loss,
        },
    )
}

/// The settings that a comparison varies.
#[derive(Clone, Copy, Debug)]
struct Case {
    dtype: DType,
    reduction: LossReduction,
    settings: Settings,
    lie: Lie,
    /// The largest number of tokens that are computed together, if it is not the usual one.
    together: Option<usize>,
}

const USUAL: Case = Case {
    dtype: DType::F32,
    reduction: LossReduction::Mean,
    settings: Settings {
        ignore_index: Settings::IGNORE_INDEX,
        label_smoothing: 0.0,
        cap: None,
        z_loss: 0.0,
    },
    lie: Lie::Contiguous,
    together: None,
};

/// Returns the ignored index of a case whose targets have another one as well: it becomes a class.
fn targets(settings: Settings) -> Vec<i64> {
    let ignored = settings.ignore_index;
    let legal = |target: i64| {
        if target < 0 && target != ignored {
            1
        } else {
            target
        }
    };
    TARGETS.into_iter().map(legal).collect()
}

fn d_logits(gradients: Each<Option<Tensor>>) -> Tensor {
    gradients.logits.expect("it was wanted")
}

/// Compares loss and gradient of one case with the reference. Returns the operators.
fn compare(stream: &Stream, case: Case, of_targets: DType) -> [Vec<String>; 2] {
    let what = format!("{case:?}");
    let (settings, targets) = (case.settings, targets(case.settings));
    let (tokens, key) = (targets.len(), key(case.reduction, settings.cap));
    let (logits, held) = put(stream, case.dtype, &[tokens, CLASSES], 1, case.lie);
    let classes = integers(stream, of_targets, &targets, &[tokens]);
    let operands = Operands::new(Seen(logits), Seen(classes), settings, key).expect(&what);
    let (loss, operators) = without_waiting(|| match case.together {
        None => forward::<CrossEntropy>(stream, &operands).expect(&what).y,
        Some(together) => forward_by(stream, &operands, together).expect(&what),
    });
    let elements_of_loss = loss.spec().len();
    let lie_of_dy = if elements_of_loss > 1 {
        case.lie
    } else {
        Lie::Contiguous
    };
    let (dy, dy_held) = put(stream, DType::F32, &[elements_of_loss], 2, lie_of_dy);
    let nothing = Tensor::empty(stream, DType::F32, [0]).unwrap();
    let gradient_of = given::<CrossEntropy, _>(operands, dy, [nothing], &[true]).expect(&what);
    let (d_logits, backward) = without_waiting(|| match case.together {
        None => d_logits(CrossEntropy::backward(stream, &gradient_of).expect(&what)),
        Some(together) => backward_by(stream, &gradient_of, together).expect(&what),
    });

    let leaf = held.exact();
    let inputs = Inputs {
        logits: leaf.clone(),
        targets: exact_integers(&targets, [tokens]),
    };
    let exact = reference(inputs, settings, key);
    let grads = (exact.clone() * dy_held.plain()).sum().backward();
    // The loss stays in f32, and logits of a half type are exact in it.
    let shape = [elements_of_loss];
    assert_near(&what, stream, &loss, DType::F32, &shape, &elements(exact));
    let (shape, exact) = ([tokens, CLASSES], gradient(&leaf, &grads));
    assert_near(&what, stream, &d_logits, case.dtype, &shape, &exact);
    [operators, backward]
}

#[test]
fn every_key_setting_and_type_beside_the_reference() {
    on_the_emulator(|_, stream| {
        for dtype in FLOATS {
            for reduction in REDUCTIONS {
                for settings in settings() {
                    for together in [None, Some(3)] {
                        let case = Case {
                            dtype,
                            reduction,
                            settings,
                            together,
                            ..USUAL
                        };
                        compare(stream, case, DType::I64);
                    }
                }
            }
        }
    });
}

#[test]
fn strided_operands_and_every_type_of_targets() {
    on_the_emulator(|_, stream| {
        for lie in LIES {
            for dtype in FLOATS {
                let case = Case {
                    dtype,
                    lie,
                    ..USUAL
                };
                compare(stream, case, DType::I32);
                let case = Case {
                    reduction: LossReduction::None,
                    ..case
                };
                compare(stream, case, DType::I64);
            }
        }
    });
}

/// Returns the operators that read or write logits. The others are those of vectors of tokens.
fn of_logits(operators: Vec<String>) -> Vec<String> {
    let named = ["CrossEntropy", "MaxDim", "Tanh", "ScatterAdd", "Cast"];
    let is_named = |operator: &String| named.iter().any(|name| operator.contains(name));
    operators.into_iter().filter(is_named).collect()
}

#[test]
fn one_operator_computes_the_losses_and_one_the_gradient() {
    on_the_emulator(|_, stream| {
        let sum = Case {
            reduction: LossReduction::Sum,
            ..USUAL
        };
        let [forward, backward] = compare(stream, sum, DType::I64).map(of_logits);
        let (loss, grad) = ("aclnnCrossEntropyLoss", "aclnnCrossEntropyLossGrad");
        assert_eq!(forward, [loss]);
        assert_eq!(backward, [loss, grad]);
        let smooth = Case {
            settings: Settings {
                label_smoothing: 0.1,
                ..USUAL.settings
            },
            ..sum
        };
        let [forward, backward] = compare(stream, smooth, DType::I64).map(of_logits);
        assert_eq!(forward, [loss]);
        assert_eq!(backward, [loss, grad, "aclnnScatterAdd"]);
    });
}

/// Numbers of ignored tokens don't count, whatever they are. CANN multiplies them by zero.
#[test]
fn ignored_tokens_may_have_any_logits() {
    on_the_emulator(|_, stream| {
        for dtype in FLOATS {
            for wild in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
                for settings in settings() {
                    let values: Vec<f64> = noise(3 * 4, 5)
                        .into_iter()
                        .enumerate()
                        .map(|(place, x)| if place / 4 == 1 { wild } else { x })
                        .collect();
                    let (logits, _) = put_values(stream, dtype, &values, &[3, 4], Lie::Contiguous);
                    let ignored = settings.ignore_index;
                    let targets = integers(stream, DType::I64, &[2, ignored, 0], &[3]);
                    let key = key(LossReduction::Mean, settings.cap);
                    let operands = Operands::new(Seen(logits), Seen(targets), settings, key);
                    let operands = operands.unwrap();
                    let loss = read(
                        stream,
                        &forward::<CrossEntropy>(stream, &operands).unwrap().y,
                    );
                    assert!(loss[0].is_finite(), "{loss:?}");
                    let (dy, _) = put_values(stream, DType::F32, &[1.0], &[1], Lie::Contiguous);
                    let nothing = Tensor::empty(stream, DType::F32, [0]).unwrap();
                    let operands =
                        given::<CrossEntropy, _>(operands, dy, [nothing], &[true]).unwrap();
                    let gradients = CrossEntropy::backward(stream, &operands).unwrap();
                    let gradient = read(stream, &d_logits(gradients));
                    assert_eq!(gradient[4..8], [0.0; 4], "{wild} {settings:?}");
                    assert!(gradient.iter().all(|x| x.is_finite()), "{gradient:?}");
                    assert!(gradient[..4].iter().any(|x| *x != 0.0));
                }
            }
        }
    });
}

/// The mean of no tokens is NaN, and its gradient is zero.
#[test]
fn no_token_counts() {
    on_the_emulator(|_, stream| {
        for tokens in [0, 3] {
            for dtype in FLOATS {
                for reduction in REDUCTIONS {
                    let (logits, _) = put(stream, dtype, &[tokens, 4], 1, Lie::Contiguous);
                    let targets = integers(stream, DType::I64, &vec![-100; tokens], &[tokens]);
                    let (settings, key) = (Settings::default(), key(reduction, None));
                    let operands = Operands::new(Seen(logits), Seen(targets), settings, key);
                    let operands = operands.unwrap();
                    let loss = forward::<CrossEntropy>(stream, &operands).unwrap().y;
                    let found = read(stream, &loss);
                    match reduction {
                        LossReduction::Mean => assert!(found.len() == 1 && found[0].is_nan()),
                        LossReduction::Sum => assert_eq!(found, [0.0]),
                        LossReduction::None => assert_eq!(found, vec![0.0; tokens]),
                    }
                    let nothing = Tensor::empty(stream, DType::F32, [0]).unwrap();
                    let (dy, _) = put(stream, DType::F32, loss.shape(), 2, Lie::Contiguous);
                    let operands =
                        given::<CrossEntropy, _>(operands, dy, [nothing], &[true]).unwrap();
                    let gradient = d_logits(CrossEntropy::backward(stream, &operands).unwrap());
                    assert_eq!(
                        (gradient.shape(), gradient.dtype()),
                        (&[tokens, 4][..], dtype)
                    );
                    assert_eq!(read(stream, &gradient), vec![0.0; tokens * 4]);
                }
            }
        }
    });
}

/// The logarithms of these probabilities are about −5. Rounded to a half type, they would be off by up to 4 times what
/// one rounding of a gradient is off by, relative to it.
#[test]
fn half_types_are_computed_in_f32() {
    on_the_emulator(|_, stream| {
        for dtype in [DType::BF16, DType::F16] {
            let values = noise(64 * 40, 8).into_iter().enumerate();
            let values: Vec<f64> = values
                .map(|(place, x)| x + 5.0 * f64::from(place * 7 % 40 == 3))
                .collect();
            let (logits, held) = put_values(stream, dtype, &values, &[64, 40], Lie::Contiguous);
            let classes: Vec<i64> = (0..64).map(|token| token % 40).collect();
            let targets = integers(stream, DType::I64, &classes, &[64]);
            let (settings, key) = (Settings::default(), key(LossReduction::Sum, None));
            let operands = Operands::new(Seen(logits), Seen(targets), settings, key).unwrap();
            let (dy, _) = put_values(stream, DType::F32, &[1.0], &[1], Lie::Contiguous);
            let nothing = Tensor::empty(stream, DType::F32, [0]).unwrap();
            let operands = given::<CrossEntropy, _>(operands, dy, [nothing], &[true]).unwrap();
            let found = d_logits(CrossEntropy::backward(stream, &operands).unwrap());
            let leaf = held.exact();
            let inputs = Inputs {
                logits: leaf.clone(),
                targets: exact_integers(&classes, [64]),
            };
            let grads = reference(inputs, settings, key).sum().backward();
            let exact = gradient(&leaf, &grads);
            let rounding = match dtype {
                DType::BF16 => 2f64.powi(-9),
                _ => 2f64.powi(-12),
            };
            for (found, exact) in read(stream, &found).into_iter().zip(exact) {
                // One rounding, and the errors of f32 around a probability of 1.
                let allowed = 2.0 * rounding * exact.abs() + 2f64.powi(-22);
                let error = (found - exact).abs();
                assert!(error <= allowed, "{found} in {dtype}, expected {exact}");
            }
        }
    });
}

fn asked(platform: &Platform, logits: &Spec, settings: Settings) -> Result<(), Refused> {
    let targets = spec(DType::I32, &logits.shape()[..1]);
    let key = key(LossReduction::Mean, settings.cap);
    let operands = Operands::new(Seen(logits.clone()), Seen(targets), settings, key);
    decide(platform, &operands.unwrap())
}

#[test]
fn decisions_and_their_reasons() {
    let here = platform();
    for dtype in FLOATS {
        for settings in settings() {
            for shape in [[3, 5], [1, 1], [0, 5]] {
                let logits = spec(dtype, &shape);
                assert_eq!(asked(&here, &logits, settings), Ok(()));
                let decided = asked(&other_processor(), &logits, settings);
                refused(decided, Reason::Capability, "Ascend910B or later");
            }
        }
    }
    let plain = Settings::default();
    let decided = asked(&here, &spec(DType::F64, &[3, 5]), plain);
    refused(decided, Reason::Dtype, "logits is of type f64");
    for tokens in [0, 3] {
        let decided = asked(&here, &spec(DType::F32, &[tokens, 0]), plain);
        refused(decided, Reason::Shape, "no elements");
    }
    let (logits, targets) = (spec(DType::F32, &[3, 5]), spec(DType::I32, &[2]));
    let operands = Operands::new(Seen(logits), Seen(targets), plain, CrossEntropyKey::MEAN);
    mismatched(operands, "there are 2 targets, but 3 tokens");
}

/// Dispatch chooses the kernel, which waits for nothing. Gradients go through Burn's autodiff.
#[test]
fn a_loss_on_an_npu() {
    Scenario::new().run(|cann| {
        backend::install(cann.clone());
        let npu = kernels_serving::npu::device(0).unwrap();
        let targets = [5, -100, 31];
        let settings = Settings {
            label_smoothing: 0.1,
            z_loss: 0.01,
            ..Settings::default()
        };
        let on = |device: &Device, is_fused: bool| {
            let logits = burn::tensor::TensorData::new(noise(3 * 32, 9), [3, 32]).convert::<f32>();
            let device = device.clone().autodiff();
            let logits = burn::tensor::Tensor::<2>::from_data(logits, &device).require_grad();
            let targets = burn::tensor::Tensor::from_data(targets, &device.clone().inner());
            let inputs = Inputs {
                logits: logits.clone(),
                targets,
            };
            let key = CrossEntropyKey::MEAN;
            let waits = cann.waits();
            let loss = match is_fused {
                true => fused(inputs, settings, key).expect("a kernel"),
                false => reference(inputs, settings, key),
            };
            let gradients = loss.backward();
            let gradient = logits.grad(&gradients).unwrap();
            if is_fused {
                assert_eq!(cann.waits(), waits);
            }
            (elements(loss), elements(gradient))
        };
        let (loss, gradient) = on(&npu, true);
        let (exact_loss, exact) = on(&Device::flex(), false);
        assert_close("loss", &loss, &exact_loss, DType::F32);
        assert_close("gradient", &gradient, &exact, DType::F32);
        kernels_serving::npu::close();
        backend::close();
    });
}
