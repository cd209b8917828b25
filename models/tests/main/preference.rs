//! Losses of preferences, rewards and teachers against those of TRL 1.16, in f64, with their gradients and metrics.

use crate::common::{fixtures, to_f64};
use crate::comparison::difference;
use burn::tensor::{DType, Device, Tensor, TensorData};
use kernels_models::ModelError;
use kernels_models::preference::{
    AdvantageScale, Aggregation, Answers, Divergence, Metric, NllAverage, PairLoss, Pairs,
    PolicyLoss, Ratio, RewardLoss, Rollouts, UnpairedLoss, advantages, answer_sums, kl_baseline,
};
use serde_json::Value;
use std::fs;

fn goldens() -> Value {
    let path = fixtures().join("preference/formulas.json");
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

fn device() -> Device {
    Device::flex().autodiff()
}

/// Returns all numbers of nested lists.
fn numbers(value: &Value) -> Vec<f64> {
    match value {
        Value::Array(list) => list.iter().flat_map(numbers).collect(),
        Value::Bool(set) => vec![f64::from(u8::from(*set))],
        number => vec![number.as_f64().unwrap()],
    }
}

fn tensor<const D: usize>(values: &[f64], shape: [usize; D]) -> Tensor<D> {
    let data = TensorData::new(values.to_vec(), shape);
    Tensor::from_data(data, (&device(), DType::F64))
}

fn vector(values: &[f64]) -> Tensor<1> {
    tensor(values, [values.len()])
}

fn values<const D: usize>(tensor: &Tensor<D>) -> Vec<f64> {
    to_f64(&tensor.clone().without_autodiff().into_data())
}

/// Checks that each number is the expected one to 1e-11 of its own size: also those near 0 that a sure model has.
#[track_caller]
fn same(what: &str, found: &[f64], expected: &[f64]) {
    same_from(1e-300, what, found, expected);
}

/// Checks the same of numbers above `least`.
#[track_caller]
fn same_from(least: f64, what: &str, found: &[f64], expected: &[f64]) {
    difference(found, expected);
    for (at, (found, expected)) in found.iter().zip(expected).enumerate() {
        let error = (found - expected).abs();
        assert!(
            error <= 1e-11 * expected.abs() + least,
            "{what}, number {at}: {found}, not {expected}"
        );
    }
}

#[track_caller]
fn same_metrics(what: &str, found: &[Metric], expected: &Value) {
    let mean = |metric: &Metric| metric.sum / metric.count;
    let of = |name: &str| found.iter().find(|metric| metric.name == name).map(mean);
    for (name, value) in expected.as_object().unwrap() {
        let found = match name.as_str() {
            "rewards/margins" => of("rewards/chosen").unwrap() - of("rewards/rejected").unwrap(),
            name => of(name).unwrap_or_else(|| panic!("{what} has no {name}")),
        };
        let expected = value.as_f64().unwrap();
        // Both are rounded sums, of which the margins are a difference.
        let error = (found - expected).abs();
        assert!(
            error < 1e-11 * expected.abs().max(1.0),
            "{what}, {name}: {found}, not {expected}"
        );
    }
}

fn setting(params: &Value, name: &str, default: f64) -> f64 {
    params[name].as_f64().unwrap_or(default)
}

/// Returns the loss of a case, and whether it has a reference.
fn pair_loss(kind: &str, params: &Value) -> (PairLoss, bool) {
    let beta = setting(params, "beta", 0.1);
    let smoothing = setting(params, "label_smoothing", 0.0);
    let loss = match kind {
        "sigmoid" | "cpo" => PairLoss::Sigmoid { beta, smoothing },
        "robust" => PairLoss::Robust { beta, smoothing },
        "hinge" | "cpo_hinge" => PairLoss::Hinge { beta },
        "ipo" | "cpo_ipo" => PairLoss::Ipo { beta },
        "sigmoid_norm" => PairLoss::SigmoidNorm { beta },
        "apo_zero" => PairLoss::ApoZero { beta },
        "apo_down" => PairLoss::ApoDown { beta },
        "orpo" => PairLoss::Orpo { beta },
        "simpo" => PairLoss::Simpo {
            beta,
            gamma: setting(params, "gamma", 0.5),
            smoothing,
        },
        other => panic!("{other}"),
    };
    let free = kind.starts_with("cpo") || params["reference_free"] == true;
    (loss, loss.has_reference() && !free)
}

/// Returns the pairs of the goldens as a function of the policy's sums, `[2 · pairs]`: those of chosen answers come first.
fn pairs_of(inputs: &Value, sums: &Tensor<1>, has_reference: bool) -> Pairs {
    let count = sums.dims()[0] / 2;
    let of_rows = |name: &str| -> Vec<f64> {
        let rows = inputs[name].as_array().unwrap();
        rows.iter().map(|row| numbers(row).iter().sum()).collect()
    };
    let (reference, tokens) = (of_rows("reference"), numbers(&inputs["tokens"]));
    let side = |start: usize| Answers {
        policy: sums.clone().narrow(0, start, count),
        reference: has_reference.then(|| vector(&reference[start..start + count])),
        tokens: vector(&tokens[start..start + count]),
    };
    Pairs {
        chosen: side(0),
        rejected: side(count),
    }
}

/// Returns the log-probabilities of all tokens of the goldens' pairs, and their numbers.
fn tokens_of_pairs(inputs: &Value) -> (Vec<f64>, Vec<usize>) {
    let lengths = numbers(&inputs["tokens"]);
    let lengths: Vec<usize> = lengths.iter().map(|length| *length as usize).collect();
    let rows = inputs["policy"].as_array().unwrap().iter().zip(&lengths);
    let tokens = rows.flat_map(|(row, length)| numbers(row)[..*length].to_vec());
    (tokens.collect(), lengths)
}

#[test]
fn losses_of_pairs_are_trls() {
    let goldens = goldens();
    let inputs = &goldens["pairs"]["inputs"];
    let (tokens, lengths) = tokens_of_pairs(inputs);
    let cases = goldens["pairs"]["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 19);
    for case in cases {
        let kind = case["kind"].as_str().unwrap();
        let what = format!("{kind} {}", case["params"]);
        let (loss, has_reference) = pair_loss(kind, &case["params"]);
        let tokens = vector(&tokens).require_grad();
        let (sums, _) = answer_sums(tokens.clone(), &lengths).unwrap();
        let pairs = pairs_of(inputs, &sums, has_reference);
        let per_pair = loss.per_pair(&pairs).unwrap();
        same(&what, &values(&per_pair), &numbers(&case["per_pair"]));
        let mean = per_pair.mean();
        same(&what, &values(&mean), &numbers(&case["loss"]));
        // A token has the gradient of its answer's sum.
        let found = values(&tokens.grad(&mean.backward()).unwrap());
        let expected = numbers(&case["d_sums"]);
        let expected = expected.iter().zip(&lengths);
        let expected: Vec<f64> = expected
            .flat_map(|(of_sum, length)| std::iter::repeat_n(*of_sum, *length))
            .collect();
        // The two terms of APO-down, as large as a quarter of beta, cancel where the policy is sure.
        let least = if kind == "apo_down" { 1e-16 } else { 1e-300 };
        same_from(least, &format!("{what}, gradient"), &found, &expected);
        // TRL has means as rewards in its CPO with the loss of IPO.
        if kind != "cpo_ipo" {
            same_metrics(&what, &loss.metrics(&pairs).unwrap(), &case["metrics"]);
        }
    }
}

#[test]
fn terms_of_supervised_tuning_are_averaged_in_both_ways() {
    let goldens = goldens();
    let inputs = &goldens["pairs"]["inputs"];
    let (tokens, lengths) = tokens_of_pairs(inputs);
    let (sums, counts) = answer_sums(vector(&tokens), &lengths).unwrap();
    same("lengths", &values(&counts), &numbers(&inputs["tokens"]));
    let chosen = pairs_of(inputs, &sums, false).chosen;
    for (average, name) in [
        (NllAverage::Tokens, "token_mean_over_the_batch_trl"),
        (
            NllAverage::Sequences,
            "mean_of_sequence_means_llama_factory",
        ),
    ] {
        let found = values(&average.nll(&chosen).unwrap());
        same(name, &found, &numbers(&goldens["sft_term"][name]));
    }
}

#[test]
fn losses_of_single_answers_are_trls() {
    let goldens = goldens();
    let inputs = &goldens["kto"]["inputs"];
    let input = |name: &str| vector(&numbers(&inputs[name]));
    let cases = goldens["kto"]["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 6);
    for case in cases {
        let params = &case["params"];
        let what = params.to_string();
        let labels = params["label"].as_array().unwrap();
        let labels: Vec<bool> = labels.iter().map(|label| label == true).collect();
        let loss = UnpairedLoss {
            beta: setting(params, "beta", 0.1),
            desirable_weight: setting(params, "desirable_weight", 1.0),
            undesirable_weight: setting(params, "undesirable_weight", 1.0),
            has_baseline: params["loss"] != "apo_zero_unpaired",
        };
        let (mut policy, mut reference) = (input("kl_policy"), input("kl_reference"));
        if params["negative_kl"] == true {
            std::mem::swap(&mut policy, &mut reference);
        }
        let answers = |policy: Tensor<1>, reference: Tensor<1>| Answers {
            tokens: policy.ones_like(),
            policy,
            reference: Some(reference),
        };
        let baseline = loss
            .has_baseline
            .then(|| kl_baseline(&answers(policy, reference)).unwrap());
        let policy = input("policy").require_grad();
        let all = answers(policy.clone(), input("reference"));
        let per_answer = loss.per_answer(&all, &labels, baseline.clone()).unwrap();
        same(&what, &values(&per_answer), &numbers(&case["per_example"]));
        let mean = per_answer.mean();
        same(&what, &values(&mean), &numbers(&case["loss"]));
        let gradient = policy.grad(&mean.backward()).unwrap();
        same(&what, &values(&gradient), &numbers(&case["d_logps"]));
        let mut found = loss.metrics(&all, &labels).unwrap();
        let sum = baseline.map_or(0.0, |baseline| values(&baseline)[0]);
        found.push(Metric {
            name: "kl",
            sum,
            count: 1.0,
        });
        same_metrics(&what, &found, &case["metrics"]);
    }
}

#[test]
fn losses_of_rewards_are_trls() {
    let goldens = goldens();
    let inputs = &goldens["reward"]["inputs"];
    let cases = goldens["reward"]["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 3);
    for case in cases {
        let params = &case["params"];
        let [chosen, rejected] =
            ["chosen", "rejected"].map(|name| vector(&numbers(&inputs[name])).require_grad());
        let margins = params.get("margin").map(|margin| vector(&numbers(margin)));
        let loss = RewardLoss {
            centring: setting(params, "center", 0.0),
        };
        let mean = loss.per_pair(chosen.clone(), rejected.clone(), margins);
        let mean = mean.unwrap().mean();
        same(&params.to_string(), &values(&mean), &numbers(&case["loss"]));
        let gradients = mean.backward();
        for (name, leaf) in [("d_chosen", chosen), ("d_rejected", rejected)] {
            let found = values(&leaf.grad(&gradients).unwrap());
            same(&format!("{params}, {name}"), &found, &numbers(&case[name]));
        }
    }
}

#[test]
fn losses_of_completions_with_rewards_are_trls() {
    let goldens = goldens();
    let inputs = &goldens["grpo"]["inputs"];
    let group = inputs["group"].as_u64().unwrap() as usize;
    let rewards = numbers(&inputs["rewards"]);
    let matrix = |name: &str| tensor(&numbers(&inputs[name]), [6, 9]);
    let cases = goldens["grpo"]["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 11);
    for case in cases {
        let params = &case["params"];
        let what = params.to_string();
        let scale = match params["scale"].as_str() {
            None => AdvantageScale::Group,
            Some("batch") => AdvantageScale::Batch,
            Some("none") => AdvantageScale::None,
            Some(other) => panic!("{other}"),
        };
        let found = advantages(&rewards, group, scale).unwrap();
        if scale != AdvantageScale::None {
            let name = params["scale"].as_str().unwrap_or("group");
            let expected = numbers(&inputs["advantages"][name]);
            assert!(difference(&found, &expected) < 1e-14, "{what}");
        }
        let epsilon_low = setting(params, "epsilon", 0.2);
        let kl = setting(params, "beta", 0.0);
        let loss = PolicyLoss {
            ratio: match params["level"] == "sequence" {
                true => Ratio::Sequence,
                false => Ratio::Token,
            },
            epsilon_low,
            epsilon_high: setting(params, "epsilon_high", epsilon_low),
            delta: params["delta"].as_f64(),
            kl,
            kl_by_ratio: kl > 0.0 && params["bias_correction"] != false,
            aggregation: match params["loss"].as_str().unwrap() {
                "grpo" => Aggregation::Sequences,
                "bnpo" => Aggregation::Tokens,
                "dr_grpo" => Aggregation::MaxLength(12),
                "dapo" => Aggregation::StepTokens(params["items"].as_f64().unwrap() as usize),
                other => panic!("{other}"),
            },
        };
        let policy = matrix("policy").require_grad();
        let rollouts = Rollouts {
            policy: policy.clone(),
            old: (params["on_policy"] != true).then(|| matrix("old")),
            reference: (kl > 0.0).then(|| matrix("reference")),
            mask: matrix("mask"),
            advantages: vector(&found),
        };
        let (value, metrics) = loss.loss(&rollouts).unwrap();
        let expected = numbers(&case["loss"]);
        assert!(difference(&values(&value), &expected) < 1e-14, "{what}");
        let gradient = values(&policy.grad(&value.backward()).unwrap());
        let expected = numbers(&case["d_logps"]);
        // A token's ratio and divergence cancel in places.
        assert!(difference(&gradient, &expected) < 1e-14, "{what}");
        same_metrics(&what, &metrics, &case["metrics"]);
    }
}

/// Divergences are those of their definition on probabilities, and their gradient is the slope of their values.
#[test]
fn divergences_follow_their_definition() {
    let logits = [
        [0.3, -1.2, 2.0, 0.0],
        [5.0, 4.0, -3.0, 1.0],
        [30.0, -30.0, 0.0, 1.0],
    ];
    let teacher = [
        [1.3, 0.2, -2.0, 0.5],
        [5.0, 4.0, -3.0, 1.0],
        [-30.0, 30.0, 0.0, 1.0],
    ];
    for (mixture, temperature) in [(0.0, 1.0), (1.0, 0.7), (0.5, 1.0), (0.1, 2.0), (0.9, 1.0)] {
        let loss = Divergence {
            mixture,
            temperature,
        };
        let expected = |student: &[f64], teacher: &[f64]| -> f64 {
            let logs = |logits: &[f64]| -> Vec<f64> {
                let scaled: Vec<f64> = logits.iter().map(|z| z / temperature).collect();
                let most = scaled.iter().copied().fold(f64::MIN, f64::max);
                let sum: f64 = scaled.iter().map(|z| (z - most).exp()).sum();
                scaled.iter().map(|z| z - most - sum.ln()).collect()
            };
            let (s, t) = (logs(student), logs(teacher));
            let kl = |of: &[f64], from: &[f64]| -> f64 {
                of.iter().zip(from).map(|(o, f)| o.exp() * (o - f)).sum()
            };
            if mixture == 0.0 {
                return kl(&t, &s);
            }
            if mixture == 1.0 {
                return kl(&s, &t);
            }
            let both = s.iter().zip(&t);
            let m: Vec<f64> = both
                .map(|(s, t)| ((1.0 - mixture) * s.exp() + mixture * t.exp()).ln())
                .collect();
            mixture * kl(&t, &m) + (1.0 - mixture) * kl(&s, &m)
        };
        let leaf = tensor(logits.as_flattened(), [3, 4]).require_grad();
        let given = tensor(teacher.as_flattened(), [3, 4]);
        let found = loss.per_token(leaf.clone(), given).unwrap();
        let each: Vec<f64> = (0..3)
            .map(|row| expected(&logits[row], &teacher[row]))
            .collect();
        assert!(difference(&values(&found), &each) < 1e-12, "{loss:?}");
        let gradient = values(&leaf.grad(&found.sum().backward()).unwrap());
        const STEP: f64 = 1e-5;
        let slope = |at: usize| {
            let moved = |by: f64| {
                let mut row = logits[at / 4];
                row[at % 4] += by;
                expected(&row, &teacher[at / 4])
            };
            (moved(STEP) - moved(-STEP)) / (2.0 * STEP)
        };
        let slopes: Vec<f64> = (0..12).map(slope).collect();
        assert!(difference(&gradient, &slopes) < 1e-8, "{loss:?}");
    }
}

#[test]
fn settings_out_of_their_range_are_refused() {
    let one = || Answers {
        policy: vector(&[-1.0]),
        reference: Some(vector(&[-1.0])),
        tokens: vector(&[1.0]),
    };
    let free = || Answers {
        reference: None,
        ..one()
    };
    let pairs = |chosen: Answers, rejected: Answers| Pairs { chosen, rejected };
    let said = |error: ModelError| error.to_string();
    let dpo = PairLoss::Sigmoid {
        beta: 0.1,
        smoothing: 0.0,
    };
    for (loss, expected) in [
        (
            PairLoss::Hinge { beta: 0.0 },
            "beta: must be a number above 0",
        ),
        (PairLoss::Ipo { beta: f64::NAN }, "beta: must be"),
        (PairLoss::ApoZero { beta: -1.0 }, "beta: must be"),
        (
            PairLoss::Robust {
                beta: 0.1,
                smoothing: 0.5,
            },
            "smoothing: must be at least 0 and below 0.5",
        ),
        (
            PairLoss::Simpo {
                beta: 2.0,
                gamma: -0.5,
                smoothing: 0.0,
            },
            "gamma: must be",
        ),
    ] {
        let error = said(loss.per_pair(&pairs(one(), one())).unwrap_err());
        assert!(error.contains(expected), "{error}");
    }
    for (loss, pairs, expected) in [
        (
            PairLoss::Orpo { beta: 0.1 },
            pairs(one(), one()),
            "has no reference",
        ),
        (dpo, pairs(one(), free()), "either both answers"),
        (
            dpo,
            pairs(
                one(),
                Answers {
                    policy: vector(&[-1.0, -2.0]),
                    reference: None,
                    tokens: vector(&[1.0, 1.0]),
                },
            ),
            "expected 1 answers, found 2",
        ),
        (
            dpo,
            pairs(
                Answers {
                    tokens: vector(&[1.0, 1.0]),
                    ..one()
                },
                one(),
            ),
            "tokens: expected 1 answers",
        ),
    ] {
        let error = said(loss.per_pair(&pairs).unwrap_err());
        assert!(error.contains(expected), "{error}");
    }
    let kto = UnpairedLoss {
        beta: 0.1,
        desirable_weight: 1.0,
        undesirable_weight: 1.0,
        has_baseline: true,
    };
    let z = || Some(vector(&[0.0]));
    for (loss, answers, labels, baseline, expected) in [
        (
            UnpairedLoss { beta: 0.0, ..kto },
            one(),
            &[true][..],
            z(),
            "beta: must be",
        ),
        (
            UnpairedLoss {
                undesirable_weight: -1.0,
                ..kto
            },
            one(),
            &[true],
            z(),
            "undesirable_weight: must be",
        ),
        (kto, free(), &[true], z(), "needs a reference"),
        (
            kto,
            one(),
            &[true, false],
            z(),
            "expected 1 labels, found 2",
        ),
        (kto, one(), &[true], None, "needs a baseline"),
        (
            UnpairedLoss {
                has_baseline: false,
                ..kto
            },
            one(),
            &[true],
            z(),
            "has no baseline",
        ),
    ] {
        let error = said(loss.per_answer(&answers, labels, baseline).unwrap_err());
        assert!(error.contains(expected), "{error}");
    }
    for (lengths, expected) in [
        (&[1, 0][..], "answer 1 has no token"),
        (&[2], "add up to 2"),
        (&[usize::MAX, 2], "add up to"),
    ] {
        let error = said(answer_sums(vector(&[-1.0]), lengths).unwrap_err());
        assert!(error.contains(expected), "{error}");
    }
    for (rewards, group, expected) in [
        (&[1.0, 2.0, 3.0][..], 2, "not of groups of 2"),
        (&[1.0, f64::NAN], 2, "reward 1 must be a finite number"),
        (&[1.0], 1, "group: must be at least 2"),
    ] {
        let error = said(advantages(rewards, group, AdvantageScale::Group).unwrap_err());
        assert!(error.contains(expected), "{error}");
    }
    let policy = PolicyLoss {
        ratio: Ratio::Token,
        epsilon_low: 0.2,
        epsilon_high: 0.2,
        delta: None,
        kl: 0.0,
        kl_by_ratio: false,
        aggregation: Aggregation::Sequences,
    };
    let rollouts = |reference: bool| Rollouts {
        policy: tensor(&[-1.0], [1, 1]),
        old: None,
        reference: reference.then(|| tensor(&[-1.0], [1, 1])),
        mask: tensor(&[1.0], [1, 1]),
        advantages: vector(&[1.0]),
    };
    for (loss, has_reference, expected) in [
        (
            PolicyLoss {
                epsilon_low: 0.0,
                ..policy
            },
            false,
            "epsilon_low: must be",
        ),
        (
            PolicyLoss {
                delta: Some(1.2),
                ..policy
            },
            false,
            "delta: must be above",
        ),
        (
            PolicyLoss {
                kl_by_ratio: true,
                ..policy
            },
            false,
            "kl_by_ratio: is set",
        ),
        (
            PolicyLoss {
                aggregation: Aggregation::StepTokens(0),
                ..policy
            },
            false,
            "divides by 0",
        ),
        (policy, true, "has no use"),
        (PolicyLoss { kl: 0.1, ..policy }, false, "is missing"),
    ] {
        let error = said(loss.loss(&rollouts(has_reference)).unwrap_err());
        assert!(error.contains(expected), "{error}");
    }
    let student = tensor(&[1.0, 2.0], [1, 2]);
    for (loss, teacher, expected) in [
        (
            (1.5, 1.0),
            tensor(&[1.0, 2.0], [1, 2]),
            "mixture: must be from 0 to 1",
        ),
        (
            (0.5, 0.0),
            tensor(&[1.0, 2.0], [1, 2]),
            "temperature: must be",
        ),
        (
            (0.5, 1.0),
            tensor(&[1.0, 2.0, 3.0], [1, 3]),
            "teacher: expected shape",
        ),
    ] {
        let loss = Divergence {
            mixture: loss.0,
            temperature: loss.1,
        };
        let error = said(loss.per_token(student.clone(), teacher).unwrap_err());
        assert!(error.contains(expected), "{error}");
    }
    let centred = RewardLoss { centring: -1.0 };
    let error = said(
        centred
            .per_pair(vector(&[1.0]), vector(&[1.0]), None)
            .unwrap_err(),
    );
    assert!(error.contains("centring: must be"), "{error}");
}
