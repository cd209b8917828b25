//! Reward models and completions with rewards against those of TRL 1.16's trainers: token ids, losses, metrics and
//! norms of gradients.

use super::data::{Batches, Example, Kind, Sizes};
use super::pipeline::{Run, batches, fixtures, groups, near, optimiser};
use crate::training::batch::{Batch, Rollout};
use crate::training::metrics;
use crate::training::preference::{Objective, Preference};
use crate::training::state::Trainee;
use burn::tensor::{Device, FloatDType};
use kernels_models::preference::{
    AdvantageScale, Aggregation, PolicyLoss, Ratio, RewardLoss, advantages,
};
use kernels_models::{CausalLm, load, load_reward_model, save};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

fn goldens() -> Value {
    let text = fs::read_to_string(fixtures().join("preference/rewards.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn numbers(value: &Value) -> Vec<f64> {
    serde_json::from_value(value.clone()).unwrap()
}

/// Replaces the head in a file of a reward model.
fn set_score(folder: &Path, score: &[f64]) {
    let path = folder.join("model.safetensors");
    let mut bytes = fs::read(&path).unwrap();
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let header: Value = serde_json::from_slice(&bytes[8..8 + length]).unwrap();
    let own = &header["score.weight"];
    assert_eq!(own["shape"], json!([1, score.len()]));
    assert_eq!(own["dtype"], "F32");
    let start = 8 + length + own["data_offsets"][0].as_u64().unwrap() as usize;
    let values = score
        .iter()
        .flat_map(|number| (*number as f32).to_le_bytes());
    let values: Vec<u8> = values.collect();
    bytes[start..start + values.len()].copy_from_slice(&values);
    fs::write(path, bytes).unwrap();
}

/// Returns the tiny model with the head of the goldens, through a checkpoint.
fn reward_model(score: &[f64], device: &Device) -> CausalLm {
    let (_, model) = load(&fixtures().join("text/tiny"), device, FloatDType::F32).unwrap();
    let model = model.into_reward_model(Some(0), 7).unwrap();
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("reward");
    save(&model, model.config(), &folder, None).unwrap();
    let text = fs::read_to_string(folder.join("config.json")).unwrap();
    let config: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        config["architectures"],
        json!(["LlamaForSequenceClassification"])
    );
    assert_eq!(config["id2label"], json!({"0": "LABEL_0"}));
    assert_eq!(config["pad_token_id"], 0);
    set_score(&folder, score);
    let said = load(&folder, device, FloatDType::F32)
        .unwrap_err()
        .to_string();
    assert!(said.contains("this is a reward model"), "{said}");
    let tiny = fixtures().join("text/tiny");
    let said = load_reward_model(&tiny, device, FloatDType::F32).unwrap_err();
    assert!(
        said.to_string().contains("this is not a reward model"),
        "{said}"
    );
    load_reward_model(&folder, device, FloatDType::F32)
        .unwrap()
        .1
}

fn run(model: CausalLm, objective: Objective, reference: Option<CausalLm>, device: &Device) -> Run {
    Run {
        trainee: Trainee {
            model,
            optimiser: optimiser(),
        },
        preference: Preference {
            objective,
            reference,
            device: device.clone().inner(),
        },
        device: device.clone(),
    }
}

#[test]
fn reward_models_are_trls() {
    let goldens = goldens();
    let score = numbers(&goldens["score"]);
    let device = Device::flex().autodiff();
    for name in ["reward", "reward_texts"] {
        let golden = &goldens[name];
        let groups = groups(golden["records"].as_str().unwrap(), Kind::Scored, 512);
        let ids: Vec<Vec<Vec<u32>>> = groups
            .iter()
            .map(|group| {
                group
                    .answers
                    .iter()
                    .map(|answer| answer.ids.clone())
                    .collect()
            })
            .collect();
        let expected: Vec<Vec<Vec<u32>>> = serde_json::from_value(golden["rows"].clone()).unwrap();
        assert_eq!(ids, expected, "{name}");
        let count = groups.len();
        let batches = batches(groups, (3, 1), false).of_scores();
        let loss = Objective::Rewards(RewardLoss::default());
        let mut run = run(reward_model(&score, &device), loss, None, &device);
        for (step, expected) in golden["steps"].as_array().unwrap().iter().enumerate() {
            let rows: Vec<usize> = (step * 3..count.min(step * 3 + 3)).collect();
            let (after, loss, norm) = run.step(&batches.in_order(&rows), step == 1);
            run = after;
            if name == "reward_texts" {
                // TRL takes the token before the end for the last one, because the end pads.
                let expected = golden["loss_by_the_mask"].as_f64().unwrap();
                near(name, loss.value, expected, 1e-5);
                break;
            }
            let found = metrics::named(&loss.metrics);
            for (metric, expected) in expected.as_object().unwrap() {
                let what = format!("{name}, step {}, {metric}", step + 1);
                let expected = expected.as_f64().unwrap();
                match metric.as_str() {
                    "loss" => near(&what, loss.value, expected, 1e-5),
                    "grad_norm" => near(&what, norm, expected, 1e-3),
                    metric => near(&what, found[metric], expected, 1e-4),
                }
            }
        }
    }
}

/// Margins and the least and largest scores don't depend on the division of a step.
#[test]
fn a_step_of_pairs_with_margins_does_not_depend_on_its_division() {
    let device = Device::flex().autodiff();
    let score = numbers(&goldens()["score"]);
    let step = |batch: usize, recompute: bool| {
        let mut groups = groups("implicit.jsonl", Kind::Scored, 512);
        for (at, group) in groups.iter_mut().enumerate() {
            group.margin = Some(at as f64 * 0.25);
        }
        let batches = batches(groups, (batch, 6 / batch), false).of_scores();
        let loss = Objective::Rewards(RewardLoss { centring: 0.01 });
        let run = run(reward_model(&score, &device), loss, None, &device);
        let (_, loss, norm) = run.step(&batches.in_order(&[5, 1, 2, 3, 4, 0]), recompute);
        (loss.value, norm, metrics::named(&loss.metrics))
    };
    let (loss, norm, named) = step(6, false);
    for (batch, recompute) in [(1, false), (2, true)] {
        let found = step(batch, recompute);
        near("loss", found.0, loss, 1e-5);
        near("norm", found.1, norm, 1e-5);
        for (name, value) in &named {
            near(name, found.2[name], *value, 1e-5);
        }
    }
}

/// Returns the completions of a case as batches of so many.
fn completions(golden: &Value, size: usize) -> Vec<Batch> {
    let ids =
        |name: &str| -> Vec<Vec<u32>> { serde_json::from_value(golden[name].clone()).unwrap() };
    let both = ids("prompt_ids").into_iter().zip(ids("completion_ids"));
    let examples = both.map(|(prompt, completion)| {
        let ids = [&prompt[..], &completion].concat();
        let learned = std::iter::once(prompt.len()..ids.len()).collect();
        Example::new(ids, learned)
    });
    let examples: Vec<Example> = examples.collect();
    let advantages = advantages(&numbers(&golden["rewards"]), 3, AdvantageScale::Group).unwrap();
    let sizes = Sizes {
        batch: size,
        accumulate: 1,
        packs: true,
        length: 512,
        mismatches: false,
        scores: false,
    };
    let none = Batches::new(Vec::new(), [Vec::new(), Vec::new()], 0, sizes);
    let parts = examples.chunks(size).zip(advantages.chunks(size));
    let batch = |(examples, advantages): (&[Example], &[f64])| {
        let examples: Vec<&Example> = examples.iter().collect();
        let mut batch = none.answer_batch(&examples, &[]);
        let answers = batch.labels.as_mut().unwrap().answers.as_mut();
        answers.unwrap().rollout = Some(Rollout {
            counts: vec![true; advantages.len()],
            advantages: advantages.to_vec(),
            old: None,
            metrics: Vec::new(),
        });
        batch
    };
    parts.map(batch).collect()
}

#[test]
fn completions_with_rewards_are_trls() {
    let goldens = goldens();
    let device = Device::flex().autodiff();
    let tiny = fixtures().join("text/tiny");
    let reference = fixtures().join("preference/tiny-reference");
    for (name, loss, temperature) in [
        (
            "grpo",
            PolicyLoss {
                ratio: Ratio::Token,
                epsilon_low: 0.2,
                epsilon_high: 0.2,
                delta: None,
                kl: 0.04,
                kl_by_ratio: true,
                aggregation: Aggregation::Sequences,
            },
            1.0,
        ),
        (
            "dapo",
            PolicyLoss {
                ratio: Ratio::Token,
                epsilon_low: 0.2,
                epsilon_high: 0.28,
                delta: None,
                kl: 0.0,
                kl_by_ratio: false,
                aggregation: Aggregation::StepTokens(1),
            },
            0.7,
        ),
    ] {
        let golden = &goldens[name];
        // The numbers of a step are the same for two batches.
        for (size, recompute) in [(6, false), (4, false), (2, true)] {
            let (_, model) = load(&tiny, &device, FloatDType::F32).unwrap();
            let inner = device.clone().inner();
            let known = || load(&reference, &inner, FloatDType::F32).unwrap().1;
            let reference = (loss.kl > 0.0).then(known);
            let run = run(
                model,
                Objective::Policy(loss, temperature),
                reference,
                &device,
            );
            let (_, found, norm) = run.step(&completions(golden, size), recompute);
            let what = format!("{name}, {size}");
            near(&what, found.value, golden["loss"].as_f64().unwrap(), 1e-5);
            near(&what, norm, golden["grad_norm"].as_f64().unwrap(), 1e-3);
            let named = metrics::named(&found.metrics);
            for (metric, expected) in golden["metrics"].as_object().unwrap() {
                near(
                    &format!("{what}, {metric}"),
                    named[metric],
                    expected.as_f64().unwrap(),
                    1e-4,
                );
            }
        }
    }
}
