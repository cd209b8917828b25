//! Compares attention over CANN's operators with the reference in f64, for every mask, layout and dtype.

use crate::npu::*;
use crate::passes::{forward, given};
use burn_cann::{DType, Platform, Stream, Version};
use kernels_runtime::dispatch::Reason;
use kernels_runtime::npu::{OnNpu, Seen};
use kernels_runtime::ops::attention::npu::{Hidden, Operator, Plan, decide};
use kernels_runtime::ops::attention::{Attention, Inputs, Lengths, Operands, Settings, reference};
use kernels_runtime::semantics::*;

/// The sizes of a call: batch, heads, heads of keys, queries, keys, width, and width of values.
pub(super) type Sizes = [usize; 7];

/// Returns the shapes of queries, keys, values and result.
fn shapes(
    [batch, heads, kv_heads, queries, keys, width, value_width]: Sizes,
    layout: HeadLayout,
) -> [[usize; 4]; 4] {
    let shape = |heads, rows, width| match layout {
        HeadLayout::Bnsd => [batch, heads, rows, width],
        HeadLayout::Bsnd => [batch, rows, heads, width],
    };
    [
        shape(heads, queries, width),
        shape(kv_heads, keys, width),
        shape(kv_heads, keys, value_width),
        shape(heads, queries, value_width),
    ]
}

/// The numbers of a call.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) key: AttentionKey,
    pub(super) sizes: Sizes,
    pub(super) settings: Settings,
    pub(super) lengths: Option<Vec<usize>>,
    pub(super) lie: Lie,
    /// The bias, if the key has one.
    pub(super) bias: Bias,
}

/// A bias of noise.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bias {
    /// Whether it is the same for all sequences, heads and queries.
    pub(super) repeated: [bool; 3],
    /// The number in place of the noise for all keys of the first query and for every fifth other one.
    pub(super) hides: Option<f64>,
}

impl Bias {
    fn shape(self, [batch, heads, _, queries, keys, ..]: Sizes) -> [usize; 4] {
        let [b, h, q] = self.repeated;
        let size = |repeated: bool, size: usize| if repeated { 1 } else { size };
        [size(b, batch), size(h, heads), size(q, queries), keys]
    }

    fn values(self, shape: [usize; 4]) -> Vec<f64> {
        let mut values = noise(shape.iter().product(), 6);
        if let Some(hides) = self.hides {
            for (place, value) in values.iter_mut().enumerate() {
                let query = place / shape[3] % shape[2];
                if query == 0 || place % 5 == 0 {
                    *value = hides;
                }
            }
        }
        values
    }
}

impl Call {
    pub(super) fn new(key: AttentionKey, sizes: Sizes, settings: Settings) -> Self {
        Self {
            key,
            sizes,
            settings,
            lengths: None,
            lie: Lie::Contiguous,
            bias: Bias {
                repeated: [false; 3],
                hides: None,
            },
        }
    }

    pub(super) fn lengths(&self) -> Lengths {
        self.lengths
            .as_ref()
            .map_or_else(Lengths::default, |lengths| Lengths::new(lengths))
    }
}

/// The plan of a call, and the operators and copies of its forward pass.
pub(super) type Planned = (Plan, Vec<String>);

const WANTED: &str = "the gradient was wanted";

/// Compares forward and every gradient of one call with the reference.
pub(super) fn compare(stream: &Stream, dtype: DType, call: &Call) -> Planned {
    let what = format!("{}, {call:?}", call.key);
    let Call {
        key,
        sizes,
        settings,
        lie,
        ..
    } = *call;
    let [q_shape, k_shape, v_shape, y_shape] = shapes(sizes, key.layout);
    let (q, q_held) = put(stream, dtype, &q_shape, 1, lie);
    let (k, k_held) = put(stream, dtype, &k_shape, 2, lie);
    let (v, v_held) = put(stream, dtype, &v_shape, 3, lie);
    let (dy, dy_held) = put(stream, dtype, &y_shape, 4, lie);
    let sinks = (key.sink == Sinks::Learned).then(|| put(stream, dtype, &[sizes[1]], 5, lie));
    let bias_shape = call.bias.shape(sizes);
    let bias = (key.bias == AttentionBias::Additive).then(|| {
        let values = call.bias.values(bias_shape);
        put_values(stream, dtype, &values, &bias_shape, lie)
    });
    let operands = Operands::new(
        Seen(q),
        Seen(k),
        Seen(v),
        bias.as_ref().map(|(bias, _)| Seen(bias.clone())),
        sinks.as_ref().map(|(sinks, _)| Seen(sinks.clone())),
        settings,
        call.lengths(),
        key,
    )
    .expect(&what);
    let plan = decide(stream.device().platform(), &operands).expect(&what);
    let (made, put_on) =
        at_most_uploading(|| forward::<Attention>(stream, &operands).expect(&what));
    let y = made.y;
    let [_, lse] = made.saved.as_slice() else {
        panic!("the result and lse are kept")
    };
    assert_eq!(lse.dtype(), DType::F32);
    assert_eq!(lse.shape(), [sizes[0], sizes[1], sizes[3]]);
    let floats = 3 + usize::from(bias.is_some()) + usize::from(sinks.is_some());
    let wanted = &[true; 5][..floats];
    let operands = given::<Attention, _>(operands, dy, made.saved, wanted).expect(&what);
    let (gradients, _) = at_most_uploading(|| Attention::backward(stream, &operands).expect(&what));

    let (q, k, v) = (q_held.exact(), k_held.exact(), v_held.exact());
    let exact_sinks = sinks.map(|(_, held)| held.exact::<1>());
    let exact_bias = bias.map(|(_, held)| held.exact::<4>());
    let inputs = Inputs {
        q: q.clone(),
        k: k.clone(),
        v: v.clone(),
        bias: exact_bias.clone(),
        sinks: exact_sinks.clone(),
        lengths: call.lengths(),
    };
    let expected = reference(inputs, settings, key);
    let found = (expected.clone() * dy_held.plain()).sum().backward();
    let [dq, dk, dv] = [gradients.q, gradients.k, gradients.v].map(|found| found.expect(WANTED));
    for (name, tensor, shape, expected) in [
        ("y", y, y_shape, elements(expected)),
        ("dq", dq, q_shape, gradient(&q, &found)),
        ("dk", dk, k_shape, gradient(&k, &found)),
        ("dv", dv, v_shape, gradient(&v, &found)),
    ] {
        let what = format!("{name} of {what}");
        assert_near(what, stream, &tensor, dtype, &shape, &expected);
    }
    assert_eq!(gradients.bias.is_some(), exact_bias.is_some());
    for (tensor, exact) in gradients.bias.iter().zip(&exact_bias) {
        let what = format!("dbias of {what}");
        let expected = gradient(exact, &found);
        assert_near(what, stream, tensor, dtype, &bias_shape, &expected);
    }
    assert_eq!(gradients.sinks.is_some(), exact_sinks.is_some());
    for (tensor, exact) in gradients.sinks.iter().zip(&exact_sinks) {
        let what = format!("dsinks of {what}");
        let expected = gradient(exact, &found);
        assert_near(what, stream, tensor, dtype, &[sizes[1]], &expected);
    }
    (plan, put_on)
}

pub(super) fn uploads(put_on: &[String]) -> usize {
    let is_copy = |call: &&String| *call == "aclrtMemcpyAsync";
    put_on.iter().filter(is_copy).count()
}

pub(super) const LAYOUTS: [HeadLayout; 2] = [HeadLayout::Bnsd, HeadLayout::Bsnd];

const CALLS: [(Sizes, Option<usize>, Hidden); 6] = [
    ([2, 4, 2, 7, 7, 16, 16], None, Hidden::ToLast),
    ([1, 2, 1, 3, 20, 8, 8], None, Hidden::ToLast),
    ([1, 2, 2, 5, 9, 8, 8], Some(0), Hidden::FromFirst),
    ([1, 2, 2, 5, 9, 8, 8], Some(2), Hidden::Full),
    ([1, 1, 1, 1, 1, 1, 1], None, Hidden::ToLast),
    ([2, 4, 2, 5, 6, 8, 3], None, Hidden::ToLast),
];

#[test]
fn every_mask_and_type_beside_the_reference() {
    on_the_emulator(|_, stream| {
        for dtype in FLOATS {
            for layout in LAYOUTS {
                for (sizes, offset, hidden) in CALLS {
                    for mask in [AttentionMask::Causal, AttentionMask::None] {
                        let key = AttentionKey {
                            mask,
                            layout,
                            ..AttentionKey::CAUSAL
                        };
                        let settings = Settings {
                            scale: Some(0.7),
                            offset,
                            ..Settings::default()
                        };
                        let call = Call::new(key, sizes, settings);
                        let (plan, put_on) = compare(stream, dtype, &call);
                        let expected = match mask {
                            AttentionMask::Causal => hidden,
                            _ => Hidden::Nothing,
                        };
                        assert_eq!((plan.operator, plan.mask), (Operator::Dense, expected));
                        // Only the ends of each query's keys are sent.
                        assert_eq!(uploads(&put_on), usize::from(expected == Hidden::Full));
                    }
                }
            }
        }
    });
}

#[test]
fn sliding_windows() {
    on_the_emulator(|_, stream| {
        for dtype in FLOATS {
            for (mask, queries, offset, window, before, behind) in [
                (AttentionMask::Causal, 9, None, 4, 3, 0),
                (AttentionMask::Causal, 5, None, 1, 0, 0),
                (AttentionMask::Causal, 5, Some(1), 4, 6, -3),
                (AttentionMask::Causal, 5, Some(6), 4, 1, 2),
                (AttentionMask::Causal, 9, None, usize::MAX, 17, 0),
                (AttentionMask::None, 9, None, 4, 3, 3),
                (AttentionMask::None, 5, Some(2), 2, 3, -1),
            ] {
                let key = AttentionKey {
                    mask,
                    window: AttentionWindow::Sliding,
                    layout: HeadLayout::Bsnd,
                    ..AttentionKey::CAUSAL
                };
                let settings = Settings {
                    window: Some(window),
                    offset,
                    ..Settings::default()
                };
                let call = Call::new(key, [2, 4, 2, queries, 9, 8, 8], settings);
                let (plan, _) = compare(stream, dtype, &call);
                assert_eq!(plan.mask, Hidden::Band { before, behind });
            }
        }
    });
}

#[test]
fn prefixes_and_chunks() {
    on_the_emulator(|_, stream| {
        let prefix = AttentionKey {
            mask: AttentionMask::Prefix,
            ..AttentionKey::CAUSAL
        };
        let chunks = AttentionKey {
            window: AttentionWindow::Chunked,
            layout: HeadLayout::Bsnd,
            ..AttentionKey::CAUSAL
        };
        let all_of_chunks = AttentionKey {
            mask: AttentionMask::None,
            ..chunks
        };
        for dtype in FLOATS {
            for (key, offset, size) in [
                (prefix, None, 0),
                (prefix, None, 4),
                (prefix, Some(0), 7),
                (prefix, Some(1), usize::MAX),
                (chunks, None, 3),
                (chunks, Some(0), 2),
                (chunks, None, usize::MAX),
                (all_of_chunks, None, 4),
                (all_of_chunks, Some(1), 1),
            ] {
                let is_prefix = key == prefix;
                let settings = Settings {
                    prefix: is_prefix.then_some(size),
                    window: (!is_prefix).then_some(size),
                    offset,
                    ..Settings::default()
                };
                let call = Call::new(key, [2, 4, 2, 7, 9, 8, 8], settings);
                let (plan, put_on) = compare(stream, dtype, &call);
                assert_eq!(plan.mask, Hidden::Full);
                assert_eq!(uploads(&put_on), 1);
            }
        }
    });
}

/// The results of queries that see no key are zeros, and so are their gradients. The noise has other results, which the
/// comparison would find.
#[test]
fn queries_that_see_no_key() {
    on_the_emulator(|_, stream| {
        let windowed = |window| AttentionKey {
            window,
            ..AttentionKey::CAUSAL
        };
        let causal = AttentionKey::CAUSAL;
        let sliding = windowed(AttentionWindow::Sliding);
        let chunked = windowed(AttentionWindow::Chunked);
        for dtype in FLOATS {
            for layout in LAYOUTS {
                for (key, queries, keys, offset) in [
                    (causal, 7, 4, None),
                    (sliding, 5, 6, Some(4)),
                    (sliding, 5, 6, Some(40)),
                    (chunked, 5, 6, Some(5)),
                ] {
                    let key = AttentionKey { layout, ..key };
                    let settings = Settings {
                        window: (key.window != AttentionWindow::None).then_some(3),
                        offset,
                        ..Settings::default()
                    };
                    let call = Call::new(key, [2, 4, 2, queries, keys, 8, 8], settings);
                    let (plan, put_on) = compare(stream, dtype, &call);
                    assert_eq!(plan.mask, Hidden::Full);
                    assert_eq!(uploads(&put_on), 2);
                }
            }
        }
    });
}

#[test]
fn padded_sequences() {
    on_the_emulator(|_, stream| {
        let calls = [
            (AttentionMask::Causal, AttentionWindow::None),
            (AttentionMask::None, AttentionWindow::None),
            (AttentionMask::Prefix, AttentionWindow::None),
            (AttentionMask::Causal, AttentionWindow::Sliding),
            (AttentionMask::None, AttentionWindow::Sliding),
            (AttentionMask::Causal, AttentionWindow::Chunked),
        ];
        for dtype in FLOATS {
            for layout in LAYOUTS {
                for lengths in [SequenceLengths::Padded, SequenceLengths::LeftPadded] {
                    for (mask, window) in calls {
                        let key = AttentionKey {
                            mask,
                            window,
                            layout,
                            lengths,
                            ..AttentionKey::CAUSAL
                        };
                        let settings = Settings {
                            prefix: (mask == AttentionMask::Prefix).then_some(3),
                            window: (window != AttentionWindow::None).then_some(3),
                            ..Settings::default()
                        };
                        // A sequence without keys, one with some, and a whole one; as many queries as keys, and fewer.
                        for (queries, keys) in [(7, 7), (2, 7)] {
                            let call = Call {
                                lengths: Some(vec![0, 4, 7]),
                                ..Call::new(key, [3, 4, 2, queries, keys, 8, 8], settings)
                            };
                            let (plan, _) = compare(stream, dtype, &call);
                            assert_eq!((plan.operator, plan.mask), (Operator::Dense, Hidden::Full));
                        }
                    }
                }
            }
        }
    });
}

/// Lengths of the whole axis hide nothing, so the modes without them compute the call.
#[test]
fn whole_lengths_are_none() {
    on_the_emulator(|_, stream| {
        for lengths in [
            SequenceLengths::Padded,
            SequenceLengths::LeftPadded,
            SequenceLengths::Packed,
        ] {
            let key = AttentionKey {
                lengths,
                ..AttentionKey::CAUSAL
            };
            let call = Call {
                lengths: Some(vec![7, 7]),
                ..Call::new(key, [2, 4, 2, 7, 7, 8, 8], Settings::default())
            };
            let (plan, put_on) = compare(stream, DType::BF16, &call);
            assert_eq!(
                (plan.operator, plan.mask),
                (Operator::Dense, Hidden::ToLast)
            );
            assert_eq!(uploads(&put_on), 0);
        }
    });
}

/// The documents of two sequences of seven positions: one has no position.
pub(super) const DOCUMENTS: [usize; 5] = [3, 4, 1, 0, 6];

#[test]
fn packed_documents() {
    on_the_emulator(|_, stream| {
        let band = |before, behind| Hidden::Band { before, behind };
        for dtype in FLOATS {
            // The emulator takes long to make the masks.
            let lies = match dtype {
                DType::F32 => &LIES[..],
                _ => &LIES[..1],
            };
            for layout in LAYOUTS {
                for (mask, window, hidden) in [
                    (AttentionMask::Causal, None, Hidden::ToLast),
                    (AttentionMask::None, None, Hidden::Nothing),
                    (AttentionMask::Causal, Some(2), band(1, 0)),
                    (AttentionMask::None, Some(2), band(1, 1)),
                    (AttentionMask::Causal, Some(usize::MAX), band(6, 0)),
                ] {
                    for &lie in lies {
                        let key = AttentionKey {
                            mask,
                            window: match window {
                                Some(_) => AttentionWindow::Sliding,
                                None => AttentionWindow::None,
                            },
                            layout,
                            lengths: SequenceLengths::Packed,
                            ..AttentionKey::CAUSAL
                        };
                        let settings = Settings {
                            window,
                            ..Settings::default()
                        };
                        let call = Call {
                            lengths: Some(DOCUMENTS.into()),
                            lie,
                            ..Call::new(key, [2, 4, 2, 7, 7, 8, 5], settings)
                        };
                        let (plan, put_on) = compare(stream, dtype, &call);
                        assert_eq!((plan.operator, plan.mask), (Operator::Varlen, hidden));
                        let of = |name: &str| put_on.iter().filter(|call| *call == name).count();
                        assert_eq!(of("aclnnFlashAttentionVarLenScore"), 1, "{put_on:?}");
                        assert_eq!(uploads(&put_on), 0);
                        // Unless one stride leads from sequence to sequence, all three are copied.
                        let copied = (layout == HeadLayout::Bnsd) != (lie == Lie::Turned);
                        assert_eq!(
                            of("aclnnInplaceCopy"),
                            if copied { 3 } else { 0 },
                            "{put_on:?}"
                        );
                    }
                }
            }
        }
    });
}

#[test]
fn packed_documents_that_need_a_mask() {
    on_the_emulator(|_, stream| {
        let packed = AttentionKey {
            lengths: SequenceLengths::Packed,
            ..AttentionKey::CAUSAL
        };
        let prefix = AttentionKey {
            mask: AttentionMask::Prefix,
            ..packed
        };
        let chunked = AttentionKey {
            window: AttentionWindow::Chunked,
            layout: HeadLayout::Bsnd,
            ..packed
        };
        for dtype in FLOATS {
            for key in [prefix, chunked] {
                let settings = Settings {
                    prefix: (key == prefix).then_some(2),
                    window: (key == chunked).then_some(2),
                    ..Settings::default()
                };
                let call = Call {
                    lengths: Some(DOCUMENTS.into()),
                    ..Call::new(key, [2, 4, 2, 7, 7, 8, 5], settings)
                };
                let (plan, _) = compare(stream, dtype, &call);
                assert_eq!((plan.operator, plan.mask), (Operator::Dense, Hidden::Full));
            }
        }
        // One document more than the operator of documents takes.
        for (documents, operator) in [(2048, Operator::Varlen), (2049, Operator::Dense)] {
            let mut lengths = vec![1; documents - 1];
            lengths.push(2);
            let positions = documents + 1;
            let call = Call {
                lengths: Some(lengths),
                ..Call::new(
                    packed,
                    [1, 1, 1, positions, positions, 2, 2],
                    Settings::default(),
                )
            };
            assert_eq!(compare(stream, DType::F32, &call).0.operator, operator);
        }
    });
}

#[test]
fn sinks() {
    on_the_emulator(|_, stream| {
        let with = |mask, window, lengths| AttentionKey {
            mask,
            window,
            lengths,
            sink: Sinks::Learned,
            ..AttentionKey::CAUSAL
        };
        use AttentionMask::Causal;
        use AttentionWindow::{Chunked, Sliding};
        let no_window = AttentionWindow::None;
        let no_lengths = SequenceLengths::None;
        for dtype in [DType::F16, DType::BF16] {
            for layout in LAYOUTS {
                for (key, lengths, hidden) in [
                    (with(Causal, no_window, no_lengths), None, Hidden::ToLast),
                    (
                        with(AttentionMask::None, no_window, no_lengths),
                        None,
                        Hidden::Nothing,
                    ),
                    (
                        with(Causal, Sliding, no_lengths),
                        None,
                        Hidden::Band {
                            before: 2,
                            behind: 0,
                        },
                    ),
                    (with(Causal, Chunked, no_lengths), None, Hidden::Full),
                    // A sequence without keys: its queries see a sink and nothing else.
                    (
                        with(Causal, no_window, SequenceLengths::Padded),
                        Some(vec![0, 5]),
                        Hidden::Full,
                    ),
                    (
                        with(Causal, Sliding, SequenceLengths::LeftPadded),
                        Some(vec![7, 4]),
                        Hidden::Full,
                    ),
                    (
                        with(Causal, no_window, SequenceLengths::Packed),
                        Some(DOCUMENTS.into()),
                        Hidden::Full,
                    ),
                ] {
                    let settings = Settings {
                        window: (key.window != no_window).then_some(3),
                        ..Settings::default()
                    };
                    let key = AttentionKey { layout, ..key };
                    for lie in LIES {
                        let call = Call {
                            lengths: lengths.clone(),
                            lie,
                            ..Call::new(key, [2, 4, 2, 7, 7, 8, 8], settings)
                        };
                        let (plan, _) = compare(stream, dtype, &call);
                        assert_eq!((plan.operator, plan.mask), (Operator::WithSinks, hidden));
                    }
                }
            }
        }
    });
}

#[test]
fn strided_operands() {
    on_the_emulator(|_, stream| {
        for dtype in FLOATS {
            for lie in [Lie::Sliced, Lie::Turned] {
                let sizes = [3, 4, 2, 5, 6, 8, 8];
                let call = Call {
                    lie,
                    ..Call::new(AttentionKey::CAUSAL, sizes, Settings::default())
                };
                compare(stream, dtype, &call);
            }
        }
    });
}

#[test]
fn decisions_and_their_reasons() {
    let here = platform();
    let older = Platform {
        version: Version::new("8.3.RC1"),
        ..platform()
    };
    let causal = AttentionKey::CAUSAL;
    let decided = |here, key: AttentionKey, settings: Settings, dtype, shapes: [[usize; 4]; 3]| {
        let [q, k, v] = shapes;
        let bias =
            (key.bias == AttentionBias::Additive).then(|| Seen(spec(dtype, &[1, 1, 1, k[2]])));
        let sinks = (key.sink == Sinks::Learned).then(|| Seen(spec(dtype, &[q[1]])));
        let whole = Lengths::default();
        let [q, k, v] = [q, k, v].map(|shape| Seen(spec(dtype, &shape)));
        let operands =
            Operands::new(q, k, v, bias, sinks, settings, whole, key).expect("they go together");
        decide(here, &operands)
    };
    let refused = |key, settings, dtype, shapes| {
        decided(&here, key, settings, dtype, shapes).expect_err("it is refused")
    };
    let plain = Settings::default();
    let square = [[1, 2, 5, 8]; 3];
    let biased = AttentionKey {
        bias: AttentionBias::Additive,
        ..causal
    };
    let with_sinks = AttentionKey {
        sink: Sinks::Learned,
        ..causal
    };
    let wide = [[1, 2, 5, 8], [1, 2, 5, 8], [1, 2, 5, 9]];
    let on_older = decided(&older, with_sinks, plain, DType::BF16, square);
    let empty = [[1, 2, 0, 8], [1, 2, 4, 8], [1, 2, 4, 8]];
    for (refused, reason, why) in [
        (
            refused(biased, plain, DType::F64, square),
            Reason::Dtype,
            "f32, f16 and bf16",
        ),
        (
            refused(biased, plain, DType::F32, empty),
            Reason::Shape,
            "q has no elements",
        ),
        (
            refused(with_sinks, plain, DType::F32, square),
            Reason::Dtype,
            "beside sinks",
        ),
        (
            on_older.expect_err("it has no version 3"),
            Reason::CannotLoad,
            "sinks needs CANN 8.5 or later; this is 8.3.RC1",
        ),
        (
            refused(causal, plain, DType::F64, square),
            Reason::Dtype,
            "f32, f16 and bf16",
        ),
        (
            refused(causal, plain, DType::F32, wide),
            Reason::Shape,
            "at most 8",
        ),
        (
            refused(causal, plain, DType::F32, empty),
            Reason::Shape,
            "q",
        ),
    ] {
        assert_eq!(refused.reason, reason, "{refused}");
        assert!(refused.to_string().contains(why), "{refused}");
    }
}
