//! Compares attention of inference calls with fewer queries than keys with the reference in f64, over caches as layers
//! of models keep them. CANN's operator for inference computes all of them, and reads the caches where they lie.

use super::cached::*;
use crate::npu::*;
use burn_cann::DType;
use kernels_runtime::ops::attention::Settings;
use kernels_runtime::ops::attention::npu::{Hidden, Operator};
use kernels_runtime::semantics::*;

#[test]
fn a_step_reads_the_cache_where_it_lies() {
    on_the_emulator(|device, stream| {
        for dtype in HALVES {
            for layout in LAYOUTS {
                for cache in [Cache::ByHead, Cache::ByToken] {
                    for mask in [AttentionMask::Causal, AttentionMask::None] {
                        for (batch, around) in [(2, [0, 5]), (1, [0, 5]), (2, [0, 0]), (2, [3, 2])]
                        {
                            let key = AttentionKey {
                                mask,
                                layout,
                                ..AttentionKey::CAUSAL
                            };
                            let call = Call {
                                cache,
                                batch,
                                around,
                                ..Call::new(key)
                            };
                            let found = call.compare(device, stream, dtype);
                            in_place(&format!("{call:?}"), found, Hidden::Nothing);
                        }
                    }
                }
            }
        }
    });
}

#[test]
fn lengths_of_a_padded_batch() {
    on_the_emulator(|device, stream| {
        for dtype in HALVES {
            for layout in LAYOUTS {
                for lengths in [SequenceLengths::Padded, SequenceLengths::LeftPadded] {
                    for around in [[0, 5], [0, 0], [3, 2]] {
                        let key = AttentionKey {
                            lengths,
                            layout,
                            ..AttentionKey::CAUSAL
                        };
                        let call = Call {
                            lengths: Some(vec![4, 11, 1]),
                            batch: 3,
                            around,
                            ..Call::new(key)
                        };
                        let found = call.compare(device, stream, dtype);
                        // Neither the beginnings of these sequences in memory are one, nor their ends.
                        if lengths == SequenceLengths::Padded && around[0] > 0 {
                            assert_eq!(found.0.operator, Operator::Dense, "{call:?}");
                            continue;
                        }
                        in_place(&format!("{call:?}"), found, Hidden::Nothing);
                    }
                }
            }
        }
        // All queries of a sequence see the same keys if no mask hides any.
        let key = AttentionKey {
            lengths: SequenceLengths::Padded,
            mask: AttentionMask::None,
            ..AttentionKey::CAUSAL
        };
        let call = Call {
            lengths: Some(vec![4, 11]),
            queries: 3,
            ..Call::new(key)
        };
        in_place(
            "padded queries",
            call.compare(device, stream, DType::BF16),
            Hidden::Nothing,
        );
    });
}

#[test]
fn several_queries_have_modes() {
    on_the_emulator(|device, stream| {
        let causal = AttentionKey::CAUSAL;
        let sliding = AttentionKey {
            window: AttentionWindow::Sliding,
            ..causal
        };
        let band = Hidden::Band {
            before: 3,
            behind: 0,
        };
        let from_first = Settings {
            offset: Some(0),
            ..Settings::default()
        };
        for dtype in HALVES {
            for layout in LAYOUTS {
                for (call, hidden) in [
                    (Call::new(causal), Hidden::ToLast),
                    (Call::new(sliding).windowed(4), band),
                    (
                        Call {
                            around: [5, 0],
                            ..Call::new(sliding).windowed(4)
                        },
                        band,
                    ),
                    (
                        Call {
                            settings: from_first,
                            ..Call::new(causal)
                        },
                        Hidden::FromFirst,
                    ),
                ] {
                    let call = Call {
                        key: AttentionKey { layout, ..call.key },
                        queries: 3,
                        ..call
                    };
                    let (plan, put_on) = call.compare(device, stream, dtype);
                    assert_eq!((plan.operator, plan.mask), (Operator::Infer, hidden));
                    // The queries alone are copied, if the cache has its axes in another order. The cache of a window
                    // whose first keys are forgotten is copied itself, as a part of the memory that does not begin with it.
                    let copies = match call.around {
                        [0, _] => usize::from(layout == HeadLayout::Bsnd),
                        _ => 2,
                    };
                    assert_eq!(count(&put_on, "aclnnInplaceCopy"), copies, "{put_on:?}");
                }
            }
        }
    });
}

/// A window moves the first key. The keys are read where they lie, or, beside sinks, the window is copied.
#[test]
fn windows_and_chunks_of_one_query() {
    on_the_emulator(|device, stream| {
        for dtype in HALVES {
            for layout in LAYOUTS {
                for window in [AttentionWindow::Sliding, AttentionWindow::Chunked] {
                    for around in [[0, 5], [3, 2], [7, 0]] {
                        let key = AttentionKey {
                            window,
                            layout,
                            ..AttentionKey::CAUSAL
                        };
                        for size in [1, 4, 100] {
                            let call = Call {
                                around,
                                ..Call::new(key).windowed(size)
                            };
                            let found = call.compare(device, stream, dtype);
                            in_place(&format!("{call:?}"), found, Hidden::Nothing);
                        }
                    }
                }
            }
        }
    });
}

#[test]
fn sinks_in_bf16() {
    on_the_emulator(|device, stream| {
        let key = AttentionKey {
            sink: Sinks::Learned,
            ..AttentionKey::CAUSAL
        };
        let sliding = AttentionKey {
            window: AttentionWindow::Sliding,
            ..key
        };
        let padded = AttentionKey {
            lengths: SequenceLengths::Padded,
            ..key
        };
        for width in [64, 128] {
            let with = |key| Call {
                width,
                value_width: width,
                ..Call::new(key)
            };
            let lengths = Some(vec![4, 11]);
            for (call, copies) in [
                (with(key), 0),
                (with(sliding).windowed(100), 0),
                (with(sliding).windowed(4), 2),
                (
                    Call {
                        lengths,
                        ..with(padded)
                    },
                    0,
                ),
                (
                    Call {
                        queries: 3,
                        ..with(key)
                    },
                    0,
                ),
            ] {
                for layout in LAYOUTS {
                    let call = Call {
                        key: AttentionKey { layout, ..call.key },
                        ..call.clone()
                    };
                    let (plan, put_on) = call.compare(device, stream, DType::BF16);
                    assert_eq!(plan.operator, Operator::InferWithSinks, "{call:?}");
                    let queries = usize::from(call.queries > 1 && layout == HeadLayout::Bsnd);
                    let found = count(&put_on, "aclnnInplaceCopy");
                    assert_eq!(found, copies + queries, "{call:?}: {put_on:?}");
                }
            }
            // A cache whose first positions are forgotten is read only without sinks.
            let call = Call {
                around: [3, 2],
                ..with(sliding).windowed(100)
            };
            let (plan, put_on) = call.compare(device, stream, DType::BF16);
            assert_eq!(plan.operator, Operator::InferWithSinks);
            assert_eq!(count(&put_on, "aclnnInplaceCopy"), 2, "{put_on:?}");
        }
    });
}
