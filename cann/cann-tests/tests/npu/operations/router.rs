//! Compares routers over CANN's operators with the reference in f64, for every accepted key and dtype.

use crate::npu::*;
use burn::tensor::IntDType;
use burn_cann::{DType, Platform, Spec, Stream, Version};
use kernels_runtime::dispatch::Reason;
use kernels_runtime::npu::{OnNpu, Refused, Seen, Specified};
use kernels_runtime::ops::Mismatch;
use kernels_runtime::ops::fused::{Backward, Given};
use kernels_runtime::ops::moe::router::npu::{Choice, Plan, Weights, decide};
use kernels_runtime::ops::moe::router::{Operands, Router, Routing, reference};
use kernels_runtime::semantics::*;

/// Returns keys that choose by logits alone: some of published models, and the other accepted ones.
fn keys() -> Vec<RouterKey> {
    let wide = |key| RouterKey {
        weights: RouterWeights::Wide,
        ..key
    };
    vec![
        RouterKey::QWEN2_MOE,
        RouterKey::QWEN3_MOE,
        RouterKey::MIXTRAL,
        RouterKey::DEEPSEEK_V2,
        RouterKey::LLAMA4,
        RouterKey::GPT_OSS,
        wide(RouterKey::LLAMA4),
        wide(RouterKey::GPT_OSS),
    ]
}

/// Returns keys that choose by scores, or do so in groups.
fn keys_of_scores() -> Vec<RouterKey> {
    let corrected = |key| RouterKey {
        correction: Correction::Bias,
        ..key
    };
    let grouped = |key, grouping| RouterKey { grouping, ..key };
    vec![
        RouterKey::DEEPSEEK_V3,
        grouped(RouterKey::DEEPSEEK_V3, Grouping::Max),
        RouterKey::DEEPSEEK_V2_GROUPS,
        corrected(RouterKey::DEEPSEEK_V2_GROUPS),
        corrected(RouterKey::QWEN2_MOE),
        corrected(RouterKey::MIXTRAL),
        SHARES,
        grouped(SHARES, Grouping::TopTwo),
    ]
}

/// Sigmoids, divided by their sum.
const SHARES: RouterKey = RouterKey {
    renormalise: Renormalise::Sum,
    ..RouterKey::LLAMA4
};

/// Returns a correction that changes the choice.
fn correction(stream: &Stream, experts: usize) -> (burn_cann::Tensor, Held) {
    let values: Vec<f64> = (0..experts).map(|at| (at % 3) as f64 * 0.17).collect();
    put_values(stream, DType::F32, &values, &[experts], Lie::Contiguous)
}

fn checked<T: Specified + Clone>(
    logits: &T,
    routing: &Routing,
    ints: IntDType,
) -> Result<Operands<Seen<T>>, Mismatch> {
    Operands::new(Seen(logits.clone()), None, *routing, ints)
}

fn compare(stream: &Stream, dtype: DType, routing: &Routing, tokens: usize, lie: Lie) {
    let (key, k, experts) = (routing.key(), routing.top_k(), routing.num_experts());
    let what = format!("{key}, {k} of {experts} for {tokens}, {lie:?}");
    let (logits, held) = distinct(stream, dtype, tokens, experts, lie);
    let (asked, ints) = match k % 2 {
        0 => (IntDType::I32, DType::I32),
        _ => (IntDType::I64, DType::I64),
    };
    let bias = (key.correction == Correction::Bias).then(|| correction(stream, experts));
    let (bias, bias_held) = bias.unzip();
    let operands = Operands::new(Seen(logits), bias.map(Seen), *routing, asked);
    let operands = operands.expect(&what);
    let forward = || Router::forward(stream, &operands, None).expect(&what);
    let (made, _) = without_waiting(forward);
    let (weights, indices) = (made.y, made.ints[0].clone());
    let result = if key.weights == RouterWeights::Wide {
        DType::F32
    } else {
        dtype
    };
    let (dw, dw_held) = put(stream, result, &[tokens, k], 7, lie);
    let given = Given {
        others: Default::default(),
        dy: Seen(dw),
        saved: [].into_iter().collect(),
        ints: [Seen(indices.clone())].into_iter().collect(),
    };
    let wanted = [true, false];
    let wanted = &wanted[..operands.tensors().count()];
    let operands = Backward::<Router, _>::new(operands, given, wanted).expect(&what);
    let (found, _) = without_waiting(|| Router::backward(stream, &operands).expect(&what));
    let d_logits = found.logits.expect("it was wanted");
    let shape = [tokens, k];
    assert_eq!((indices.shape(), indices.dtype()), (&shape[..], ints));
    if tokens == 0 {
        assert_near(&what, stream, &weights, result, &shape, &[]);
        assert_near(&what, stream, &d_logits, dtype, &[0, experts], &[]);
        return;
    }
    let logits = held.exact::<2>();
    let bias = bias_held.map(|bias| bias.plain::<1>());
    let expected = reference(logits.clone(), bias, routing);
    let chosen: Vec<f64> = expected.indices.into_data().iter::<f64>().collect();
    assert_eq!(read(stream, &indices), chosen, "{what}");
    assert_near(
        &what,
        stream,
        &weights,
        result,
        &shape,
        &elements(expected.weights.clone()),
    );
    let loss = (expected.weights * dw_held.plain()).sum().backward();
    assert_near(
        &what,
        stream,
        &d_logits,
        dtype,
        &[tokens, experts],
        &gradient(&logits, &loss),
    );
}

/// Returns logits that differ within each token, in any dtype.
fn distinct(
    stream: &Stream,
    dtype: DType,
    tokens: usize,
    experts: usize,
    lie: Lie,
) -> (burn_cann::Tensor, Held) {
    let values: Vec<f64> = (0..tokens * experts)
        .map(|place| {
            let (token, expert) = (place / experts, place % experts);
            // 37 is coprime to the numbers of experts here, so this is a permutation.
            let rank = (expert * 37 + token * 11) % experts;
            rank as f64 / 8.0 - 2.0
        })
        .collect();
    put_values(stream, dtype, &values, &[tokens, experts], lie)
}

#[test]
fn every_accepted_key_and_type_beside_the_reference() {
    on_the_emulator(|_, stream| {
        for key in keys() {
            for (experts, k, tokens) in [(8, 2, 17), (5, 1, 3), (32, 5, 4), (4, 4, 1), (8, 3, 0)] {
                let plain = Routing::new(key, experts, k).unwrap();
                for routing in [plain, plain.scaled(2.5).unwrap()] {
                    for dtype in FLOATS {
                        for lie in LIES {
                            compare(stream, dtype, &routing, tokens, lie);
                        }
                    }
                }
            }
        }
    });
}

#[test]
fn corrections_and_groups_beside_the_reference() {
    on_the_emulator(|_, stream| {
        for key in keys_of_scores() {
            for (experts, k, tokens) in [(8, 2, 17), (32, 5, 4), (12, 1, 3), (8, 3, 0)] {
                let all = Routing::new(key, experts, k).unwrap();
                // Without groups in the key, this is an error.
                let limited = all.limited_to_groups(4, 2).ok();
                let scaled = all.scaled(2.5).unwrap();
                for routing in [Some(all), Some(scaled), limited].into_iter().flatten() {
                    for dtype in FLOATS {
                        for lie in LIES {
                            compare(stream, dtype, &routing, tokens, lie);
                        }
                    }
                }
            }
        }
    });
}

#[test]
fn of_equal_logits_the_first() {
    on_the_emulator(|_, stream| {
        for key in keys().into_iter().chain([SHARES]) {
            let routing = Routing::new(key, 4, 2).unwrap();
            let values = [1.0, 2.0, 2.0, 2.0, 0.0, 0.0, 0.0, 0.0];
            let (logits, _) = put_values(stream, DType::F32, &values, &[2, 4], Lie::Contiguous);
            let operands = checked(&logits, &routing, IntDType::I32).unwrap();
            let made = Router::forward(stream, &operands, None).unwrap();
            assert_eq!(read(stream, &made.ints[0]), [1.0, 2.0, 0.0, 1.0], "{key}");
        }
    });
}

#[test]
fn decisions_and_their_reasons() {
    let here = platform();
    let logits = spec(DType::BF16, &[3, 8]);
    let asked = |logits: &Spec, routing: &Routing| -> Result<Plan, Refused> {
        decide(&here, &checked(logits, routing, IntDType::I64).unwrap())
    };
    let of = |key| asked(&logits, &Routing::new(key, 8, 2).unwrap());
    let plan = |choice, weights| Ok(Plan { choice, weights });
    let by_logits = |weights| plan(Choice::ByLogits, weights);
    assert_eq!(of(RouterKey::QWEN2_MOE), by_logits(Weights::OfAll));
    assert_eq!(of(RouterKey::QWEN3_MOE), by_logits(Weights::OfChosen));
    assert_eq!(of(RouterKey::GPT_OSS), by_logits(Weights::OfChosen));
    assert_eq!(of(RouterKey::LLAMA4), by_logits(Weights::Sigmoid));
    let by_scores = |weights| plan(Choice::ByScores, weights);
    assert_eq!(of(SHARES), by_scores(Weights::SigmoidShares));
    let corrected = |key, platform: &Platform| {
        let routing = Routing::new(key, 8, 2).unwrap();
        let bias = Some(Seen(spec(DType::F32, &[8])));
        let operands = Operands::new(Seen(logits.clone()), bias, routing, IntDType::I64);
        decide(platform, &operands.unwrap())
    };
    let deepseek = RouterKey::DEEPSEEK_V3;
    assert_eq!(
        corrected(deepseek, &here),
        by_scores(Weights::SigmoidShares)
    );
    let older = Platform {
        version: Version::new("8.2.RC1"),
        ..platform()
    };
    refused(
        corrected(deepseek, &older),
        Reason::CannotLoad,
        "needs CANN 8.3 or later",
    );
    let sigmoids = RouterKey {
        correction: Correction::Bias,
        ..RouterKey::LLAMA4
    };
    refused(
        corrected(sigmoids, &here),
        Reason::Semantics,
        "correction=bias",
    );
    let grouped = Routing::new(RouterKey::DEEPSEEK_V2_GROUPS, 8, 2).unwrap();
    assert_eq!(
        asked(&logits, &grouped),
        by_logits(Weights::OfAll),
        "one group does not limit the choice"
    );
    let grouped = grouped.limited_to_groups(4, 2).unwrap();
    assert_eq!(asked(&logits, &grouped), by_scores(Weights::OfAll));
    let many = Routing::new(RouterKey::DEEPSEEK_V2_GROUPS, 256, 2).unwrap();
    let many = many.limited_to_groups(128, 2).unwrap();
    let wide = spec(DType::BF16, &[3, 256]);
    refused(asked(&wide, &many), Reason::Shape, "at most 2048");
    let routing = Routing::new(RouterKey::QWEN2_MOE, 8, 2).unwrap();
    let f64s = spec(DType::F64, &[3, 8]);
    refused(asked(&f64s, &routing), Reason::Dtype, "f64");
    let narrow = spec(DType::BF16, &[3, 7]);
    mismatched(
        checked(&narrow, &routing, IntDType::I64),
        "logits are [3, 7]",
    );
    let many = Routing::new(RouterKey::QWEN2_MOE, 2048, 1025).unwrap();
    let wide = spec(DType::BF16, &[3, 2048]);
    refused(asked(&wide, &many), Reason::Shape, "at most 1024");
    refused(
        decide(
            &other_processor(),
            &checked(&logits, &routing, IntDType::I64).unwrap(),
        ),
        Reason::Capability,
        "910B or later",
    );
}

/// The experts come back from the client with the gradient, and can be any numbers then.
#[test]
fn a_gradient_takes_the_nearest_of_wrong_experts() {
    on_the_emulator(|_, stream| {
        let (logits, _) = distinct(stream, DType::F32, 2, 4, Lie::Contiguous);
        let (dy, _) = put(stream, DType::F32, &[2, 2], 5, Lie::Contiguous);
        for key in keys() {
            let routing = Routing::new(key, 4, 2).unwrap();
            let gradient = |experts: &[i64]| {
                let operands = checked(&logits, &routing, IntDType::I64).unwrap();
                let experts = Seen(integers(stream, DType::I64, experts, &[2, 2]));
                let given = Given {
                    others: Default::default(),
                    dy: Seen(dy.clone()),
                    saved: [].into_iter().collect(),
                    ints: [experts].into_iter().collect(),
                };
                let backward = Backward::<Router, _>::new(operands, given, &[true]).unwrap();
                let found = Router::backward(stream, &backward).unwrap();
                read(stream, &found.logits.unwrap())
            };
            assert_eq!(
                gradient(&[-1, 1, 1 << 40, 0]),
                gradient(&[0, 1, 3, 0]),
                "{key}"
            );
        }
    });
}
