//! Tests which inference calls the operators of training compute, because CANN's operator for inference does not take
//! them or is not there.

use super::cached::*;
use crate::npu::common::Scenario;
use crate::npu::*;
use crate::passes::forward;
use burn_cann::DType;
use kernels_runtime::npu::{OnNpu, Seen};
use kernels_runtime::ops::attention::npu::{Operator, decide_inference};
use kernels_runtime::ops::attention::{Attention, Lengths, Operands, Settings};
use kernels_runtime::semantics::*;

/// The operator does not take these calls, and that of training computes them.
#[test]
fn other_calls_are_those_of_training() {
    on_the_emulator(|device, stream| {
        let causal = AttentionKey::CAUSAL;
        let of = |change: &dyn Fn(&mut AttentionKey)| {
            let mut key = causal;
            change(&mut key);
            Call::new(key)
        };
        let with_sinks = |dtype, width| {
            let call = Call {
                width,
                value_width: width,
                ..of(&|key| key.sink = Sinks::Learned)
            };
            (dtype, call, Operator::WithSinks)
        };
        let prefix = |settings| Call {
            settings,
            queries: 3,
            ..of(&|key| key.mask = AttentionMask::Prefix)
        };
        let plain = |call| (DType::BF16, call, Operator::Dense);
        let wide = Call {
            width: 16,
            value_width: 8,
            ..Call::new(causal)
        };
        let capped = Call {
            settings: Settings {
                cap: Some(0.75),
                ..Settings::default()
            },
            ..of(&|key| key.cap = ScoreCap::Tanh)
        };
        for (dtype, call, operator) in [
            (DType::F32, Call::new(causal), Operator::Dense),
            with_sinks(DType::F16, 64),
            with_sinks(DType::BF16, 32),
            plain(Call {
                queries: 11,
                ..Call::new(causal)
            }),
            plain(Call {
                width: 8,
                value_width: 8,
                ..Call::new(causal)
            }),
            plain(wide),
            // It has no cap.
            (DType::BF16, capped, Operator::Composed),
            // Its queries see keys in ways that no mode has.
            plain(prefix(Settings {
                prefix: Some(2),
                ..Settings::default()
            })),
            plain(Call {
                queries: 3,
                ..of(&|key| key.window = AttentionWindow::Chunked).windowed(4)
            }),
            plain(Call {
                lengths: Some(vec![4, 11]),
                queries: 3,
                ..of(&|key| key.lengths = SequenceLengths::Padded)
            }),
            // A sequence without keys.
            plain(Call {
                lengths: Some(vec![0, 11]),
                ..of(&|key| key.lengths = SequenceLengths::Padded)
            }),
            // More than one query over a cache whose first positions are forgotten.
            plain(Call {
                queries: 3,
                around: [5, 0],
                ..Call::new(causal)
            }),
        ] {
            let (plan, _) = call.compare(device, stream, dtype);
            assert_eq!(plan.operator, operator, "{call:?}");
        }
    });
}

/// Queries of any strides are copied, and keys outside of a cache are left to the operator that reads them.
#[test]
fn strides_of_queries_and_keys() {
    on_the_emulator(|device, stream| {
        for lie in LIES {
            let call = Call {
                lie,
                ..Call::new(AttentionKey::CAUSAL)
            };
            let (plan, put_on) = call.compare(device, stream, DType::F16);
            assert_eq!(plan.operator, Operator::Infer);
            let copies = usize::from(lie != Lie::Contiguous);
            assert_eq!(count(&put_on, "aclnnInplaceCopy"), copies, "{put_on:?}");
        }
        // A head is a part of wider rows, and one sequence is repeated.
        let memory = put(stream, DType::F16, &[1, 2, 9, 40], 1, Lie::Contiguous).0;
        let part = memory.slice(3, 8..24).unwrap();
        let repeated = memory
            .slice(3, 0..16)
            .unwrap()
            .expand([2, 2, 9, 16])
            .unwrap();
        for (batch, keys) in [(1, part), (2, repeated)] {
            let (q, _) = put(stream, DType::F16, &[batch, 4, 1, 16], 2, Lie::Contiguous);
            let operands = Operands::new(
                Seen(q),
                Seen(keys.clone()),
                Seen(keys),
                None,
                None,
                Settings::default(),
                Lengths::default(),
                AttentionKey::CAUSAL,
            )
            .unwrap();
            let plan = decide_inference(device, &operands).unwrap();
            assert_eq!(plan.operator, Operator::Dense);
            let found = Attention::forward(stream, &operands, None).unwrap();
            let expected = forward::<Attention>(stream, &operands).unwrap();
            assert_eq!(read(stream, &found.y), read(stream, &expected.y));
        }
    });
}

/// A library without the operator, or with the version without sinks alone.
#[test]
fn missing_functions_are_not_missed() {
    let scenario = Scenario::new()
        .hide("aclnnFusedInferAttentionScoreV3")
        .hide("aclnnFusedInferAttentionScoreV4GetWorkspaceSize");
    on(scenario, |device, stream| {
        let (plan, _) = Call::new(AttentionKey::CAUSAL).compare(device, stream, DType::BF16);
        assert_eq!(plan.operator, Operator::Dense);
        let key = AttentionKey {
            sink: Sinks::Learned,
            ..AttentionKey::CAUSAL
        };
        let call = Call {
            width: 64,
            value_width: 64,
            ..Call::new(key)
        };
        let (plan, _) = call.compare(device, stream, DType::BF16);
        assert_eq!(plan.operator, Operator::WithSinks);
    });
}
