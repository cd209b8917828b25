//! Tests operations over CANN's operators with failures and on slow streams: clear errors, the same results, and
//! nothing left behind.

use crate::npu::common::Scenario;
use crate::npu::*;
use crate::passes::{self, forward};
use burn::tensor::IntDType;
use burn_cann::{DType, Stream, Tensor};
use kernels_runtime::npu::{NpuError, OnNpu, Result, Seen};
use kernels_runtime::ops::add_rms_norm::AddRmsNorm;
use kernels_runtime::ops::attention::Attention;
use kernels_runtime::ops::cross_entropy::CrossEntropy;
use kernels_runtime::ops::fused::{Backward, Given};
use kernels_runtime::ops::layer_norm::LayerNorm;
use kernels_runtime::ops::linear::Linear;
use kernels_runtime::ops::moe::experts::{self, Experts, Settings};
use kernels_runtime::ops::moe::permute;
use kernels_runtime::ops::moe::router::{self, Router, Routing};
use kernels_runtime::ops::rms_norm::RmsNorm;
use kernels_runtime::ops::{
    adam_w, add_rms_norm, attention, cross_entropy, glu, layer_norm, linear, linear_cross_entropy,
    rms_norm, rope,
};
use kernels_runtime::semantics::*;

const TOKENS: usize = 6;
const HIDDEN: usize = 8;
const EXPERTS: usize = 4;
const FIT: &str = "operands that go together";

/// Runs forward and backward of every operation, and a step of the optimiser. Returns the sum of all results.
fn all(stream: &Stream) -> Result<f64> {
    let mut results = norm_and_rope(stream)?;
    results.extend(mixture(stream)?);
    results.extend(optimiser(stream)?);
    results.extend(losses(stream)?);
    results.extend(decoding(stream)?);
    // Results are read at the end, and nothing before this waits.
    Ok(results.iter().flat_map(|tensor| read(stream, tensor)).sum())
}

fn optimiser(stream: &Stream) -> Result<Vec<Tensor>> {
    let settings = adam_w::Settings {
        learning_rate: 0.01,
        beta_1: 0.9,
        beta_2: 0.95,
        epsilon: 1e-8,
        weight_decay: 0.1,
        step: 1,
    };
    let bf16 = |seed| uploaded(stream, DType::BF16, &[TOKENS, HIDDEN], seed);
    let second = bf16(42)?;
    let state = adam_w::State {
        parameter: Seen(bf16(40)?),
        moment_1: Seen(bf16(41)?),
        moment_2: Seen(burn_cann::ops::elementwise::mul(stream, &second, &second)?),
    };
    let operands = adam_w::Operands::of_state(state, Seen(bf16(43)?), settings).expect(FIT);
    let after = adam_w::npu::step(stream, operands)?;
    Ok(vec![after.parameter, after.moment_1, after.moment_2])
}

/// The losses of logits and, in several chunks, of hidden states, with every setting.
fn losses(stream: &Stream) -> Result<Vec<Tensor>> {
    let bf16 = |shape: &[usize], seed| uploaded(stream, DType::BF16, shape, seed);
    let settings = cross_entropy::Settings {
        label_smoothing: 0.1,
        cap: Some(2.0),
        z_loss: 0.01,
        ..cross_entropy::Settings::default()
    };
    let targets = Tensor::from_slice(stream, &[1i64, -100, 0, 3, 2, 1], [TOKENS])?;
    let dy = || Ok::<_, NpuError>(Seen(uploaded(stream, DType::F32, &[1], 50)?));

    let key = CrossEntropyKey {
        cap: LogitCap::Tanh,
        ..CrossEntropyKey::MEAN
    };
    let (logits, classes) = (Seen(bf16(&[TOKENS, HIDDEN], 51)?), Seen(targets.clone()));
    let operands = cross_entropy::Operands::new(logits, classes, settings, key).expect(FIT);
    let made = forward::<CrossEntropy>(stream, &operands)?;
    let operands =
        passes::given::<CrossEntropy, _>(operands, dy()?.0, made.saved, &[true]).expect(FIT);
    let mut results = vec![made.y];
    results.extend(CrossEntropy::backward(stream, &operands)?.logits);

    let key = LinearCrossEntropyKey {
        cap: LogitCap::Tanh,
        shift: Shift::Bias,
        ..LinearCrossEntropyKey::MEAN
    };
    let operands = linear_cross_entropy::Operands::new(
        Seen(bf16(&[TOKENS, HIDDEN], 52)?),
        Seen(bf16(&[EXPERTS, HIDDEN], 53)?),
        Some(Seen(bf16(&[EXPERTS], 54)?)),
        Seen(targets),
        settings,
        key,
    );
    let all = linear_cross_entropy::Wanted {
        hidden: true,
        weight: true,
        bias: true,
    };
    let operands = operands.expect(FIT);
    let (loss, kept) = linear_cross_entropy::npu::forward_by(stream, &operands, all, 4)?;
    let kept = linear_cross_entropy::Gradients {
        hidden: kept.hidden.map(Seen),
        weight: kept.weight.map(Seen),
        bias: kept.bias.map(Seen),
    };
    let bf16 = burn::tensor::DType::BF16;
    let kept = linear_cross_entropy::Kept::new(kept, dy()?, bf16).expect(FIT);
    let found = linear_cross_entropy::npu::scale(stream, kept)?;
    results.push(loss);
    results.extend(
        [found.hidden, found.weight, found.bias]
            .into_iter()
            .flatten(),
    );
    Ok(results)
}

fn norm_and_rope(stream: &Stream) -> Result<Vec<Tensor>> {
    let bf16 = |shape: &[usize], seed| uploaded(stream, DType::BF16, shape, seed);
    let key = RmsNormKey {
        gating: Gating::AfterNorm,
        ..RmsNormKey::GEMMA
    };
    let settings = rms_norm::Settings {
        eps: 1e-6,
        group_size: None,
    };
    let x = bf16(&[TOKENS, HIDDEN], 1)?;
    let weight = Some(Seen(bf16(&[HIDDEN], 2)?));
    let gate = Some(Seen(bf16(&[TOKENS, HIDDEN], 3)?));
    let norm = rms_norm::Operands::new(Seen(x.clone()), weight, gate, settings, key);
    let norm = norm.expect(FIT);
    let made = RmsNorm::forward(stream, &norm, None)?;
    let y = made.y;
    let given = Given::new(Seen(y.clone())).saving(made.saved.into_iter().map(Seen));
    let norm = Backward::<RmsNorm, _>::new(norm, given, &[true; 3]).expect(FIT);
    let d_norm = RmsNorm::backward(stream, &norm)?;

    let (llama, [first, second]) = (AddRmsNormKey::LLAMA, [&x, &y].map(|x| Seen(x.clone())));
    let weight = Some(Seen(bf16(&[HIDDEN], 2)?));
    let sum = add_rms_norm::Operands::new(first, second, weight, None, settings, llama);
    let found = AddRmsNorm::forward(stream, &sum.expect(FIT), None)?;

    let (weight, bias) = (Seen(bf16(&[HIDDEN], 2)?), Some(Seen(bf16(&[HIDDEN], 10)?)));
    let (settings, key) = (layer_norm::Settings { eps: 1e-5 }, LayerNormKey::GPT2);
    let layer = layer_norm::Operands::new(Seen(y.clone()), weight, bias, settings, key);
    let layer = layer.expect(FIT);
    let made = forward::<LayerNorm>(stream, &layer)?;
    let z = made.y;
    let layer = passes::given::<LayerNorm, _>(layer, z.clone(), made.saved, &[true; 3]);
    let d_layer = LayerNorm::backward(stream, &layer.expect(FIT))?;

    let weight = Seen(bf16(&[HIDDEN, HIDDEN], 11)?);
    let (bias, key) = (Some(Seen(bf16(&[HIDDEN], 12)?)), LinearKey::BURN);
    let projection = linear::Operands::new(Seen(z.clone()), weight, bias, key).expect(FIT);
    let projected = forward::<Linear>(stream, &projection)?.y;
    let projection = passes::given::<Linear, _>(projection, projected.clone(), [], &[true; 3]);
    let d_projection = Linear::backward(stream, &projection.expect(FIT))?;

    let heads = y.reshape([1, 2, TOKENS / 2, HIDDEN])?;
    let (cos, sin) = (
        bf16(&[1, TOKENS / 2, HIDDEN / 4], 4)?,
        bf16(&[1, TOKENS / 2, HIDDEN / 4], 5)?,
    );
    let key = RopeKey {
        style: RopeStyle::Interleaved,
        width: RotaryWidth::Partial,
        table: TableLayout::Pairs,
        ..RopeKey::LLAMA
    };
    let rotation = |x: &Tensor| {
        let [x, cos, sin] = [x, &cos, &sin].map(|tensor| Seen(tensor.clone()));
        rope::Operands::new(x, cos, sin, key).expect(FIT)
    };
    let turned = rope::npu::forward(stream, &rotation(&heads))?;
    let d_heads = rope::npu::backward(stream, &rotation(&turned))?;

    // With a mask of its own, because CANN's causal one alone has 4 MiB. The first query sees no key.
    let (plain, key) = (
        attention::Settings::default(),
        AttentionKey {
            lengths: SequenceLengths::LeftPadded,
            ..AttentionKey::CAUSAL
        },
    );
    let lengths = attention::Lengths::new(&[TOKENS / 2 - 1]);
    let [q, k, v] = [&turned, &heads, &d_heads].map(|tensor| Seen(tensor.clone()));
    let attended = attention::Operands::new(q, k, v, None, None, plain, lengths, key).expect(FIT);
    let made = forward::<Attention>(stream, &attended)?;
    let seen = made.y;
    let attended = passes::given::<Attention, _>(attended, seen.clone(), made.saved, &[true; 3]);
    let d_seen = Attention::backward(stream, &attended.expect(FIT))?;

    let two = glu::Projected::Separate {
        gate: Seen(x),
        up: Seen(y),
    };
    let two =
        glu::Operands::of_projected(two, glu::Settings::default(), GluKey::SWIGLU).expect(FIT);
    let unit = glu::npu::forward(stream, &two)?;
    let two = two.backward(Seen(unit.clone())).expect(FIT);
    let glu::Projected::Separate { gate, up } = glu::npu::backward(stream, &two)? else {
        panic!("two of two")
    };
    let mut results = vec![turned, d_heads, unit, gate, up, found.y, seen];
    results.extend([d_seen.q, d_seen.k, d_seen.v].into_iter().flatten());
    let of_norm = [d_norm.x, d_norm.weight, d_norm.gate];
    results.extend(of_norm.into_iter().flatten().chain(found.others));
    results.push(z);
    let of_layer = [d_layer.x, d_layer.weight, d_layer.bias];
    results.extend(of_layer.into_iter().flatten());
    results.push(projected);
    let of_projection = [d_projection.x, d_projection.weight, d_projection.bias];
    results.extend(of_projection.into_iter().flatten());
    Ok(results)
}

/// One query over keys with room in front and behind.
fn decoding(stream: &Stream) -> Result<Vec<Tensor>> {
    let width = 2 * HIDDEN;
    let bf16 = |tokens, seed| uploaded(stream, DType::BF16, &[1, 2, tokens, width], seed);
    let cache = [bf16(TOKENS, 61)?, bf16(TOKENS, 62)?];
    let [k, v] = cache.map(|tensor| tensor.slice(2, 2..TOKENS - 1));
    let [q, k, v] = [bf16(1, 60)?, k?, v?].map(Seen);
    let (plain, whole) = (
        attention::Settings::default(),
        attention::Lengths::default(),
    );
    let causal = AttentionKey::CAUSAL;
    let step = attention::Operands::new(q, k, v, None, None, plain, whole, causal).expect(FIT);
    Ok(vec![Attention::forward(stream, &step, None)?.y])
}

fn mixture(stream: &Stream) -> Result<Vec<Tensor>> {
    let f32s = |shape: &[usize], seed| uploaded(stream, DType::F32, shape, seed);
    let routing = Routing::new(RouterKey::QWEN2_MOE, EXPERTS, 2).expect("two of four");
    let logits = f32s(&[TOKENS, EXPERTS], 6)?;
    let routed = Seen(logits);
    let routed = router::Operands::new(routed, None, routing, IntDType::I64).expect(FIT);
    let made = Router::forward(stream, &routed, None)?;
    let (weights, indices) = (made.y, made.ints[0].clone());
    let x = Seen(f32s(&[TOKENS, HIDDEN], 7)?);
    let [indices, weights] = [indices, weights].map(Seen);
    let groups = vec![
        vec![Seen(f32s(&[EXPERTS, 12, HIDDEN], 8)?)],
        vec![],
        vec![Seen(f32s(&[EXPERTS, HIDDEN, 6], 9)?)],
        vec![],
        vec![],
        vec![],
    ];
    let settings = Settings {
        key: MoeExpertsKey::QWEN3,
        limit: None,
    };
    let wanted = experts::Each {
        x: true,
        routing: true,
        weights: groups.iter().map(|group| vec![true; group.len()]).collect(),
    };
    let (tokens, chosen, probs) = (x.clone(), indices.clone(), weights.clone());
    let mixed = experts::Operands::new(tokens, probs, groups, chosen, settings).expect(FIT);
    let made = Experts::forward(stream, &mixed, Some(&wanted))?;
    let y = made.y;
    let given = Given {
        others: Default::default(),
        dy: Seen(y.clone()),
        saved: made.saved.into_iter().map(Seen).collect(),
        ints: [].into_iter().collect(),
    };
    let mixed = Backward::<Experts, _>::new(mixed, given, &[true; 4]).expect(FIT);
    let found = Experts::backward(stream, &mixed)?;
    let given = Given {
        others: Default::default(),
        dy: Seen(found.routing.expect("it was wanted")),
        saved: [].into_iter().collect(),
        ints: [indices.clone()].into_iter().collect(),
    };
    let routed = Backward::<Router, _>::new(routed, given, &[true]).expect(FIT);
    let d_logits = Router::backward(stream, &routed)?;
    let d_logits = d_logits.logits.expect("it was wanted");
    let slots = permute::Sort::<Seen<Tensor>, _>::new(indices, EXPERTS, TOKENS * 2, IntDType::I32);
    let (map, _) = permute::npu::sort_slots(stream, &slots.expect(FIT))?;
    let spread = permute::Spread::new(x, Seen(map.clone()), TOKENS * 2).expect(FIT);
    let spread = permute::npu::spread(stream, &spread)?;
    let back = permute::Weigh::new(Seen(spread.clone()), Seen(map), weights).expect(FIT);
    let back = permute::npu::weigh_rows(stream, &back)?;
    let mut results = vec![y, d_logits, spread, back];
    results.extend(found.x);
    results.extend(found.weights.into_iter().flatten().flatten());
    Ok(results)
}

fn uploaded(stream: &Stream, dtype: DType, shape: &[usize], seed: u64) -> Result<Tensor> {
    let values = noise(shape.iter().product(), seed);
    let f32s: Vec<f32> = values.iter().map(|value| *value as f32).collect();
    let bf16s: Vec<half::bf16> = values.iter().copied().map(half::bf16::from_f64).collect();
    Ok(match dtype {
        DType::F32 => Tensor::from_slice(stream, &f32s, shape)?,
        _ => Tensor::from_slice(stream, &bf16s, shape)?,
    })
}

#[test]
fn each_operator_that_fails_is_an_error_that_names_it() {
    for operator in [
        "aclnnRmsNorm",
        "aclnnRmsNormGrad",
        "aclnnLayerNorm",
        "aclnnLayerNormBackward",
        "aclnnSwiGlu",
        "aclnnSwiGluGrad",
        "aclnnSilu",
        "aclnnSiluBackward",
        "aclnnRotaryPositionEmbeddingGrad",
        "aclnnMoeGatingTopKSoftmaxV2",
        "aclnnMoeTokenPermute",
        "aclnnMoeTokenPermuteGrad",
        "aclnnMoeTokenUnpermute",
        "aclnnGroupedMatmulV5",
        "aclnnAdds",
        "aclnnMul",
        "aclnnCast",
        "aclnnCat",
        "aclnnInplaceCopy",
        "aclnnInplaceFillScalar",
        "aclnnInplaceMaskedFillScalar",
        "aclnnFusedInferAttentionScoreV3",
        "aclnnReduceSum",
        "aclnnScatterAdd",
        "aclnnSoftmax",
        "aclnnSoftmaxBackward",
        "aclnnSWhere",
        "aclnnGeScalar",
        "aclnnLtScalar",
        "aclnnLogicalOr",
        "aclnnLogicalNot",
        "aclnnEqScalar",
        "aclnnCrossEntropyLoss",
        "aclnnCrossEntropyLossGrad",
        "aclnnMatmul",
        "aclnnInplaceAddmm",
        "aclnnMaxDim",
        "aclnnGather",
        "aclnnTanh",
        "aclnnAdd",
        "aclnnSub",
        "aclnnDiv",
        "aclnnMuls",
    ] {
        let scenario = Scenario::new().set("CANN_EMULATOR_FAIL", format!("{operator}=361001"));
        on(scenario, |_, stream| {
            let set = std::env::var("CANN_EMULATOR_FAIL").expect("set by the scenario");
            let operator = set.split('=').next().expect("a name");
            let error = all(stream).expect_err(operator);
            assert!(matches!(error, NpuError::Cann(_)), "{error}");
            assert!(error.to_string().contains(operator), "{operator}: {error}");
        });
        if crate::npu::common::inside() {
            return;
        }
    }
}

#[test]
fn too_little_memory_is_an_error_and_leaves_nothing() {
    const LEAST: usize = 2;
    const MOST: usize = 1024;
    for kibibytes in [LEAST, 4, 6, 8, 12, 16, 20, 24, 32, 40, 48, 64, MOST] {
        let scenario = Scenario::new().set("CANN_EMULATOR_MEMORY", kibibytes * 1024);
        on(scenario, |_, stream| {
            let bytes = std::env::var("CANN_EMULATOR_MEMORY").expect("set by the scenario");
            let bytes: usize = bytes.parse().expect("a number");
            match all(stream) {
                Ok(_) => assert!(bytes > LEAST * 1024),
                Err(error) => {
                    assert!(bytes < MOST * 1024, "{error}");
                    assert!(error.to_string().contains("out of memory"), "{error}");
                }
            }
        });
        if crate::npu::common::inside() {
            return;
        }
    }
}

#[test]
fn slow_streams_give_the_same() {
    on(
        Scenario::new().set("CANN_EMULATOR_DELAY_US", 200),
        |_, stream| {
            let slow = all(stream).unwrap();
            assert!((slow - all(stream).unwrap()).abs() < 1e-9);
        },
    );
}

/// Compares fresh executors for each call with kept executors at other addresses.
#[test]
fn kept_executors_give_the_same() {
    on_the_emulator(|device, stream| {
        let first = all(stream).unwrap();
        let kept = all(stream).unwrap();
        device.keep_executors(0);
        let fresh = all(stream).unwrap();
        assert!((first - kept).abs() < 1e-9 && (first - fresh).abs() < 1e-9);
    });
}
