//! Compares the operations of a mixture of experts with Hugging Face transformers' modules and torch, by numbers that
//! those computed.
//!
//! The fixtures hold inputs rounded to a dtype, exact results (`ref.*`, where there is a formula), and the module's
//! results in the dtype. A sum passes if its error against the exact result, in the L2 norm of the tensor, is at most
//! torch's own. The tolerance is 10 % for the order of additions, and one f32 rounding in case torch is exact by
//! chance. `moe_permute` has no results that are mere copies.

use crate::support::{Fixture, relative_error, values};
use burn::tensor::{DType, Device, Int, Tensor, TensorData};
use kernels_runtime::ops::moe::experts::{self, Projection, Weights};
use kernels_runtime::ops::moe::{
    self, Permuted, Routed, Routing, load_balancing_loss, permute, router, unpermute,
};
use kernels_runtime::semantics::{
    Correction, Grouping, MoeExpertsKey, Renormalise, RouterKey, RouterWeights, Scoring,
};
use std::collections::BTreeSet;

/// The tolerance for another order of additions than torch's.
const SLACK: f64 = 1.1;

/// Both paths of an operation.
const PATHS: [(&str, bool); 2] = [("fused", true), ("reference", false)];

fn integers<const D: usize>(tensor: Tensor<D, Int>) -> Vec<i64> {
    tensor.into_data().iter::<i64>().collect()
}

fn assert_near(what: &str, got: &[f64], exact: &[f64], allowed: f64) {
    let error = relative_error(got, exact);
    assert!(
        error <= allowed,
        "{what}: {error:.2e} apart, allowed {allowed:.1e}"
    );
}

/// Returns reproducible values, roughly uniform in −1..1.
fn noise(count: usize, seed: u64) -> Vec<f64> {
    let mut state = seed;
    let next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as f64 / f64::from(1_u32 << 30) - 1.0
    };
    std::iter::repeat_with(next).take(count).collect()
}

fn matrix(values: Vec<f64>, shape: [usize; 2], dtype: DType, device: &Device) -> Tensor<2> {
    Tensor::from_data(
        TensorData::new(values, shape).convert_dtype(dtype),
        (device, dtype),
    )
}

fn int_matrix(values: Vec<i64>, shape: [usize; 2], device: &Device) -> Tensor<2, Int> {
    Tensor::from_data(TensorData::new(values, shape), device)
}

fn route(fused: bool, logits: Tensor<2>, bias: Option<Tensor<1>>, routing: &Routing) -> Routed {
    if fused {
        router::fused(logits, bias, routing).unwrap()
    } else {
        router::reference(logits, bias, routing)
    }
}

// ---------------------------------------------------------------------------------------------
// Routers

/// Returns the routers of the fixture: name, routing, and whether choices are sorted.
fn routers() -> Vec<(&'static str, Routing, bool)> {
    let of = |key| Routing::new(key, 16, 4).unwrap();
    vec![
        ("qwen2_moe_nonorm", of(RouterKey::QWEN2_MOE), true),
        ("qwen3_moe_norm", of(RouterKey::QWEN3_MOE), true),
        ("mixtral", of(RouterKey::MIXTRAL), true),
        ("gpt_oss", of(RouterKey::GPT_OSS), true),
        ("deepseek_v2_greedy", of(RouterKey::DEEPSEEK_V2), false),
        (
            "deepseek_v2_group",
            of(RouterKey::DEEPSEEK_V2_GROUPS)
                .limited_to_groups(4, 2)
                .and_then(|routing| routing.scaled(16.0))
                .unwrap(),
            false,
        ),
        (
            "deepseek_v3",
            of(RouterKey::DEEPSEEK_V3)
                .limited_to_groups(4, 2)
                .and_then(|routing| routing.scaled(2.5))
                .unwrap(),
            false,
        ),
        (
            "glm4_moe",
            of(RouterKey::DEEPSEEK_V3)
                .limited_to_groups(1, 1)
                .and_then(|routing| routing.scaled(1.5))
                .unwrap(),
            false,
        ),
        (
            "llama4",
            Routing::new(RouterKey::LLAMA4, 16, 1).unwrap(),
            true,
        ),
    ]
}

/// The results of transformers' router for a case: experts, weights and the weights' gradients, `k` for each token.
/// Llama 4's file has weights for all experts, with zeros for those not chosen.
struct Theirs {
    indices: Vec<i64>,
    weights: Vec<f64>,
    d_weights: Vec<f64>,
    dtype: DType,
}

impl Theirs {
    fn read(fixture: &Fixture, case: &str) -> Self {
        let name = |tensor: &str| format!("{case}.{tensor}");
        let dense = fixture.has(&name("router_scores_dense"));
        let weights = name(if dense {
            "router_scores_dense"
        } else {
            "weights"
        });
        let dtype = fixture.data(&weights).dtype();
        let (weights, d_weights) = (fixture.values(&weights), fixture.values(&name("d_w")));
        if !dense {
            return Self {
                indices: fixture.integers(&name("indices")),
                weights,
                d_weights,
                dtype,
            };
        }
        let indices = fixture.integers(&name("top1"));
        let chosen = |dense: Vec<f64>| {
            let rows = dense.chunks_exact(16).zip(&indices);
            rows.map(|(row, expert)| row[*expert as usize]).collect()
        };
        Self {
            weights: chosen(weights),
            d_weights: chosen(d_weights),
            indices,
            dtype,
        }
    }

    /// Returns, for each of our choices, the index of the router's choice to compare it with: the same index if choices
    /// are sorted, else that of the same expert. Among equal logits torch may choose any expert.
    fn places(&self, what: &str, logits: &[f64], ours: &[i64], sorted: bool) -> Vec<usize> {
        let experts = 16;
        let k = ours.len() * experts / logits.len();
        let place = |(i, expert): (usize, &i64)| {
            let token = i / k;
            let logit = |expert: i64| logits[token * experts + expert as usize];
            if sorted {
                let theirs = self.indices[i];
                assert_eq!(logit(*expert), logit(theirs), "{what}, token {token}");
                return i;
            }
            let row = &self.indices[token * k..(token + 1) * k];
            let place = row.iter().position(|theirs| theirs == expert);
            token * k + place.unwrap_or_else(|| panic!("{what}, token {token}: {expert}"))
        };
        ours.iter().enumerate().map(place).collect()
    }

    /// Returns the gradient of the logits as if we had chosen the same experts among equals.
    fn relabelled(&self, d_logits: &[f64], ours: &[i64], places: &[usize]) -> Vec<f64> {
        let experts = 16;
        let k = ours.len() * experts / d_logits.len();
        let mut relabelled = d_logits.to_vec();
        let rows = relabelled
            .chunks_exact_mut(experts)
            .zip(d_logits.chunks_exact(experts));
        let choices = ours.chunks_exact(k).zip(places.chunks_exact(k));
        for ((row, d), (ours, places)) in rows.zip(choices) {
            let theirs: Vec<i64> = places.iter().map(|place| self.indices[*place]).collect();
            for (ours, theirs) in ours.iter().zip(&theirs) {
                row[*theirs as usize] = d[*ours as usize];
            }
            let only = |a: &[i64], b: &[i64]| -> Vec<i64> {
                a.iter()
                    .filter(|expert| !b.contains(expert))
                    .copied()
                    .collect()
            };
            for (ours, theirs) in only(ours, &theirs).iter().zip(&only(&theirs, ours)) {
                row[*ours as usize] = d[*theirs as usize];
            }
        }
        relabelled
    }
}

/// Returns `a · b` of row-major matrices, `[m, n] · [n, p]`.
fn product(a: &[f64], b: &[f64], n: usize, p: usize) -> Vec<f64> {
    let rows = a.chunks_exact(n);
    rows.flat_map(|row| (0..p).map(|j| row.iter().enumerate().map(|(i, a)| a * b[i * p + j]).sum()))
        .collect()
}

fn transposed(a: &[f64], n: usize) -> Vec<f64> {
    (0..n)
        .flat_map(|j| a.chunks_exact(n).map(move |row| row[j]))
        .collect()
}

#[test]
fn routers_match_transformers() {
    let fixture = Fixture::open("routers");
    let device = Device::flex().autodiff();
    for (name, routing, sorted) in routers() {
        for dtype in ["f32", "bf16", "f16"] {
            let case = format!("{name}.{dtype}");
            let theirs = Theirs::read(&fixture, &case);
            let (k, experts, width) = (routing.top_k(), 16, 32);
            let bias = (routing.key().correction == Correction::Bias)
                .then(|| fixture.tensor(&format!("{case}.e_score_correction_bias"), &device));
            // Roundings of the weights' dtype, and of the dtype of gradients on the way.
            let rounding = |dtype: DType| match dtype {
                DType::F32 => 5e-7,
                DType::F16 => 6e-4,
                _ => 5e-3,
            };
            let logits_dtype = fixture.data(&format!("{case}.x")).dtype();
            for (path, fused) in PATHS {
                let what = format!("{path} {case}");
                let logits: Tensor<2> = fixture.tensor(&format!("{case}.router_logits"), &device);
                let logits = logits.require_grad();
                let routed = route(fused, logits.clone(), bias.clone(), &routing);
                assert_eq!(routed.weights.dtype(), theirs.dtype, "{what}");
                let indices = integers(routed.indices);
                let exact_logits = fixture.values(&format!("{case}.router_logits"));
                let places = theirs.places(&what, &exact_logits, &indices, sorted);
                let theirs_at =
                    |values: &[f64]| -> Vec<f64> { places.iter().map(|i| values[*i]).collect() };
                let got = values(routed.weights.clone());
                let weights = theirs_at(&theirs.weights);
                assert_near(&what, &got, &weights, rounding(theirs.dtype));

                let tokens = indices.len() / k;
                let d_weights = theirs_at(&theirs.d_weights);
                let d_weights = matrix(d_weights, [tokens, k], theirs.dtype, &device);
                let grads = (routed.weights * d_weights).sum().backward();
                let d_logits = values(logits.grad(&grads).unwrap());
                let d_logits = theirs.relabelled(&d_logits, &indices, &places);
                let d_x = product(
                    &d_logits,
                    &fixture.values(&format!("{case}.param.weight")),
                    experts,
                    width,
                );
                let x = fixture.values(&format!("{case}.x"));
                let d_weight = product(&transposed(&d_logits, experts), &x, tokens, width);
                for (result, got) in [("d_x", d_x), ("d_param.weight", d_weight)] {
                    assert_near(
                        &format!("{what} {result}"),
                        &got,
                        &fixture.values(&format!("{case}.{result}")),
                        2.0 * rounding(logits_dtype),
                    );
                }
            }
        }
    }
}

/// Returns every meaningful key, with groups if it has groups.
fn routings(experts: usize, top_k: usize) -> Vec<Routing> {
    let mut routings = Vec::new();
    for scoring in [Scoring::Softmax, Scoring::Sigmoid, Scoring::SoftmaxOfChosen] {
        for correction in [Correction::None, Correction::Bias] {
            for grouping in [Grouping::None, Grouping::Max, Grouping::TopTwo] {
                for renormalise in [Renormalise::None, Renormalise::Sum] {
                    for weights in [RouterWeights::Logits, RouterWeights::Wide] {
                        let key = RouterKey {
                            scoring,
                            correction,
                            grouping,
                            renormalise,
                            weights,
                        };
                        let Ok(routing) = Routing::new(key, experts, top_k) else {
                            assert_eq!(scoring, Scoring::SoftmaxOfChosen);
                            continue;
                        };
                        let routing = routing.scaled(1.25).unwrap();
                        routings.push(routing);
                        routings.extend(routing.limited_to_groups(4, 2));
                    }
                }
            }
        }
    }
    routings
}

fn bias_for(routing: &Routing, values: &[f64], dtype: DType, device: &Device) -> Option<Tensor<1>> {
    let values = &values[..routing.num_experts()];
    (routing.key().correction == Correction::Bias).then(|| {
        Tensor::from_data(
            TensorData::from(values).convert_dtype(dtype),
            (device, dtype),
        )
    })
}

/// Compares the kernel in every dtype with the reference in f64 on the same numbers.
#[test]
fn every_routing_is_near_the_reference_in_f64() {
    let device = Device::flex().autodiff();
    let (tokens, experts, k) = (19, 16, 3);
    for routing in routings(experts, k) {
        for (dtype, rounding) in [
            (DType::F64, 1e-14),
            (DType::F32, 1e-6),
            (DType::F16, 1e-3),
            (DType::BF16, 8e-3),
        ] {
            let what = format!("{} {dtype:?}", routing.key());
            let logits = noise(tokens * experts, 1).iter().map(|x| 4.0 * x).collect();
            let logits = matrix(logits, [tokens, experts], dtype, &device);
            let bias = bias_for(&routing, &noise(experts, 2), DType::F32, &device);
            let dw = matrix(noise(tokens * k, 3), [tokens, k], dtype, &device);
            let [got, exact] = [(true, logits.clone()), (false, logits.cast(DType::F64))].map(
                |(fused, logits)| {
                    let logits = logits.detach().require_grad();
                    let routed = route(fused, logits.clone(), bias.clone(), &routing);
                    let dw = dw.clone().cast(routed.weights.dtype());
                    let grads = (routed.weights.clone() * dw).sum().backward();
                    let d_logits = values(logits.grad(&grads).unwrap());
                    (integers(routed.indices), values(routed.weights), d_logits)
                },
            );
            assert_eq!(got.0, exact.0, "{what}");
            assert_near(&what, &got.1, &exact.1, rounding);
            assert_near(&what, &got.2, &exact.2, rounding);
        }
    }
}

/// Compares the hand-written gradient with central differences.
#[test]
fn the_gradient_is_the_slope() {
    let device = Device::flex();
    let (tokens, experts, k) = (3, 8, 3);
    let step = 1e-5;
    for routing in routings(experts, k) {
        let logits = noise(tokens * experts, 4);
        let dw = noise(tokens * k, 5);
        let bias = |device| bias_for(&routing, &noise(experts, 6), DType::F64, device);
        let tracked = device.clone().autodiff();
        let loss = |logits: Tensor<2>, bias, device: &Device| {
            let weights = router::fused(logits, bias, &routing).unwrap().weights;
            (weights * matrix(dw.clone(), [tokens, k], DType::F64, device)).sum()
        };
        let x = matrix(logits.clone(), [tokens, experts], DType::F64, &tracked).require_grad();
        let grads = loss(x.clone(), bias(&tracked), &tracked).backward();
        let slope = |i: usize| {
            let [up, down] = [step, -step].map(|step| {
                let mut moved = logits.clone();
                moved[i] += step;
                let moved = matrix(moved, [tokens, experts], DType::F64, &device);
                values(loss(moved, bias(&device), &device))[0]
            });
            (up - down) / (2.0 * step)
        };
        let slopes: Vec<f64> = (0..logits.len()).map(slope).collect();
        let got = values(x.grad(&grads).unwrap());
        // A renormalised choice of one expert is 1 for any logits, so all slopes are zero there.
        for (got, slope) in got.iter().zip(&slopes) {
            assert!(
                (got - slope).abs() < 1e-8,
                "{}: {got} and {slope}",
                routing.key()
            );
        }
    }
}

/// The logits have few different values, so that most choices are between equals.
#[test]
fn ties_go_to_the_lower_index_in_groups_too() {
    let device = Device::flex();
    let (tokens, experts) = (200, 16);
    let few = |seed, values: f64| {
        let noise = noise(tokens * experts, seed);
        noise
            .iter()
            .map(|x| ((x + 1.0) / 2.0 * values).floor())
            .collect::<Vec<_>>()
    };
    for k in [1, 3, 8] {
        for routing in routings(experts, k) {
            let bias: Vec<f64> = few(8, 2.0).iter().map(|b| b / 2.0).collect();
            let bias = bias_for(&routing, &bias, DType::F32, &device);
            let logits = matrix(few(7, 4.0), [tokens, experts], DType::F32, &device);
            let [fused, reference] = [true, false].map(|fused| {
                integers(route(fused, logits.clone(), bias.clone(), &routing).indices)
            });
            assert_eq!(fused, reference, "{} k={k}", routing.key());
        }
    }
    let routing = Routing::new(RouterKey::QWEN3_MOE, 40, 6).unwrap();
    let equal = matrix(vec![1.5; 40], [1, 40], DType::BF16, &device);
    for (path, fused) in PATHS {
        let routed = route(fused, equal.clone(), None, &routing);
        assert_eq!(integers(routed.indices), [0, 1, 2, 3, 4, 5], "{path}");
    }
}

#[test]
fn nan_is_chosen_and_stays_nan() {
    let device = Device::flex();
    let (nan, inf) = (f64::NAN, f64::INFINITY);
    let logits = || {
        matrix(
            vec![1.0, 0.5, nan, 2.0, -inf, 3.0],
            [1, 6],
            DType::F32,
            &device,
        )
    };
    for (path, fused) in PATHS {
        for key in [RouterKey::QWEN3_MOE, RouterKey::GPT_OSS] {
            let routed = route(fused, logits(), None, &Routing::new(key, 6, 2).unwrap());
            assert_eq!(integers(routed.indices), [2, 5], "{path}");
            assert!(values(routed.weights).iter().all(|w| w.is_nan()), "{path}");
        }
        let llama4 = Routing::new(RouterKey::LLAMA4, 6, 2).unwrap();
        let routed = route(fused, logits(), None, &llama4);
        assert_eq!(integers(routed.indices), [2, 5], "{path}");
        let weights = values(routed.weights);
        assert!(
            weights[0].is_nan() && (weights[1] - 0.952_574).abs() < 1e-6,
            "{path}"
        );

        let grouped = Routing::new(RouterKey::DEEPSEEK_V3, 6, 2)
            .and_then(|routing| routing.limited_to_groups(3, 1))
            .unwrap();
        let bias = Tensor::zeros([6], &device);
        let routed = route(fused, logits(), Some(bias), &grouped);
        assert_eq!(integers(routed.indices), [2, 3], "{path}");
    }
}

/// Masked experts have logits of −∞. They are chosen last. A token with masked experts only has NaN weights from a
/// softmax and zeros from sigmoids.
#[test]
fn masked_experts_are_chosen_last() {
    let device = Device::flex();
    let inf = f64::INFINITY;
    let logits = || {
        let rows = vec![-inf, 0.0, -inf, 0.0, -inf, -inf, -inf, -inf];
        matrix(rows, [2, 4], DType::F32, &device)
    };
    for (path, fused) in PATHS {
        let softmax = Routing::new(RouterKey::QWEN3_MOE, 4, 3).unwrap();
        let routed = route(fused, logits(), None, &softmax);
        assert_eq!(integers(routed.indices), [1, 3, 0, 0, 1, 2], "{path}");
        let weights = values(routed.weights);
        assert_eq!(weights[..3], [0.5, 0.5, 0.0], "{path}");
        assert!(weights[3..].iter().all(|w| w.is_nan()), "{path}");

        let sigmoid = Routing::new(RouterKey::DEEPSEEK_V3, 4, 3).unwrap();
        let bias = Tensor::zeros([4], &device);
        let routed = route(fused, logits(), Some(bias), &sigmoid);
        assert_eq!(
            values(routed.weights),
            [0.5, 0.5, 0.0, 0.0, 0.0, 0.0],
            "{path}"
        );
    }
}

#[test]
fn routers_take_the_smallest_and_the_largest() {
    let device = Device::flex().autodiff();
    for (path, fused) in PATHS {
        for routing in routings(8, 8).into_iter().chain(routings(1, 1)) {
            let experts = routing.num_experts();
            for tokens in [0, 1, 5] {
                let what = format!("{path} {} {tokens}×{experts}", routing.key());
                let logits = noise(tokens * experts, 9);
                let logits = matrix(logits, [tokens, experts], DType::F32, &device).require_grad();
                let bias = bias_for(&routing, &noise(8, 10), DType::F32, &device);
                let routed = route(fused, logits.clone(), bias, &routing);
                assert_eq!(routed.indices.dims(), [tokens, experts], "{what}");
                assert!(routed.weights.is_tracked(), "{what}");
                let grads = routed.weights.sum().backward();
                assert_eq!(
                    logits.grad(&grads).unwrap().dims(),
                    [tokens, experts],
                    "{what}"
                );
                for row in integers(routed.indices).chunks_exact(experts) {
                    let all: BTreeSet<i64> = row.iter().copied().collect();
                    assert!(all.into_iter().eq(0..experts as i64), "{what}");
                }
            }
        }
    }
}

#[test]
fn logits_are_read_in_any_layout() {
    let device = Device::flex();
    let routing = Routing::new(RouterKey::QWEN3_MOE, 6, 2).unwrap();
    let base = matrix(noise(7 * 8, 11), [8, 7], DType::F32, &device);
    let view = base.swap_dims(0, 1).narrow(1, 1, 6);
    let copy = matrix(values(view.clone()), [7, 6], DType::F32, &device);
    let [view, copy] = [view, copy].map(|logits| router::fused(logits, None, &routing).unwrap());
    assert_eq!(integers(view.indices), integers(copy.indices));
    assert_eq!(values(view.weights), values(copy.weights));
}

#[test]
fn scores_are_those_of_the_router() {
    let device = Device::flex();
    let logits = matrix(vec![0.0, 2.0_f64.ln()], [1, 2], DType::BF16, &device);
    let of = |key| Routing::new(key, 2, 1).unwrap().scores(logits.clone());
    assert_eq!(of(RouterKey::DEEPSEEK_V3).dtype(), DType::F32);
    assert_near(
        "softmax",
        &values(of(RouterKey::QWEN2_MOE)),
        &[1.0 / 3.0, 2.0 / 3.0],
        2e-3,
    );
    assert_near(
        "sigmoid",
        &values(of(RouterKey::LLAMA4)),
        &[0.5, 2.0 / 3.0],
        2e-3,
    );
}

#[test]
#[should_panic(expected = "logits are [2, 4], but there are 8 experts")]
fn logits_of_other_experts_are_refused() {
    let routing = Routing::new(RouterKey::QWEN3_MOE, 8, 2).unwrap();
    moe::route(Tensor::zeros([2, 4], &Device::flex()), None, &routing);
}

#[test]
#[should_panic(expected = "needs a bias")]
fn a_correction_needs_its_bias() {
    let routing = Routing::new(RouterKey::DEEPSEEK_V3, 4, 2).unwrap();
    moe::route(Tensor::zeros([2, 4], &Device::flex()), None, &routing);
}

// ---------------------------------------------------------------------------------------------
// Permute and unpermute

fn permuted(
    fused: bool,
    tokens: Tensor<2>,
    indices: Tensor<2, Int>,
    experts: usize,
    limit: Option<usize>,
) -> Permuted {
    if fused {
        permute::fused(tokens, indices, experts, limit).unwrap()
    } else {
        permute::reference(tokens, indices, experts, limit)
    }
}

fn unpermuted(
    fused: bool,
    rows: Tensor<2>,
    row_map: Tensor<2, Int>,
    probs: Option<Tensor<2>>,
) -> Tensor<2> {
    if fused {
        unpermute::fused(rows, row_map, probs).unwrap()
    } else {
        unpermute::reference(rows, row_map, probs)
    }
}

/// Returns `rows[row_map[slot]] = tokens[slot / k]`, for row-major tokens.
fn copies(tokens: &[f64], row_map: &[i64], width: usize, k: usize) -> Vec<f64> {
    let mut rows = vec![f64::NAN; row_map.len() * width];
    for (slot, row) in row_map.iter().enumerate() {
        let (row, token) = (*row as usize, slot / k);
        rows[row * width..][..width].copy_from_slice(&tokens[token * width..][..width]);
    }
    rows
}

#[test]
fn permute_matches_torch() {
    let fixture = Fixture::open("moe_permute");
    let device = Device::flex().autodiff();
    let cases = fixture.cases("tokens");
    assert_eq!(cases.len(), 21);
    for case in cases {
        let name = |tensor: &str| format!("{case}.{tensor}");
        let input = |tensor: &str| fixture.tensor::<2>(&name(tensor), &device);
        let counts = fixture.integers(&name("tokens_per_expert"));
        let limit = fixture.integers(&name("num_out_tokens"))[0] as usize;
        for (path, fused) in PATHS {
            let what = format!("{path} {case}");
            let tokens = input("tokens").require_grad();
            let indices: Tensor<2, Int> = fixture.ints(&name("indices"), &device);
            let ([_, width], [_, k]) = (tokens.dims(), indices.dims());
            let got = permuted(fused, tokens.clone(), indices.clone(), counts.len(), None);
            let row_map = fixture.integers(&name("row_map"));
            assert_eq!(integers(got.row_map), row_map, "{what}");
            assert_eq!(integers(got.counts), counts, "{what}");
            let rows = values(got.rows.clone());
            assert_eq!(
                rows,
                copies(&values(tokens.clone()), &row_map, width, k),
                "{what}"
            );

            let grads = (got.rows * input("d_permuted")).sum().backward();
            fixture.as_near_as(
                SLACK,
                &what,
                &values(tokens.grad(&grads).unwrap()),
                &name("ref.permute.d_tokens"),
                &name("torch.permute.d_tokens"),
            );

            let cut = permuted(fused, tokens.detach(), indices, counts.len(), Some(limit));
            assert_eq!(values(cut.rows), rows[..limit * width], "{what}");
            assert_eq!(integers(cut.row_map), row_map, "{what}");
            assert_eq!(
                integers(cut.counts).iter().sum::<i64>(),
                limit as i64,
                "{what}"
            );
        }
    }
}

#[test]
fn unpermute_matches_torch() {
    let fixture = Fixture::open("moe_permute");
    let device = Device::flex().autodiff();
    for case in fixture.cases("tokens") {
        let name = |tensor: &str| format!("{case}.{tensor}");
        let input = |tensor: &str| fixture.tensor::<2>(&name(tensor), &device);
        for (path, fused) in PATHS {
            let (rows, probs) = (
                input("expert_out").require_grad(),
                input("probs").require_grad(),
            );
            let shape = probs.dims();
            let entries = fixture.integers(&name("row_map"));
            let row_map = || int_matrix(entries.clone(), shape, &device);
            let y = unpermuted(fused, rows.clone(), row_map(), Some(probs.clone()));
            let grads = (y.clone() * input("d_out")).sum().backward();
            let plain = unpermuted(fused, rows.clone(), row_map(), None);
            let plain_grads = (plain.clone() * input("d_out")).sum().backward();
            for (result, got) in [
                ("unpermute.out", values(y)),
                ("unpermute.d_expert_out", values(rows.grad(&grads).unwrap())),
                ("unpermute.d_probs", values(probs.grad(&grads).unwrap())),
                ("unpermute_noprobs.out", values(plain)),
            ] {
                fixture.as_near_as(
                    SLACK,
                    &format!("{path} {case} {result}"),
                    &got,
                    &name(&format!("ref.{result}")),
                    &name(&format!("torch.{result}")),
                );
            }
            let d_out = values(input("d_out"));
            let width = rows.dims()[1];
            assert_eq!(
                values(rows.grad(&plain_grads).unwrap()),
                copies(&d_out, &entries, width, shape[1]),
                "{path} {case}"
            );
        }
    }
}

/// Slots of experts elsewhere, as in expert parallelism, have the number of experts as their index.
#[test]
fn skipped_slots_are_neither_counted_nor_added() {
    let device = Device::flex().autodiff();
    for (path, fused) in PATHS {
        let tokens: Vec<f64> = (0..8).map(|i| f64::from(i) + 1.0).collect();
        let tokens = matrix(tokens, [4, 2], DType::F32, &device).require_grad();
        let indices = int_matrix(vec![1, 2, 2, 0, 2, 2, 1, 1], [4, 2], &device);
        let got = permuted(fused, tokens.clone(), indices, 2, None);
        assert_eq!(
            integers(got.counts),
            [1, 3],
            "{path}: not counted to the last expert"
        );
        assert_eq!(
            integers(got.row_map.clone()),
            [1, 8, 8, 0, 8, 8, 2, 3],
            "{path}"
        );
        let rows = values(got.rows.clone());
        assert_eq!(
            rows[..8],
            [3.0, 4.0, 1.0, 2.0, 7.0, 8.0, 7.0, 8.0],
            "{path}"
        );
        assert_eq!(rows[8..], [0.0; 8], "{path}");

        // Rows that belong to no token have no effect, forward or backward, whatever the experts write there.
        let nobody = matrix(vec![f64::NAN; 8], [4, 2], DType::F32, &device);
        let out = Tensor::cat(vec![got.rows.clone().narrow(0, 0, 4), nobody], 0);
        let out = out.detach().require_grad();
        let probs = vec![0.5, 9.0, 9.0, 2.0, 9.0, 9.0, 1.0, 3.0];
        let probs = matrix(probs, [4, 2], DType::F32, &device).require_grad();
        let y = unpermuted(fused, out.clone(), got.row_map.clone(), Some(probs.clone()));
        assert_eq!(
            values(y.clone()),
            [0.5, 1.0, 6.0, 8.0, 0.0, 0.0, 28.0, 32.0],
            "{path}"
        );
        let grads = y.sum().backward();
        let d_probs = values(probs.grad(&grads).unwrap());
        assert_eq!(
            d_probs,
            [3.0, 0.0, 0.0, 7.0, 0.0, 0.0, 15.0, 15.0],
            "{path}"
        );
        let d_rows = values(out.grad(&grads).unwrap());
        let expected = [2.0, 2.0, 0.5, 0.5, 1.0, 1.0, 3.0, 3.0];
        assert_eq!(d_rows[..8], expected, "{path}");
        assert_eq!(d_rows[8..], [0.0; 8], "{path}");

        let grads = got.rows.sum().backward();
        let d_tokens = values(tokens.grad(&grads).unwrap());
        assert_eq!(d_tokens, [1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 2.0, 2.0], "{path}");
    }
}

/// Cut-off rows add nothing, and their tokens get no gradient from them.
#[test]
fn rows_that_were_cut_off_add_nothing() {
    let device = Device::flex().autodiff();
    for (path, fused) in PATHS {
        let tokens = matrix(vec![1.0, 2.0, 3.0], [3, 1], DType::F32, &device).require_grad();
        let indices = int_matrix(vec![1, 0, 1], [3, 1], &device);
        for (limit, counts, sums) in [
            (Some(2), [1, 1], [1.0, 2.0, 0.0]),
            (Some(0), [0, 0], [0.0; 3]),
            (Some(9), [1, 2], [1.0, 2.0, 3.0]),
        ] {
            let got = permuted(fused, tokens.clone(), indices.clone(), 2, limit);
            assert_eq!(integers(got.counts), counts, "{path}");
            assert_eq!(got.rows.dims(), [limit.unwrap().min(3), 1], "{path}");
            let y = unpermuted(fused, got.rows, got.row_map, None);
            assert_eq!(values(y.clone()), sums, "{path}");
            if limit == Some(0) && !fused {
                continue; // Plain operations don't track tensors without elements.
            }
            let d_tokens = y.sum().backward();
            let d_tokens = values(tokens.grad(&d_tokens).unwrap());
            assert_eq!(d_tokens, sums.map(|s| f64::from(s > 0.0)), "{path}");
        }
    }
}

#[test]
fn permute_takes_every_extreme() {
    let device = Device::flex();
    let (tokens, width) = (37, 5);
    let x = || {
        matrix(
            noise(tokens * width, 12),
            [tokens, width],
            DType::BF16,
            &device,
        )
    };
    let index = |f: &dyn Fn(usize) -> i64, k: usize| {
        int_matrix((0..tokens * k).map(f).collect(), [tokens, k], &device)
    };
    let all_to_one = index(&|_| 3, 4);
    let one_expert = index(&|_| 0, 2);
    let every_expert = index(&|slot| (slot % 8) as i64, 8);
    let none_here = index(&|_| 8, 2);
    let mixed = index(&|slot| (slot * 7919 % 10) as i64, 3);
    for (indices, experts) in [
        (all_to_one, 8),
        (one_expert, 1),
        (every_expert, 8),
        (none_here, 8),
        (mixed, 9),
    ] {
        let [fused, reference] = [true, false].map(|fused| {
            let got = permuted(fused, x(), indices.clone(), experts, None);
            let y = unpermuted(fused, got.rows.clone(), got.row_map.clone(), None);
            (
                values(got.rows),
                integers(got.row_map),
                integers(got.counts),
                values(y),
            )
        });
        assert_eq!(fused, reference, "{experts} experts");
        assert_eq!(fused.2.len(), experts);
    }
}

#[test]
fn no_tokens_no_rows() {
    let device = Device::flex().autodiff();
    for (path, fused) in PATHS {
        let tokens = matrix(vec![], [0, 6], DType::F32, &device).require_grad();
        let indices = int_matrix(vec![], [0, 2], &device);
        let got = permuted(fused, tokens.clone(), indices, 3, None);
        assert_eq!(
            (got.rows.dims(), got.row_map.dims()),
            ([0, 6], [0, 2]),
            "{path}"
        );
        assert_eq!(integers(got.counts), [0, 0, 0], "{path}");
        let probs = matrix(vec![], [0, 2], DType::F32, &device);
        let y = unpermuted(fused, got.rows, got.row_map, Some(probs));
        assert_eq!(y.dims(), [0, 6], "{path}");
    }
}

/// A router's weights may be wider than the rows (Mixtral). They are not rounded first.
#[test]
fn probabilities_may_be_wider_than_rows() {
    let device = Device::flex().autodiff();
    for (path, fused) in PATHS {
        let rows = matrix(vec![1.0, 3.0], [2, 1], DType::BF16, &device).require_grad();
        let probs = matrix(vec![0.333_333, 0.666_667], [1, 2], DType::F32, &device);
        let probs = probs.require_grad();
        let row_map = int_matrix(vec![1, 0], [1, 2], &device);
        let y = unpermuted(fused, rows.clone(), row_map, Some(probs.clone()));
        assert_eq!(y.dtype(), DType::BF16, "{path}");
        // 0.999999 + 0.666667, rounded once.
        assert_eq!(values(y.clone()), [1.664_062_5], "{path}");
        let grads = y.sum().backward();
        let (d_rows, d_probs) = (rows.grad(&grads).unwrap(), probs.grad(&grads).unwrap());
        assert_eq!(
            (d_rows.dtype(), d_probs.dtype()),
            (DType::BF16, DType::F32),
            "{path}"
        );
        assert_eq!(values(d_probs), [3.0, 1.0], "{path}");
        assert_eq!(values(d_rows), [0.667_968_75, 0.333_984_375], "{path}");
    }
    let rows = matrix(vec![1.0], [1, 1], DType::F32, &device);
    let probs = matrix(vec![1.0], [1, 1], DType::BF16, &device);
    let row_map = int_matrix(vec![0], [1, 1], &device);
    assert!(unpermute::fused(rows, row_map, Some(probs)).is_err());
}

#[test]
fn views_and_other_integers_are_taken() {
    let device = Device::flex();
    let base = matrix(noise(9 * 12, 13), [12, 9], DType::F32, &device);
    let view = base.swap_dims(0, 1).narrow(1, 2, 7);
    let copy = matrix(values(view.clone()), [9, 7], DType::F32, &device);
    let entries: Vec<i64> = (0..18).map(|i| i * 5 % 4).collect();
    let wide = int_matrix(entries.clone(), [9, 2], &device);
    let narrow: Vec<i32> = entries.iter().map(|i| *i as i32).collect();
    let narrow = TensorData::new(narrow, [9, 2]);
    let narrow = Tensor::<2, Int>::from_data(narrow, (&device, DType::I32));
    let [view, copy] = [(view, narrow), (copy, wide)]
        .map(|(tokens, indices)| permute::fused(tokens, indices, 4, None).unwrap());
    assert_eq!(integers(view.row_map.clone()), integers(copy.row_map));
    assert_eq!(values(view.rows.clone()), values(copy.rows));
    let row_map = view.row_map.swap_dims(0, 1) * 1;
    let y = unpermute::fused(view.rows.clone(), row_map.clone().swap_dims(0, 1), None).unwrap();
    let expected = unpermute::reference(view.rows, row_map.swap_dims(0, 1), None);
    assert_eq!(values(y), values(expected));
}

/// Returns indices of two experts for two tokens in every integer type, with one wrong index each and its message.
/// Before it comes the valid index of an expert elsewhere.
fn strangers(device: &Device) -> Vec<(Tensor<2, Int>, String)> {
    let mut strangers = Vec::new();
    macro_rules! of {
        ($($type:ident $dtype:ident: $($index:expr),*;)*) => {$($({
            let index: $type = $index;
            let data = TensorData::new(vec![2, 0, 1, index], [2, 2]);
            strangers.push((
                Tensor::<2, Int>::from_data(data, (device, DType::$dtype)),
                format!("token 1 is routed to expert {index}, but there are 2; only 2 itself"),
            ));
        })*)*};
    }
    of! {
        i64 I64: -1, 3, 1 << 32, (1 << 32) + 1, i64::MIN, i64::MAX;
        i32 I32: -1, 3, i32::MIN, i32::MAX;
        i16 I16: -1, 3, i16::MIN, i16::MAX;
        i8 I8: -1, 3, i8::MIN, i8::MAX;
        u64 U64: 3, 1 << 32, (1 << 63) + 1, u64::MAX - 1, u64::MAX;
        u32 U32: 3, (1 << 31) + 1, u32::MAX;
        u16 U16: 3, u16::MAX;
        u8 U8: 3, u8::MAX;
    }
    strangers
}

/// Returns the message of a panic.
fn refusal<T>(call: impl FnOnce() -> T) -> String {
    let refused = std::panic::catch_unwind(std::panic::AssertUnwindSafe(call)).err();
    *refused
        .expect("the call is refused")
        .downcast::<String>()
        .expect("a message")
}

/// An index that is neither an expert nor the number of experts is an error in every operation. It never wraps around
/// to an expert.
#[test]
fn indices_of_no_expert_are_refused() {
    let device = Device::flex();
    let strangers = strangers(&device);
    assert_eq!(strangers.len(), 30);
    let x = || Tensor::<2>::ones([2, 3], &device);
    let weights = || {
        let [gate_up, down] = [[2, 8, 3], [2, 3, 4]].map(|shape| Tensor::<3>::ones(shape, &device));
        Weights::packed(Projection::new(gate_up), Projection::new(down))
    };
    let routing = || Tensor::<2>::ones([2, 2], &device);
    for (indices, expected) in strangers {
        let of = || indices.clone();
        for (path, fused) in PATHS {
            for message in [
                refusal(|| permuted(fused, x(), of(), 2, None)),
                refusal(|| permuted(fused, x(), of(), 2, Some(1))),
                refusal(|| {
                    let (x, routing, weights) = (x(), routing(), weights());
                    match fused {
                        true => {
                            experts::fused(x, of(), routing, weights, None, MoeExpertsKey::QWEN3)
                                .ok()
                        }
                        false => {
                            let key = MoeExpertsKey::QWEN3;
                            Some(experts::reference(x, of(), routing, weights, None, key))
                        }
                    }
                }),
                refusal(|| experts::each(x(), of(), routing(), 2, |_, rows| rows)),
            ] {
                assert!(message.contains(&expected), "{path}: {message}, {expected}");
            }
        }
    }
}

/// Indices may have any integer type, also for experts elsewhere.
#[test]
fn indices_may_be_of_any_integer_type() {
    let device = Device::flex();
    for dtype in [
        DType::I64,
        DType::I32,
        DType::I16,
        DType::I8,
        DType::U64,
        DType::U32,
        DType::U16,
        DType::U8,
    ] {
        let data = TensorData::new(vec![2_i64, 1, 2, 0], [4, 1]).convert_dtype(dtype);
        let indices = Tensor::<2, Int>::from_data(data, (&device, dtype));
        assert_eq!(indices.dtype(), dtype);
        for (path, fused) in PATHS {
            let got = permuted(
                fused,
                Tensor::ones([4, 3], &device),
                indices.clone(),
                2,
                None,
            );
            assert_eq!(integers(got.row_map), [4, 1, 4, 0], "{path} {dtype:?}");
            assert_eq!(integers(got.counts), [1, 1], "{path} {dtype:?}");
        }
    }
}

#[test]
fn rows_of_no_slot_have_zero_gradients() {
    let device = Device::flex().autodiff();
    for probs in [None, Some([0.5, 2.0])] {
        let rows = Tensor::<2>::ones([5, 3], &device).require_grad();
        let row_map = int_matrix(vec![1, 2], [1, 2], &device);
        let weights = probs.unwrap_or([1.0, 1.0]);
        let probs = probs.map(|probs| Tensor::from_data([probs], &device));
        let y = moe::moe_unpermute(rows.clone(), row_map, probs);
        let gradient = rows.grad(&y.sum().backward()).expect("a gradient");
        let expected = [0.0, weights[0], weights[1], 0.0, 0.0];
        let expected = expected.map(|weight| [weight; 3]);
        assert_eq!(values(gradient), expected.as_flattened());
    }
}

/// Rows without elements take no memory, however many there are.
#[test]
fn rows_without_elements_have_gradients_without_elements() {
    const MANY: usize = 1 << 40;
    let device = Device::flex().autodiff();
    for weighed in [None, Some(false), Some(true)] {
        let rows = Tensor::<2>::zeros([MANY, 0], &device).require_grad();
        let row_map = int_matrix(vec![1, 2], [1, 2], &device);
        let probs = weighed.map(|tracked| {
            let probs = Tensor::<2>::ones([1, 2], &device);
            if tracked { probs.require_grad() } else { probs }
        });
        let y = moe::moe_unpermute(rows.clone(), row_map, probs.clone());
        assert_eq!(y.dims(), [1, 0]);
        let gradients = y.sum().backward();
        assert_eq!(rows.grad(&gradients).unwrap().dims(), [MANY, 0]);
        if weighed == Some(true) {
            let of_probs = probs.unwrap().grad(&gradients).unwrap();
            assert_eq!(values(of_probs), [0.0; 2]);
        }
    }
}

#[test]
#[should_panic(expected = "one row a token each")]
fn indices_of_other_tokens_are_refused() {
    let device = Device::flex();
    let indices = int_matrix(vec![0, 0], [2, 1], &device);
    moe::moe_permute(Tensor::zeros([3, 4], &device), indices, 2, None);
}

#[test]
#[should_panic(expected = "probabilities are [2, 1], but the row map is [1, 2]")]
fn probabilities_of_other_slots_are_refused() {
    let device = Device::flex();
    let row_map = int_matrix(vec![0, 1], [1, 2], &device);
    let probs = Tensor::ones([2, 1], &device);
    moe::moe_unpermute(Tensor::zeros([2, 4], &device), row_map, Some(probs));
}

// ---------------------------------------------------------------------------------------------
// Both

/// The operands are large enough to be split. Results are compared bit for bit.
#[test]
fn results_do_not_depend_on_the_number_of_threads() {
    let compute = || {
        let device = Device::flex().autodiff();
        let (tokens, experts, k, width) = (1500, 128, 8, 96);
        let logits = matrix(
            noise(tokens * experts, 14),
            [tokens, experts],
            DType::F32,
            &device,
        );
        let logits = logits.require_grad();
        let x = matrix(
            noise(tokens * width, 15),
            [tokens, width],
            DType::F32,
            &device,
        );
        let x = x.require_grad();
        let routing = Routing::new(RouterKey::QWEN3_MOE, experts, k).unwrap();
        let routed = moe::route(logits.clone(), None, &routing);
        let sorted = moe::moe_permute(x.clone(), routed.indices.clone(), experts, None);
        let rows = sorted.rows.clone() * sorted.rows;
        let y = moe::moe_unpermute(rows, sorted.row_map, Some(routed.weights));
        let grads = (y.clone() * y.clone()).sum().backward();
        (
            values(y),
            values(x.grad(&grads).unwrap()),
            values(logits.grad(&grads).unwrap()),
            integers(routed.indices),
        )
    };
    let [one, many] = [1, 5].map(|threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        pool.unwrap().install(compute)
    });
    assert!(one == many);
}

#[test]
fn the_kernels_are_chosen_where_they_can_run() {
    let device = Device::flex();
    let routing = Routing::new(RouterKey::MIXTRAL, 8, 2).unwrap();
    let logits = || matrix(noise(24, 16), [3, 8], DType::F32, &device);
    let fused = router::fused(logits(), None, &routing).unwrap();
    let chosen = moe::route(logits(), None, &routing);
    assert_eq!(values(chosen.weights), values(fused.weights));
}

// ---------------------------------------------------------------------------------------------
// The load balancing loss

#[test]
fn the_load_balancing_loss_matches_transformers() {
    let fixture = Fixture::open("load_balancing");
    let device = Device::flex().autodiff();
    let cases = fixture.cases("loss");
    assert_eq!(cases.len(), 18);
    for case in cases {
        let (_, k) = case.split_once(".k").unwrap();
        let k = k.split('.').next().unwrap().parse().unwrap();
        let name = |tensor: &str| format!("{case}.{tensor}");
        let layers: Vec<Tensor<2>> = (0..9)
            .map(|layer| name(&format!("logits.{layer}")))
            .take_while(|layer| fixture.has(layer))
            .map(|layer| fixture.tensor(&layer, &device).require_grad())
            .collect();
        let [tokens, experts] = layers[0].dims();
        let mask = fixture.has(&name("mask")).then(|| {
            let mask: Tensor<2> = fixture.tensor(&name("mask"), &device);
            mask.reshape([tokens])
        });
        let loss = load_balancing_loss(&layers, experts, k, mask);
        assert_eq!(loss.dtype(), DType::F32);
        let grads = loss.backward();
        // It rounds to half types in the same places, so it is equally near to the module's result in every dtype.
        let theirs = fixture.values(&name("loss"));
        assert_near(&case, &values(loss), &theirs, 5e-7);
        for (i, layer) in layers.iter().enumerate() {
            let got = values(layer.grad(&grads).unwrap());
            let result = name(&format!("d_logits.{i}"));
            let exact = fixture.values(&name(&format!("ref.d_logits.{i}")));
            let theirs = fixture.values(&result);
            // The terms of a gradient cancel where experts are used evenly.
            let size = experts as f64 / tokens as f64;
            for ((got, exact), theirs) in got.iter().zip(&exact).zip(&theirs) {
                let allowed = 1.1 * (theirs - exact).abs() + rounding(layer.dtype()) * size;
                assert!(
                    (got - exact).abs() <= allowed,
                    "{result}: {got}, exact {exact}"
                );
            }
        }
    }
}

fn rounding(dtype: DType) -> f64 {
    match dtype {
        DType::F32 => 1e-6,
        DType::F16 => 1e-3,
        _ => 8e-3,
    }
}

/// Evenly used experts cost `top_k`; all tokens to one expert cost the most.
#[test]
fn the_load_balancing_loss_at_its_ends() {
    let device = Device::flex();
    let (experts, tokens) = (4, 8);
    let even = |token: usize, expert: usize| if token % experts == expert { 20.0 } else { 0.0 };
    let one = |_: usize, expert: usize| if expert == 1 { 200.0 } else { 0.0 };
    let of = |f: &dyn Fn(usize, usize) -> f64| {
        let logits = (0..tokens * experts).map(|i| f(i / experts, i % experts));
        let logits = matrix(logits.collect(), [tokens, experts], DType::F64, &device);
        values(load_balancing_loss(&[logits], experts, 1, None))[0]
    };
    assert!((of(&even) - 1.0).abs() < 1e-12);
    assert!((of(&one) - 4.0).abs() < 1e-12);
}

#[test]
#[should_panic(expected = "flatten a mask")]
fn a_mask_of_other_tokens_is_refused() {
    let device = Device::flex();
    let logits = Tensor::zeros([6, 4], &device);
    load_balancing_loss(&[logits], 4, 2, Some(Tensor::ones([3], &device)));
}
