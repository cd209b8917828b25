//! Compares the linear cross-entropy over CANN's operators with the reference in f64, for every key, dtype and layout, in
//! one chunk and in several, and tests the reasons for refusals.

use crate::npu::common::Scenario;
use crate::npu::*;
use burn::tensor::{Device, TensorData};
use burn_cann::{DType, Platform, Spec, Stream, Tensor, backend};
use kernels_runtime::dispatch::Reason;
use kernels_runtime::npu::{Refused, Seen};
use kernels_runtime::ops::linear_cross_entropy::npu::{
    backward, backward_by, decide, forward, forward_by, scale,
};
use kernels_runtime::ops::linear_cross_entropy::{
    Gradients, Inputs, Kept, Operands, Settings, Wanted, fused, reference,
};
use kernels_runtime::semantics::*;

type Tensors = Operands<Seen<Tensor>, Seen<Tensor>>;

const WIDTH: usize = 6;
const CLASSES: usize = 12;
const TARGETS: [i64; 7] = [5, -100, 11, 0, 3, 11, 7];
const ALL: Wanted = Wanted {
    hidden: true,
    weight: true,
    bias: true,
};

/// The gradients with a frozen output layer.
const FROZEN: Wanted = Wanted {
    hidden: true,
    weight: false,
    bias: false,
};

fn keys() -> Vec<LinearCrossEntropyKey> {
    let mut keys = Vec::new();
    for reduction in [LossReduction::Mean, LossReduction::Sum, LossReduction::None] {
        for cap in [LogitCap::None, LogitCap::Tanh] {
            for layout in [OutputLayout::OutputMajor, OutputLayout::InputMajor] {
                for shift in [Shift::None, Shift::Bias] {
                    keys.push(LinearCrossEntropyKey {
                        reduction,
                        cap,
                        layout,
                        shift,
                    });
                }
            }
        }
    }
    keys
}

fn settings(key: LinearCrossEntropyKey) -> Settings {
    Settings {
        label_smoothing: 0.125,
        cap: (key.cap == LogitCap::Tanh).then_some(0.5),
        z_loss: 0.0625,
        ..Settings::default()
    }
}

fn plain(key: LinearCrossEntropyKey) -> Settings {
    Settings {
        label_smoothing: 0.0,
        z_loss: 0.0,
        ..settings(key)
    }
}

/// Operands on the device and their exact values.
struct Given {
    operands: Tensors,
    exact: Inputs,
}

fn given(
    stream: &Stream,
    dtype: DType,
    key: LinearCrossEntropyKey,
    settings: Settings,
    targets: &[i64],
    lie: Lie,
) -> Given {
    let axes = match key.layout {
        OutputLayout::OutputMajor => [CLASSES, WIDTH],
        OutputLayout::InputMajor => [WIDTH, CLASSES],
    };
    let tokens = targets.len();
    let (hidden, hidden_held) = put(stream, dtype, &[tokens, WIDTH], 1, lie);
    let (weight, weight_held) = put(stream, dtype, &axes, 2, lie);
    let (bias, bias_held) = put(stream, dtype, &[CLASSES], 3, lie);
    let shifted = key.shift == Shift::Bias;
    let classes = integers(stream, DType::I64, targets, &[tokens]);
    let bias = shifted.then_some(Seen(bias));
    let operands = Operands::new(
        Seen(hidden),
        Seen(weight),
        bias,
        Seen(classes),
        settings,
        key,
    );
    Given {
        operands: operands.unwrap(),
        exact: Inputs {
            hidden: hidden_held.exact(),
            weight: weight_held.exact(),
            bias: shifted.then(|| bias_held.exact()),
            targets: exact_integers(targets, [tokens]),
        },
    }
}

/// The gradients that exist for a key.
fn all(key: LinearCrossEntropyKey) -> Wanted {
    Wanted {
        bias: key.shift == Shift::Bias,
        ..ALL
    }
}

fn burn_type(dtype: DType) -> burn::tensor::DType {
    burn_cann::backend::burn_dtype(dtype)
}

/// Returns the loss, the gradients and the operators of both passes.
fn run(
    stream: &Stream,
    operands: Tensors,
    dy: &Tensor,
    wanted: Wanted,
    together: Option<usize>,
) -> (Tensor, Gradients<Tensor>, [Vec<String>; 2]) {
    let dtype = operands.hidden().dtype();
    let is_kept = operands.key().reduction != LossReduction::None || wanted == FROZEN;
    let kept = if is_kept { wanted } else { Wanted::default() };
    let ((loss, gradients), before) = without_waiting(|| match together {
        None => forward(stream, &operands, kept).unwrap(),
        Some(together) => forward_by(stream, &operands, kept, together).unwrap(),
    });
    let (gradients, after) = without_waiting(|| {
        let dy = Seen(dy.clone());
        if is_kept {
            for kept in [&gradients.hidden, &gradients.weight, &gradients.bias] {
                assert!(kept.as_ref().is_none_or(|kept| kept.dtype() == DType::F32));
            }
            let gradients = Gradients {
                hidden: gradients.hidden.map(Seen),
                weight: gradients.weight.map(Seen),
                bias: gradients.bias.map(Seen),
            };
            let kept = Kept::new(gradients, dy, burn_type(dtype)).unwrap();
            return scale(stream, kept).unwrap();
        }
        let operands = operands.backward(dy, wanted).unwrap();
        match together {
            None => backward(stream, &operands).unwrap(),
            Some(together) => backward_by(stream, &operands, together).unwrap(),
        }
    });
    (loss, gradients, [before, after])
}

/// Compares loss and gradients with the reference. Returns the operators.
fn compare(
    stream: &Stream,
    dtype: DType,
    key: LinearCrossEntropyKey,
    settings: Settings,
    lie: Lie,
    together: Option<usize>,
) -> [Vec<String>; 2] {
    let what = format!("{key}, {settings:?}, {lie:?}, {together:?}");
    let Given { operands, exact } = given(stream, dtype, key, settings, &TARGETS, lie);
    let losses = match key.reduction {
        LossReduction::None => TARGETS.len(),
        _ => 1,
    };
    let (dy, dy_held) = put(stream, DType::F32, &[losses], 4, Lie::Contiguous);
    let (loss, gradients, operators) = run(stream, operands, &dy, all(key), together);

    let expected = reference(exact.clone(), settings, key);
    let grads = (expected.clone() * dy_held.plain()).sum().backward();
    assert_near(
        &what,
        stream,
        &loss,
        DType::F32,
        &[losses],
        &elements(expected),
    );
    let near = |name: &str, tensor: Option<&Tensor>, shape: &[usize], exact: &[f64]| {
        let what = format!("{name} of {what}");
        assert_near(
            what,
            stream,
            tensor.expect("it was wanted"),
            dtype,
            shape,
            exact,
        );
    };
    let Gradients {
        hidden,
        weight,
        bias,
    } = &gradients;
    let of_hidden = gradient(&exact.hidden, &grads);
    near("dx", hidden.as_ref(), &[TARGETS.len(), WIDTH], &of_hidden);
    let axes = exact.weight.dims();
    near(
        "dw",
        weight.as_ref(),
        &axes,
        &gradient(&exact.weight, &grads),
    );
    assert_eq!(bias.is_some(), exact.bias.is_some());
    if let Some(leaf) = &exact.bias {
        near("db", bias.as_ref(), &[CLASSES], &gradient(leaf, &grads));
    }
    operators
}

#[test]
fn every_key_and_type_beside_the_reference() {
    on_the_emulator(|_, stream| {
        for dtype in FLOATS {
            for key in keys() {
                for settings in [settings(key), plain(key)] {
                    for together in [None, Some(1), Some(3)] {
                        compare(stream, dtype, key, settings, Lie::Contiguous, together);
                    }
                }
            }
        }
    });
}

/// With a frozen output layer, the gradient of each token's hidden state is kept, and scaled by that of its loss.
#[test]
fn rows_of_a_frozen_weight_are_kept() {
    on_the_emulator(|_, stream| {
        for dtype in FLOATS {
            for key in keys() {
                // The gradient of a sum of losses is one number with a stride of zero.
                for (together, is_sum) in [(None, false), (None, true), (Some(3), false)] {
                    let settings = settings(key);
                    let Given { operands, exact } =
                        given(stream, dtype, key, settings, &TARGETS, Lie::Contiguous);
                    let losses = match key.reduction {
                        LossReduction::None => TARGETS.len(),
                        _ => 1,
                    };
                    let numbers = if is_sum { 1 } else { losses };
                    let (dy, dy_held) = put(stream, DType::F32, &[numbers], 4, Lie::Contiguous);
                    let dy = dy.expand([losses]).expect("a view");
                    let (_, found, [_, after]) = run(stream, operands, &dy, FROZEN, together);
                    assert!(found.weight.is_none() && found.bias.is_none());
                    assert_eq!(of_logits(after), [""; 0], "{key}");
                    let expected = reference(exact.clone(), settings, key);
                    let grads = (expected * dy_held.plain()).sum().backward();
                    let of_hidden = gradient(&exact.hidden, &grads);
                    assert_near(
                        format!("dx of {key}, {together:?}, {is_sum}"),
                        stream,
                        found.hidden.as_ref().expect("it was wanted"),
                        dtype,
                        &[TARGETS.len(), WIDTH],
                        &of_hidden,
                    );
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
                for lie in [Lie::Sliced, Lie::Turned] {
                    compare(stream, dtype, key, settings(key), lie, Some(3));
                }
            }
        }
    });
}

/// Returns the operators that read or write logits or the weight.
fn of_logits(operators: Vec<String>) -> Vec<String> {
    let named = ["CrossEntropy", "Matmul", "Addmm"];
    let is_named = |operator: &String| named.iter().any(|name| operator.contains(name));
    operators.into_iter().filter(is_named).collect()
}

/// The gradients of a mean are computed with its loss. The gradient of the weight is added chunk by chunk.
#[test]
fn the_operators_of_a_chunk() {
    on_the_emulator(|_, stream| {
        let key = LinearCrossEntropyKey::MEAN;
        let (logits, loss, grad) = (
            "aclnnMatmul",
            "aclnnCrossEntropyLoss",
            "aclnnCrossEntropyLossGrad",
        );
        let first = [logits, loss, grad, "aclnnMatmul", "aclnnMatmul"];
        let next = [logits, loss, grad, "aclnnMatmul", "aclnnInplaceAddmm"];
        let all = [first, next, next].concat();
        let of = |key, together| {
            let [before, after] = compare(
                stream,
                DType::F32,
                key,
                plain(key),
                Lie::Contiguous,
                together,
            );
            [of_logits(before), of_logits(after)]
        };
        let none: [&str; 0] = [];
        let [before, after] = of(key, None);
        assert_eq!((before, after), (first.map(str::to_owned).to_vec(), vec![]));
        let [before, after] = of(key, Some(3));
        assert_eq!(before, all);
        assert_eq!(after, none);
        let each = LinearCrossEntropyKey {
            reduction: LossReduction::None,
            ..key
        };
        let [before, after] = of(each, Some(3));
        assert_eq!(before, [[logits, loss]; 3].concat());
        assert_eq!(after, all);
    });
}

/// Gradients that are not wanted are not computed.
#[test]
fn only_wanted_gradients() {
    on_the_emulator(|_, stream| {
        for key in keys() {
            let Given { operands, .. } = given(
                stream,
                DType::BF16,
                key,
                settings(key),
                &TARGETS,
                Lie::Contiguous,
            );
            let losses = match key.reduction {
                LossReduction::None => TARGETS.len(),
                _ => 1,
            };
            let (dy, _) = put(stream, DType::F32, &[losses], 4, Lie::Contiguous);
            let every = all(key);
            let (_, whole, _) = run(stream, operands.clone(), &dy, every, Some(3));
            for number in 0..8 {
                let wanted = Wanted {
                    hidden: number & 1 != 0,
                    weight: number & 2 != 0,
                    bias: every.bias && number & 4 != 0,
                };
                let (_, found, [before, after]) =
                    run(stream, operands.clone(), &dy, wanted, Some(3));
                let pairs = [
                    (found.hidden, &whole.hidden, wanted.hidden),
                    (found.weight, &whole.weight, wanted.weight),
                    (found.bias, &whole.bias, wanted.bias),
                ];
                for (found, whole, is_wanted) in pairs {
                    assert_eq!(found.is_some(), is_wanted);
                    if let Some(found) = found {
                        let whole = whole.as_ref().expect("all were wanted");
                        assert_eq!(read(stream, &found), read(stream, whole));
                    }
                }
                let has = |name: &str| {
                    let mut all = before.iter().chain(&after);
                    all.any(|operator| operator == name)
                };
                assert_eq!(has("aclnnInplaceAddmm"), wanted.weight, "{wanted:?}");
                let is_kept = key.reduction != LossReduction::None;
                let has_gradient = wanted.hidden || wanted.weight || wanted.bias || !is_kept;
                assert_eq!(has("aclnnCrossEntropyLossGrad"), has_gradient, "{wanted:?}");
            }
        }
    });
}

/// Numbers of ignored tokens don't count, whatever they are.
#[test]
fn ignored_tokens_may_have_any_hidden_states() {
    on_the_emulator(|_, stream| {
        for wild in [f64::NAN, f64::INFINITY] {
            for dtype in FLOATS {
                for key in keys() {
                    let given = given(stream, dtype, key, settings(key), &TARGETS, Lie::Contiguous);
                    let values = noise(TARGETS.len() * WIDTH, 5).into_iter().enumerate();
                    let values: Vec<f64> = values
                        .map(|(place, x)| if place / WIDTH == 1 { wild } else { x })
                        .collect();
                    let shape = [TARGETS.len(), WIDTH];
                    let (hidden, _) = put_values(stream, dtype, &values, &shape, Lie::Contiguous);
                    let operands = Operands::new(
                        Seen(hidden.clone()),
                        given.operands.weight().clone(),
                        given.operands.bias().cloned(),
                        given.operands.targets().clone(),
                        settings(key),
                        key,
                    );
                    let losses = match key.reduction {
                        LossReduction::None => TARGETS.len(),
                        _ => 1,
                    };
                    let (dy, _) = put(stream, DType::F32, &[losses], 4, Lie::Contiguous);
                    let (loss, found, _) = run(stream, operands.unwrap(), &dy, all(key), Some(3));
                    let finite = |tensor: &Tensor| {
                        let found = read(stream, tensor);
                        assert!(found.iter().all(|x| x.is_finite()), "{key}: {found:?}");
                        found
                    };
                    finite(&loss);
                    let d_hidden = finite(found.hidden.as_ref().unwrap());
                    assert_eq!(d_hidden[WIDTH..2 * WIDTH], [0.0; WIDTH]);
                    assert!(d_hidden[..WIDTH].iter().any(|x| *x != 0.0));
                    finite(found.weight.as_ref().unwrap());
                    found.bias.iter().for_each(|bias| drop(finite(bias)));
                    // The operand is as before.
                    assert!(!read(stream, &hidden)[WIDTH].is_finite());
                }
            }
        }
    });
}

/// The mean of no tokens is NaN, and all gradients are zero, whatever the gradient of the loss is.
#[test]
fn no_token_counts() {
    on_the_emulator(|_, stream| {
        let slopes = [0.5, f64::INFINITY, f64::NAN];
        for (targets, slope) in [(vec![], 0.5)]
            .into_iter()
            .chain(slopes.map(|slope| (vec![-100; 3], slope)))
        {
            for dtype in FLOATS {
                for key in keys() {
                    let lie = Lie::Contiguous;
                    let given = given(stream, dtype, key, settings(key), &targets, lie);
                    let losses = match key.reduction {
                        LossReduction::None => targets.len(),
                        _ => 1,
                    };
                    let slopes = vec![slope; losses];
                    let (dy, _) = put_values(stream, DType::F32, &slopes, &[losses], lie);
                    let (loss, found, _) = run(stream, given.operands, &dy, all(key), Some(2));
                    let loss = read(stream, &loss);
                    match key.reduction {
                        LossReduction::Mean => assert!(loss.len() == 1 && loss[0].is_nan()),
                        _ => assert_eq!(loss, vec![0.0; losses]),
                    }
                    let zeros = |tensor: Option<Tensor>, shape: &[usize]| {
                        let tensor = tensor.expect("it was wanted");
                        assert_eq!((tensor.shape(), tensor.dtype()), (shape, dtype));
                        assert!(read(stream, &tensor).iter().all(|x| *x == 0.0), "{key}");
                    };
                    zeros(found.hidden, &[targets.len(), WIDTH]);
                    zeros(found.weight, &given.exact.weight.dims());
                    if all(key).bias {
                        zeros(found.bias, &[CLASSES]);
                    }
                }
            }
        }
    });
}

/// Logits of 30 would be off by 1/16 in bf16, and their losses too.
#[test]
fn logits_of_half_types_are_not_rounded() {
    on_the_emulator(|_, stream| {
        for dtype in [DType::BF16, DType::F16] {
            let hidden: Vec<f64> = noise(2 * WIDTH, 6).iter().map(|x| 5.0 + x).collect();
            let weight: Vec<f64> = noise(CLASSES * WIDTH, 7)
                .iter()
                .map(|x| 1.0 + x / 8.0)
                .collect();
            let lie = Lie::Contiguous;
            let (hidden, hidden_held) = put_values(stream, dtype, &hidden, &[2, WIDTH], lie);
            let (weight, weight_held) = put_values(stream, dtype, &weight, &[CLASSES, WIDTH], lie);
            let targets = integers(stream, DType::I64, &[1, 2], &[2]);
            let key = LinearCrossEntropyKey::MEAN;
            let (hidden, weight) = (Seen(hidden), Seen(weight));
            let (targets, settings) = (Seen(targets), plain(key));
            let operands = Operands::new(hidden, weight, None, targets, settings, key).unwrap();
            let (loss, _) = forward(stream, &operands, Wanted::default()).unwrap();
            let exact = Inputs {
                hidden: hidden_held.plain(),
                weight: weight_held.plain(),
                bias: None,
                targets: exact_integers(&[1, 2], [2]),
            };
            let exact = elements(reference(exact, settings, key));
            assert_near("the loss", stream, &loss, DType::F32, &[1], &exact);
        }
    });
}

fn asked(
    platform: &Platform,
    [hidden, weight]: [&Spec; 2],
    bias: Option<&Spec>,
) -> Result<(), Refused> {
    let key = LinearCrossEntropyKey {
        shift: if bias.is_some() {
            Shift::Bias
        } else {
            Shift::None
        },
        ..LinearCrossEntropyKey::MEAN
    };
    let targets = spec(DType::I32, &hidden.shape()[..1]);
    let seen = |spec: &Spec| Seen(spec.clone());
    let operands = Operands::new(
        seen(hidden),
        seen(weight),
        bias.map(seen),
        Seen(targets),
        Settings::default(),
        key,
    );
    decide(platform, &operands.unwrap())
}

#[test]
fn decisions_and_their_reasons() {
    let here = platform();
    for dtype in FLOATS {
        let (weight, bias) = (spec(dtype, &[5, 4]), spec(dtype, &[5]));
        for hidden in [spec(dtype, &[3, 4]), spec(dtype, &[0, 4])] {
            for bias in [None, Some(&bias)] {
                assert_eq!(asked(&here, [&hidden, &weight], bias), Ok(()));
                let decided = asked(&other_processor(), [&hidden, &weight], bias);
                refused(decided, Reason::Capability, "Ascend910B or later");
            }
        }
        let [hidden, weight] = [[3, 0], [5, 0]].map(|shape| spec(dtype, &shape));
        assert_eq!(asked(&here, [&hidden, &weight], None), Ok(()));
        let [hidden, weight] = [[3, 4], [0, 4]].map(|shape| spec(dtype, &shape));
        let decided = asked(&here, [&hidden, &weight], None);
        refused(decided, Reason::Shape, "no elements");
    }
    let f32 = |shape: &[usize]| spec(DType::F32, shape);
    let wide = [[3, 4], [5, 4]].map(|shape| spec(DType::F64, &shape));
    let decided = asked(&here, [&wide[0], &wide[1]], None);
    refused(decided, Reason::Dtype, "hidden states is of type f64");
    let decided = asked(&here, [&f32(&[3, 4]), &spec(DType::BF16, &[5, 4])], None);
    refused(decided, Reason::MixedDtypes, "weight is of type bf16");
    let (hidden, weight) = (f32(&[3, 4]), f32(&[5, 4]));
    let decided = asked(&here, [&hidden, &weight], Some(&spec(DType::F16, &[5])));
    refused(decided, Reason::MixedDtypes, "bias is of type f16");
}

/// Dispatch chooses the kernel, which waits for nothing. Gradients go through Burn's autodiff.
#[test]
fn a_loss_on_an_npu() {
    Scenario::new().run(|cann| {
        backend::install(cann.clone());
        let npu = kernels_serving::npu::device(0).unwrap();
        for key in keys() {
            let on = |device: &Device, is_fused: bool| {
                let device = device.clone().autodiff();
                let leaf = |shape: [usize; 2], seed| {
                    let data = TensorData::new(noise(shape[0] * shape[1], seed), shape);
                    let leaf = burn::tensor::Tensor::<2>::from_data(data.convert::<f32>(), &device);
                    leaf.require_grad()
                };
                let axes = match key.layout {
                    OutputLayout::OutputMajor => [CLASSES, WIDTH],
                    OutputLayout::InputMajor => [WIDTH, CLASSES],
                };
                let (hidden, weight) = (leaf([TARGETS.len(), WIDTH], 1), leaf(axes, 2));
                let bias = leaf([1, CLASSES], 3);
                let targets = burn::tensor::Tensor::from_data(TARGETS, &device.clone().inner());
                let inputs = Inputs {
                    hidden: hidden.clone(),
                    weight: weight.clone(),
                    bias: all(key).bias.then(|| bias.clone().reshape([CLASSES])),
                    targets,
                };
                let waits = cann.waits();
                let loss = match is_fused {
                    true => fused(inputs, settings(key), key).expect("a kernel"),
                    false => reference(inputs, settings(key), key),
                };
                let gradients = loss.clone().mul_scalar(2.0).sum().backward();
                let leaves = [hidden, weight, bias].map(|leaf| leaf.grad(&gradients));
                if is_fused {
                    assert_eq!(cann.waits(), waits);
                }
                (elements(loss), leaves.map(|leaf| leaf.map(elements)))
            };
            let (loss, found) = on(&npu, true);
            let (exact_loss, exact) = on(&Device::flex(), false);
            assert_close("loss", &loss, &exact_loss, DType::F32);
            for (found, exact) in found.iter().zip(&exact) {
                assert_eq!(found.is_some(), exact.is_some());
                if let (Some(found), Some(exact)) = (found, exact) {
                    assert_close("gradient", found, exact, DType::F32);
                }
            }
        }
        kernels_serving::npu::close();
        backend::close();
    });
}
