//! Compares attention over CANN's operators with the reference in f64, for every mask, layout and dtype.

#![cfg(feature = "npu")]

mod npu;

use burn_cann::{DType, Stream};
use kernels_runtime::dispatch::Reason;
use kernels_runtime::npu::Seen;
use kernels_runtime::ops::attention::npu::{Hidden, Plan, backward, decide, forward};
use kernels_runtime::ops::attention::{Inputs, Lengths, Operands, Settings, reference};
use kernels_runtime::semantics::*;
use npu::*;

/// The sizes of a call: batch, heads, heads of keys, queries, keys, width, and width of values.
type Sizes = [usize; 7];

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

/// Compares forward and every gradient of one call with the reference.
fn compare(
    stream: &Stream,
    dtype: DType,
    key: AttentionKey,
    sizes: Sizes,
    settings: Settings,
    lie: Lie,
) -> Plan {
    let what = format!("{key}, {sizes:?} {settings:?} {lie:?}");
    let [q_shape, k_shape, v_shape, y_shape] = shapes(sizes, key.layout);
    let (q, q_held) = put(stream, dtype, &q_shape, 1, lie);
    let (k, k_held) = put(stream, dtype, &k_shape, 2, lie);
    let (v, v_held) = put(stream, dtype, &v_shape, 3, lie);
    let (dy, dy_held) = put(stream, dtype, &y_shape, 4, lie);
    let operands = Operands::new(
        [q, k, v].map(Seen),
        None,
        None,
        settings,
        Lengths::default(),
        key,
    )
    .expect(&what);
    let plan = decide(stream.device().platform(), &operands).expect(&what);
    let ((y, lse), _) = without_waiting(|| forward(stream, &operands).expect(&what));
    assert_eq!(lse.dtype(), DType::F32);
    assert_eq!(lse.shape(), [sizes[0], sizes[1], sizes[3]]);
    let operands = operands.backward([Seen(dy), Seen(y.clone()), Seen(lse)], false);
    let operands = operands.expect(&what);
    let (gradients, _) = without_waiting(|| backward(stream, &operands).expect(&what));
    assert!(gradients.bias.is_none() && gradients.sinks.is_none());

    let (q, k, v) = (q_held.exact(), k_held.exact(), v_held.exact());
    let inputs = Inputs {
        q: q.clone(),
        k: k.clone(),
        v: v.clone(),
        bias: None,
        sinks: None,
        lengths: Lengths::default(),
    };
    let expected = reference(inputs, settings, key);
    let found = (expected.clone() * dy_held.plain()).sum().backward();
    for (name, tensor, shape, expected) in [
        ("y", &y, y_shape, elements(expected)),
        ("dq", &gradients.q, q_shape, gradient(&q, &found)),
        ("dk", &gradients.k, k_shape, gradient(&k, &found)),
        ("dv", &gradients.v, v_shape, gradient(&v, &found)),
    ] {
        let what = format!("{name} of {what}");
        assert_near(what, stream, tensor, dtype, &shape, &expected);
    }
    plan
}

const CALLS: [(Sizes, Option<usize>, Hidden); 6] = [
    ([2, 4, 2, 7, 7, 16, 16], None, Hidden::ToLast),
    ([1, 2, 1, 3, 20, 8, 8], None, Hidden::ToLast),
    ([1, 2, 2, 5, 9, 8, 8], Some(0), Hidden::FromFirst),
    ([1, 2, 2, 5, 9, 8, 8], Some(2), Hidden::Full(2)),
    ([1, 1, 1, 1, 1, 1, 1], None, Hidden::ToLast),
    ([2, 4, 2, 5, 6, 8, 3], None, Hidden::ToLast),
];

#[test]
fn every_mask_and_type_beside_the_reference() {
    on_the_emulator("every_mask_and_type_beside_the_reference", |_, stream| {
        for dtype in FLOATS {
            for layout in [HeadLayout::Bnsd, HeadLayout::Bsnd] {
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
                        let plan = compare(stream, dtype, key, sizes, settings, Lie::Contiguous);
                        let expected = match mask {
                            AttentionMask::Causal => hidden,
                            _ => Hidden::Nothing,
                        };
                        assert_eq!(plan.mask, expected);
                    }
                }
            }
        }
    });
}

#[test]
fn sliding_windows() {
    on_the_emulator("sliding_windows", |_, stream| {
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
                let sizes = [2, 4, 2, queries, 9, 8, 8];
                let plan = compare(stream, dtype, key, sizes, settings, Lie::Contiguous);
                assert_eq!(plan.mask, Hidden::Band { before, behind });
            }
        }
    });
}

#[test]
fn prefixes() {
    on_the_emulator("prefixes", |_, stream| {
        for dtype in FLOATS {
            for (offset, prefix, first, own) in [
                (None, 0, 2, 0),
                (None, 4, 2, 4),
                (Some(0), 7, 0, 7),
                (Some(1), usize::MAX, 1, 9),
            ] {
                let key = AttentionKey {
                    mask: AttentionMask::Prefix,
                    ..AttentionKey::CAUSAL
                };
                let settings = Settings {
                    prefix: Some(prefix),
                    offset,
                    ..Settings::default()
                };
                let sizes = [2, 4, 2, 7, 9, 8, 8];
                let plan = compare(stream, dtype, key, sizes, settings, Lie::Contiguous);
                assert_eq!(plan.mask, Hidden::Prefix { first, prefix: own });
            }
        }
    });
}

#[test]
fn strided_operands() {
    on_the_emulator("strided_operands", |_, stream| {
        for dtype in FLOATS {
            for lie in [Lie::Sliced, Lie::Turned] {
                let key = AttentionKey::CAUSAL;
                compare(
                    stream,
                    dtype,
                    key,
                    [3, 4, 2, 5, 6, 8, 8],
                    Settings::default(),
                    lie,
                );
            }
        }
    });
}

#[test]
fn decisions_and_their_reasons() {
    let here = platform();
    let causal = AttentionKey::CAUSAL;
    let refused = |key: AttentionKey, settings: Settings, dtype, [q, k, v]: [[usize; 4]; 3]| {
        let bias =
            (key.bias == AttentionBias::Additive).then(|| Seen(spec(dtype, &[1, 1, 1, k[2]])));
        let sinks = (key.sink == Sinks::Learned).then(|| Seen(spec(dtype, &[q[1]])));
        let required = [q, k, v].map(|shape| Seen(spec(dtype, &shape)));
        let operands = Operands::new(required, bias, sinks, settings, Lengths::default(), key)
            .expect("they go together");
        decide(&here, &operands).expect_err("it is refused")
    };
    let plain = Settings::default();
    let square = [[1, 2, 5, 8]; 3];
    let windowed = Settings {
        window: Some(2),
        ..plain
    };
    let capped = Settings {
        cap: Some(2.0),
        ..plain
    };
    let sliding = AttentionKey {
        window: AttentionWindow::Sliding,
        ..causal
    };
    let chunked = AttentionKey {
        window: AttentionWindow::Chunked,
        ..causal
    };
    let far = Settings {
        offset: Some(6),
        ..windowed
    };
    let biased = AttentionKey {
        bias: AttentionBias::Additive,
        ..causal
    };
    let with_cap = AttentionKey {
        cap: ScoreCap::Tanh,
        ..causal
    };
    let with_sinks = AttentionKey {
        sink: Sinks::Learned,
        ..causal
    };
    let wide = [[1, 2, 5, 8], [1, 2, 5, 8], [1, 2, 5, 9]];
    let few_keys = [[1, 2, 5, 8], [1, 2, 4, 8], [1, 2, 4, 8]];
    let empty = [[1, 2, 0, 8], [1, 2, 4, 8], [1, 2, 4, 8]];
    for (refused, reason, why) in [
        (
            refused(chunked, windowed, DType::F32, square),
            Reason::Semantics,
            "window=chunked",
        ),
        (
            refused(sliding, far, DType::F32, square),
            Reason::Shape,
            "see none of 5 keys",
        ),
        (
            refused(biased, plain, DType::F32, square),
            Reason::Semantics,
            "bias=additive",
        ),
        (
            refused(with_cap, capped, DType::F32, square),
            Reason::Semantics,
            "cap=tanh",
        ),
        (
            refused(with_sinks, plain, DType::F32, square),
            Reason::Semantics,
            "sink=learned",
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
            refused(causal, plain, DType::F32, few_keys),
            Reason::Shape,
            "see none of 4 keys",
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
