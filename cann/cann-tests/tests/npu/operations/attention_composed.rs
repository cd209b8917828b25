//! Compares attention with a cap or a bias, which several operators compute, with the reference in f64.

use super::attention::*;
use crate::npu::common::Scenario;
use crate::npu::*;
use crate::passes::{forward, given};
use burn::tensor::{Device, TensorData};
use burn_cann::{DType, Stream, Tensor, backend};
use kernels_runtime::dispatch::Mode;
use kernels_runtime::npu::{OnNpu, Seen};
use kernels_runtime::ops::attention::npu::{Hidden, Operator};
use kernels_runtime::ops::attention::{
    Attention, Each, Inputs, Lengths, Operands, Settings, fused, reference,
};
use kernels_runtime::semantics::*;

const OURS: (&str, &str) = ("npu_fused_attention", "aclnn-matmul-softmax");

/// Capped scores in every mask, with sinks and without. The larger calls have several blocks of queries.
#[test]
fn caps() {
    on_the_emulator(|_, stream| {
        use AttentionMask::{Causal, Prefix};
        use AttentionWindow::{Chunked, Sliding};
        let everything = AttentionMask::None;
        let no_window = AttentionWindow::None;
        let with = |mask, window, lengths| AttentionKey {
            mask,
            window,
            lengths,
            cap: ScoreCap::Tanh,
            ..AttentionKey::CAUSAL
        };
        let whole = SequenceLengths::None;
        let square = [2, 4, 2, 7, 7, 8, 8];
        let packed = SequenceLengths::Packed;
        for dtype in FLOATS {
            for layout in LAYOUTS {
                for sink in [Sinks::None, Sinks::Learned] {
                    for (key, sizes, offset, lengths) in [
                        (with(Causal, no_window, whole), square, None, None),
                        (
                            with(everything, no_window, whole),
                            [1, 3, 3, 5, 6, 4, 9],
                            None,
                            None,
                        ),
                        (with(Causal, Sliding, whole), square, None, None),
                        (with(Causal, Chunked, whole), square, None, None),
                        (with(Prefix, no_window, whole), square, None, None),
                        (
                            with(Causal, no_window, whole),
                            [1, 2, 1, 1, 9, 8, 8],
                            None,
                            None,
                        ),
                        // Queries that see no key.
                        (
                            with(Causal, no_window, whole),
                            [1, 4, 2, 7, 4, 8, 8],
                            None,
                            None,
                        ),
                        (
                            with(Causal, Sliding, whole),
                            [2, 4, 2, 5, 6, 8, 8],
                            Some(6),
                            None,
                        ),
                        (
                            with(Causal, no_window, SequenceLengths::Padded),
                            square,
                            None,
                            Some(vec![0, 5]),
                        ),
                        (
                            with(Causal, Sliding, SequenceLengths::LeftPadded),
                            square,
                            None,
                            Some(vec![7, 4]),
                        ),
                        (
                            with(Causal, no_window, packed),
                            square,
                            None,
                            Some(DOCUMENTS.into()),
                        ),
                        (
                            with(everything, Sliding, packed),
                            square,
                            None,
                            Some(DOCUMENTS.into()),
                        ),
                    ] {
                        let settings = Settings {
                            window: (key.window != no_window).then_some(3),
                            prefix: (key.mask == Prefix).then_some(3),
                            cap: Some(0.75),
                            offset,
                            ..Settings::default()
                        };
                        let hidden = match key.mask == everything && key.window == no_window {
                            true => Hidden::Nothing,
                            false => Hidden::Full,
                        };
                        let call = Call {
                            lengths,
                            lie: if layout == HeadLayout::Bnsd {
                                Lie::Contiguous
                            } else {
                                Lie::Turned
                            },
                            ..Call::new(
                                AttentionKey {
                                    sink,
                                    layout,
                                    ..key
                                },
                                sizes,
                                settings,
                            )
                        };
                        let (plan, put_on) = compare(stream, dtype, &call);
                        assert_eq!((plan.operator, plan.mask), (Operator::Composed, hidden));
                        // The mask, the rows of sums, what sinks add to them, and copies are not named.
                        let mode = Mode::Training;
                        assert_named(OURS, call.key, (dtype, mode), &put_on, 24);
                    }
                }
            }
        }
    });
}

#[test]
fn caps_in_blocks_of_queries() {
    on_the_emulator(|_, stream| {
        let square = [2, 2, 1, 280, 280, 4, 4];
        for (window, lengths, sizes, sent) in [
            (AttentionWindow::None, None, square, 1),
            (AttentionWindow::Sliding, None, square, 1),
            (
                AttentionWindow::Sliding,
                Some(vec![150, 0, 1, 129, 280]),
                square,
                1,
            ),
            // No query of the first block sees a key. The mask of such queries is sent too.
            (AttentionWindow::None, None, [1, 2, 1, 300, 8, 4, 4], 2),
        ] {
            let key = AttentionKey {
                window,
                cap: ScoreCap::Tanh,
                sink: Sinks::Learned,
                layout: HeadLayout::Bsnd,
                lengths: match lengths {
                    Some(_) => SequenceLengths::Packed,
                    None => SequenceLengths::None,
                },
                ..AttentionKey::CAUSAL
            };
            let settings = Settings {
                window: (window != AttentionWindow::None).then_some(20),
                cap: Some(0.75),
                ..Settings::default()
            };
            let call = Call {
                lengths,
                ..Call::new(key, sizes, settings)
            };
            let (plan, put_on) = compare(stream, DType::F32, &call);
            assert_eq!(plan.operator, Operator::Composed);
            let softmaxes = put_on.iter().filter(|call| *call == "aclnnSoftmax").count();
            assert_eq!(softmaxes, 2);
            // The keys of all queries are sent at once.
            assert_eq!(uploads(&put_on), sent);
        }
    });
}

/// A bias of every form beside each mask, with sinks and without, and with a cap.
#[test]
fn biases() {
    on_the_emulator(|_, stream| {
        use AttentionMask::{Causal, Prefix};
        use AttentionWindow::{Chunked, Sliding};
        let no_window = AttentionWindow::None;
        let whole = SequenceLengths::None;
        let square = [2, 4, 2, 7, 7, 8, 8];
        let uneven = [2, 3, 3, 5, 6, 4, 9];
        let step = [2, 4, 2, 1, 9, 8, 8];
        let packed = SequenceLengths::Packed;
        let (padded, left) = (SequenceLengths::Padded, SequenceLengths::LeftPadded);
        let calls = [
            (AttentionMask::None, no_window, whole, uneven, None),
            (Causal, no_window, whole, square, None),
            (Causal, no_window, whole, step, None),
            (Causal, Sliding, whole, step, None),
            (Causal, Chunked, whole, square, None),
            (Prefix, no_window, whole, square, None),
            // Queries that see no key.
            (Causal, no_window, whole, [1, 4, 2, 7, 4, 8, 8], None),
            (Causal, no_window, padded, square, Some(vec![0, 5])),
            (Causal, Sliding, left, square, Some(vec![7, 4])),
            (Causal, no_window, packed, square, Some(DOCUMENTS.into())),
            (
                AttentionMask::None,
                Sliding,
                packed,
                square,
                Some(DOCUMENTS.into()),
            ),
        ];
        for dtype in FLOATS {
            for (turn, (mask, window, lengths, sizes, list)) in calls.iter().enumerate() {
                for form in 0..8 {
                    // Each setting beside each bias of one call, and each bias beside each setting of another.
                    let (sinks, cap) = ((form + turn) % 2 == 1, (form / 2 + turn) % 3 == 0);
                    let key = AttentionKey {
                        mask: *mask,
                        window: *window,
                        lengths: *lengths,
                        bias: AttentionBias::Additive,
                        sink: if sinks { Sinks::Learned } else { Sinks::None },
                        cap: if cap { ScoreCap::Tanh } else { ScoreCap::None },
                        layout: LAYOUTS[form / 4],
                    };
                    let settings = Settings {
                        window: (*window != no_window).then_some(3),
                        prefix: (*mask == Prefix).then_some(3),
                        cap: cap.then_some(0.75),
                        scale: Some(0.7),
                        ..Settings::default()
                    };
                    let call = Call {
                        lengths: list.clone(),
                        lie: LIES[(form + turn) % 3],
                        bias: Bias {
                            repeated: [form & 1 != 0, form & 2 != 0, form & 4 != 0],
                            hides: None,
                        },
                        ..Call::new(key, *sizes, settings)
                    };
                    let (plan, put_on) = compare(stream, dtype, &call);
                    assert_eq!(plan.operator, Operator::Composed);
                    assert_named(OURS, key, (dtype, Mode::Training), &put_on, 32);
                }
            }
        }
    });
}

/// A bias that hides all keys of a query from it, as a mask of minus infinity or of a large number does. The gradients of
/// finite numbers are those of equal weights, although no logarithm of a sum beside them has their number.
#[test]
fn biases_that_hide() {
    on_the_emulator(|_, stream| {
        for (dtype, hides) in [
            (DType::F32, f64::NEG_INFINITY),
            (DType::F32, f32::MIN.into()),
            (DType::F32, -1e30),
            (DType::F32, -150.0),
            (DType::F16, f64::NEG_INFINITY),
            (DType::F16, -65504.0),
            (DType::BF16, f64::NEG_INFINITY),
            (DType::BF16, -2f64.powi(100)),
        ] {
            for sink in [Sinks::None, Sinks::Learned] {
                for mask in [AttentionMask::None, AttentionMask::Causal] {
                    let key = AttentionKey {
                        mask,
                        sink,
                        bias: AttentionBias::Additive,
                        ..AttentionKey::CAUSAL
                    };
                    let call = Call {
                        bias: Bias {
                            repeated: [false, true, false],
                            hides: Some(hides),
                        },
                        ..Call::new(key, [2, 4, 2, 5, 6, 8, 8], Settings::default())
                    };
                    compare(stream, dtype, &call);
                }
            }
        }
    });
}

#[test]
fn biases_in_blocks_of_queries() {
    on_the_emulator(|_, stream| {
        for repeated in [[false; 3], [true; 3]] {
            for window in [AttentionWindow::None, AttentionWindow::Sliding] {
                let key = AttentionKey {
                    window,
                    bias: AttentionBias::Additive,
                    ..AttentionKey::CAUSAL
                };
                let settings = Settings {
                    window: (window != AttentionWindow::None).then_some(20),
                    ..Settings::default()
                };
                let call = Call {
                    bias: Bias {
                        repeated,
                        hides: None,
                    },
                    ..Call::new(key, [2, 2, 1, 280, 280, 4, 4], settings)
                };
                let (_, put_on) = compare(stream, DType::F32, &call);
                assert_eq!(count(&put_on, "aclnnSoftmax"), 2);
            }
        }
    });
}

fn count(put_on: &[String], name: &str) -> usize {
    put_on.iter().filter(|call| *call == name).count()
}

/// The operands of a call with everything.
fn with_everything(stream: &Stream, dtype: DType) -> Operands<Seen<Tensor>> {
    let float = |shape: &[usize], seed| Seen(put(stream, dtype, shape, seed, Lie::Contiguous).0);
    let key = AttentionKey {
        bias: AttentionBias::Additive,
        cap: ScoreCap::Tanh,
        sink: Sinks::Learned,
        ..AttentionKey::CAUSAL
    };
    let settings = Settings {
        cap: Some(0.75),
        ..Settings::default()
    };
    Operands::new(
        float(&[2, 4, 5, 8], 1),
        float(&[2, 2, 6, 8], 2),
        float(&[2, 2, 6, 8], 3),
        Some(float(&[1, 4, 1, 6], 4)),
        Some(float(&[4], 5)),
        settings,
        Lengths::default(),
        key,
    )
    .unwrap()
}

/// The backward pass makes the gradients that are wanted, and calls no operator for others.
#[test]
fn gradients_that_nobody_wants() {
    on_the_emulator(|_, stream| {
        let pass = |wanted: [bool; 5]| {
            let operands = with_everything(stream, DType::F32);
            let saved = forward::<Attention>(stream, &operands).unwrap().saved;
            let (dy, _) = put(stream, DType::F32, &[2, 4, 5, 8], 6, Lie::Contiguous);
            let operands = given::<Attention, _>(operands, dy, saved, &wanted).unwrap();
            let run = || Attention::backward(stream, &operands).unwrap();
            let (found, put_on) = at_most_uploading(run);
            let Each {
                q,
                k,
                v,
                bias,
                sinks,
            } = found;
            let found = [q, k, v, bias, sinks].map(|one| one.map(|one| read(stream, &one)));
            (found, count(&put_on, "aclnnMatmul"), put_on.len())
        };
        let (all, products, operators) = pass([true; 5]);
        assert_eq!(products, 5);
        for (wanted, expected) in [
            ([true, false, false, false, false], 3),
            ([false, true, false, false, false], 3),
            ([false, false, true, false, false], 2),
            ([false, false, false, true, false], 2),
            ([false, false, false, false, true], 2),
            ([true, true, false, false, false], 4),
            // The cache of a frozen model, with a bias that is learned.
            ([true, false, false, true, false], 3),
        ] {
            let (found, products, fewer) = pass(wanted);
            assert_eq!(products, expected, "{wanted:?}");
            assert!(fewer < operators, "{wanted:?}: {fewer} of {operators}");
            for ((found, all), wanted) in found.iter().zip(&all).zip(wanted) {
                assert_eq!(found, if wanted { all } else { &None });
            }
        }
    });
}

/// A call of inference keeps nothing, and names the operators that it makes.
#[test]
fn inference_keeps_nothing() {
    on_the_emulator(|_, stream| {
        let largest = |dtype, sinks: bool, bias: bool| {
            let operands = with_everything(stream, dtype);
            let key = AttentionKey {
                sink: if sinks { Sinks::Learned } else { Sinks::None },
                bias: if bias {
                    AttentionBias::Additive
                } else {
                    AttentionBias::None
                },
                ..operands.key()
            };
            let settings = operands.settings();
            let ([q, k, v], given_bias, given_sinks) = operands.into_parts();
            let (given_bias, given_sinks) =
                (given_bias.filter(|_| bias), given_sinks.filter(|_| sinks));
            let lengths = Lengths::default();
            let operands =
                Operands::new(q, k, v, given_bias, given_sinks, settings, lengths, key).unwrap();
            let infer = || Attention::forward(stream, &operands, None).unwrap();
            let (made, put_on) = at_most_uploading(infer);
            assert!(made.saved.is_empty());
            assert_named(OURS, key, (dtype, Mode::Inference), &put_on, 24);
            let trained = forward::<Attention>(stream, &operands).unwrap();
            assert_eq!(read(stream, &made.y), read(stream, &trained.y));
            count(&put_on, "aclnnAmax")
        };
        for dtype in FLOATS {
            assert_eq!(largest(dtype, false, false), 0);
            assert_eq!(largest(dtype, false, true), 1);
            assert_eq!(largest(dtype, true, false), 2);
            assert_eq!(largest(dtype, true, true), 2);
        }
    });
}

/// A step of decoding widens the keys of its window, and in f32 copies none.
#[test]
fn a_step_widens_what_it_sees() {
    on_the_emulator(|_, stream| {
        let (batch, groups, width, room, window) = (2, 2, 8, 40, 6);
        let key = AttentionKey {
            window: AttentionWindow::Sliding,
            cap: ScoreCap::Tanh,
            ..AttentionKey::CAUSAL
        };
        let settings = Settings {
            window: Some(window),
            cap: Some(0.75),
            ..Settings::default()
        };
        for dtype in FLOATS {
            let float = |shape: &[usize], seed| put(stream, dtype, shape, seed, Lie::Contiguous).0;
            // NaN in front of the window would reach the result, if it were read.
            let of_cache = |seed| {
                let cache = float(&[batch, groups, room, width], seed);
                let hidden = cache.slice(2, 0..30 - window).unwrap();
                burn_cann::ops::create::fill(stream, &hidden, f64::NAN).unwrap();
                Seen(cache.slice(2, 0..30).unwrap())
            };
            let q = Seen(float(&[batch, 4, 1, width], 1));
            let (k, v, lengths) = (of_cache(2), of_cache(3), Lengths::default());
            let operands = Operands::new(q, k, v, None, None, settings, lengths, key).unwrap();
            let infer = || Attention::forward(stream, &operands, None).unwrap();
            let (made, put_on) = at_most_uploading(infer);
            assert!(read(stream, &made.y).iter().all(|y| y.is_finite()));
            let casts = if dtype == DType::F32 { 0 } else { 3 };
            assert_eq!(count(&put_on, "aclnnCast"), casts, "{put_on:?}");
            // The result alone is copied.
            assert_eq!(count(&put_on, "aclnnInplaceCopy"), 1, "{put_on:?}");
        }
    });
}

/// Dispatch chooses the operators, which wait for nothing. Gradients, that of the bias too, go through Burn's autodiff.
#[test]
fn a_bias_on_an_npu() {
    Scenario::new().run(|cann| {
        backend::install(cann.clone());
        let npu = kernels_serving::npu::device(0).unwrap();
        let key = AttentionKey {
            bias: AttentionBias::Additive,
            ..AttentionKey::CAUSAL
        };
        let on = |device: &Device, is_fused: bool| {
            let device = device.clone().autodiff();
            let leaf = |shape: [usize; 4], seed| {
                let data = TensorData::new(noise(shape.iter().product(), seed), shape);
                let leaf = burn::tensor::Tensor::<4>::from_data(data.convert::<f32>(), &device);
                leaf.require_grad()
            };
            let leaves = [
                leaf([2, 4, 5, 8], 1),
                leaf([2, 2, 5, 8], 2),
                leaf([2, 2, 5, 8], 3),
                leaf([1, 4, 1, 5], 4),
            ];
            let [q, k, v, bias] = leaves.clone();
            let inputs = Inputs {
                q,
                k,
                v,
                bias: Some(bias),
                sinks: None,
                lengths: Lengths::default(),
            };
            let waits = cann.waits();
            let y = match is_fused {
                true => fused(inputs, Settings::default(), key).expect("a kernel"),
                false => reference(inputs, Settings::default(), key),
            };
            let gradients = y.clone().powi_scalar(2).sum().backward();
            let found = leaves.map(|leaf| leaf.grad(&gradients).expect("it is tracked"));
            if is_fused {
                assert_eq!(cann.waits(), waits);
            }
            (elements(y), found.map(elements))
        };
        let (y, found) = on(&npu, true);
        let (exact, expected) = on(&Device::flex(), false);
        assert_close("y", &y, &exact, DType::F32);
        for (name, (found, expected)) in ["q", "k", "v", "bias"]
            .iter()
            .zip(found.iter().zip(&expected))
        {
            assert_close(name, found, expected, DType::F32);
        }
        kernels_serving::npu::close();
        backend::close();
    });
}
