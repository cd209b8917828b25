//! Records to token ids, and three steps of training on them, against those of TRL 1.16's trainers: with AdamW, a constant rate
//! of 1e-3, gradients limited to a norm of 1, and batches of three in the order of the file.

use super::data::{self, Batches, Encoder, Example, Group, Kind, Label, Sizes};
use super::model::{self, Trained};
use crate::training::batch::Batch;
use crate::training::metrics;
use crate::training::optimiser::{AdamW, Optimiser};
use crate::training::preference::{Objective, Preference};
use crate::training::state::Trainee;
use crate::training::step::{Loss, Method, without_gradients};
use burn::tensor::{Device, FloatDType};
use kernels_models::QuantisedWeights;
use kernels_models::preference::{NllAverage, PairLoss, UnpairedLoss};
use serde_json::Value;
use std::path::{Path, PathBuf};

pub(super) fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures")
}

fn goldens() -> Value {
    let text = std::fs::read_to_string(fixtures().join("preference/pipeline.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// Returns the answers of the records of a file, of at most `length` tokens.
pub(super) fn groups(file: &str, kind: Kind, length: usize) -> Vec<Group> {
    let path = fixtures().join("preference/records").join(file);
    let records = data::read(&[path], Some(kind)).unwrap();
    let tiny = fixtures().join("text/tiny");
    let encoder = Encoder::open(&tiny, 320, &records, (length, false)).unwrap();
    let found = encoder.encode_answers(&records, kind, |_| ());
    found.unwrap().groups
}

fn ids(value: &Value) -> Vec<u32> {
    serde_json::from_value(value.clone()).unwrap()
}

/// Returns the answers that a row of the goldens has, of at most `length` tokens.
fn group(row: &Value, length: usize) -> Group {
    let answer = |answer: &Value| {
        let prompt = ids(&row[0]);
        let all = [&prompt[..], &ids(answer)].concat();
        let all = all[..all.len().min(length)].to_vec();
        let learned = std::iter::once(prompt.len()..all.len()).collect();
        Example::new(all, learned)
    };
    let label = row[2].as_u64().map(|label| label == 1);
    Group {
        answers: match label {
            Some(_) => vec![answer(&row[1])],
            None => vec![answer(&row[1]), answer(&row[2])],
        },
        prompt: ids(&row[0])
            .into_iter()
            .fold(0, |number: u64, id| number.wrapping_mul(31) ^ u64::from(id)),
        desirable: label,
        reference: None,
        margin: None,
    }
}

/// A case of the goldens.
struct Case {
    objective: Objective,
    length: usize,
    /// True if the model has an adapter, which is the reference as the run begins. Otherwise that is another checkpoint.
    adapts: bool,
    /// True if the answers are those of the goldens, and not of the records.
    is_given: bool,
}

fn case(name: &str) -> Case {
    let dpo = PairLoss::Sigmoid {
        beta: 0.1,
        smoothing: 0.0,
    };
    let tokens = |weight| Some((weight, NllAverage::Tokens));
    let objective = match name {
        "dpo_rpo" => Objective::Pairs(dpo, tokens(0.5)),
        "dpo_ipo" => Objective::Pairs(PairLoss::Ipo { beta: 0.2 }, None),
        "cpo" => Objective::Pairs(dpo, tokens(1.0)),
        "simpo" => Objective::Pairs(
            PairLoss::Simpo {
                beta: 2.0,
                gamma: 0.5,
                smoothing: 0.0,
            },
            None,
        ),
        name if name.starts_with("kto") => Objective::Single(UnpairedLoss {
            beta: 0.1,
            desirable_weight: 1.0,
            undesirable_weight: 1.0,
            has_baseline: true,
        }),
        _ => Objective::Pairs(dpo, None),
    };
    Case {
        objective,
        length: if name == "dpo_truncated" { 30 } else { 512 },
        adapts: name == "lora",
        // TRL adds a token to both ends of these, and takes all chosen answers of pairs before all rejected ones.
        is_given: ["simpo", "cpo", "kto_from_pairs"].contains(&name),
    }
}

/// Returns the answers of a case, of which those of records are also checked.
fn answers_of(name: &str, golden: &Value, rows: &Value) -> Vec<Group> {
    let Case {
        objective,
        length,
        is_given,
        ..
    } = case(name);
    let rows = rows[golden["rows"].as_str().unwrap()].as_array().unwrap();
    let mut expected: Vec<Group> = rows.iter().map(|row| group(row, length)).collect();
    if is_given {
        return expected;
    }
    let kind = match objective {
        Objective::Single(_) => Kind::Single,
        _ => Kind::Pairs,
    };
    let mut found = groups(golden["records"].as_str().unwrap(), kind, length);
    for (expected, found) in expected.iter_mut().zip(&found) {
        expected.prompt = found.prompt;
    }
    assert_eq!(found, expected, "{name}");
    if let Some(known) = golden["reference"].as_array() {
        for (group, known) in found.iter_mut().zip(known) {
            let known = [&known[0], &known[1]].map(|known| known.as_f64().unwrap());
            group.reference = Some(known.into());
        }
    }
    found
}

pub(super) fn batches(
    groups: Vec<Group>,
    (batch, accumulate): (usize, usize),
    mismatches: bool,
) -> Batches {
    let (mut examples, mut labels, mut rows) = (Vec::new(), Vec::new(), Vec::new());
    for group in groups {
        let first = examples.len();
        for (at, answer) in group.answers.into_iter().enumerate() {
            examples.push(answer);
            labels.push(Label {
                prompt: group.prompt,
                desirable: group.desirable,
                reference: group.reference.as_ref().map(|known| known[at]),
                margin: group.margin,
            });
        }
        rows.push((first..examples.len()).collect());
    }
    let sizes = Sizes {
        batch,
        accumulate,
        packs: true,
        length: 512,
        mismatches,
        scores: false,
    };
    Batches::new(examples, [rows, Vec::new()], 0, sizes).of_answers(labels)
}

/// A model in training on a case.
pub(super) struct Run {
    pub(super) trainee: Trainee,
    pub(super) preference: Preference,
    pub(super) device: Device,
}

impl Run {
    fn new(case: &Case, has_reference: bool) -> Self {
        let device = Device::flex().autodiff();
        let tiny = fixtures().join("text/tiny");
        let trained = match case.adapts {
            true => Trained::Old(fixtures().join("preference/tiny-adapter")),
            false => Trained::Whole,
        };
        let (_, model, _) = model::load(
            &tiny,
            (&trained, QuantisedWeights::Decoded),
            FloatDType::F32,
            (&device, 0, false),
        )
        .unwrap();
        let inner = device.clone().inner();
        let reference = has_reference.then(|| match case.adapts {
            true => without_gradients(&model),
            false => {
                let folder = fixtures().join("preference/tiny-reference");
                kernels_models::load(&folder, &inner, FloatDType::F32)
                    .unwrap()
                    .1
            }
        });
        let optimiser = optimiser();
        Self {
            trainee: Trainee { model, optimiser },
            preference: Preference {
                objective: case.objective,
                reference,
                device: inner,
            },
            device,
        }
    }

    pub(super) fn step(self, batches: &[Batch], recompute: bool) -> (Self, Loss, f64) {
        let method = Method {
            dtype: FloatDType::F32,
            device: &self.device,
            recompute: recompute.then_some(3),
            preference: Some(&self.preference),
            teacher: None,
        };
        let (trainee, loss, norm) = self.trainee.step(batches, method, 1e-3).unwrap();
        (Self { trainee, ..self }, loss, norm)
    }
}

/// Returns the optimiser of TRL's trainers here.
pub(super) fn optimiser() -> Optimiser {
    Optimiser::new(AdamW {
        beta_1: 0.9,
        beta_2: 0.999,
        epsilon: 1e-8,
        weight_decay: 0.0,
        clip: Some(1.0),
    })
}

#[track_caller]
pub(super) fn near(what: &str, found: f64, expected: f64, tolerance: f64) {
    let error = (found - expected).abs() / expected.abs().max(1.0);
    assert!(error < tolerance, "{what}: {found}, not {expected}");
}

#[test]
fn records_become_trls_tokens_and_steps_have_trls_losses_and_metrics() {
    let goldens = goldens();
    let cases = goldens["cases"].as_object().unwrap();
    assert_eq!(cases.len(), 13);
    for (name, golden) in cases {
        let case = case(name);
        let groups = answers_of(name, golden, &goldens["rows"]);
        let mismatches = matches!(case.objective, Objective::Single(_));
        let has_reference = !["simpo", "cpo", "dpo_precomputed"].contains(&name.as_str());
        let count = groups.len();
        let batches = batches(groups, (3, 1), mismatches);
        let mut run = Run::new(&case, has_reference);
        let steps = golden["steps"].as_array().unwrap();
        for (step, expected) in steps.iter().enumerate() {
            let rows: Vec<usize> = (step * 3..count.min(step * 3 + 3)).collect();
            let (after, loss, norm) = run.step(&batches.in_order(&rows), false);
            run = after;
            let found = metrics::named(&loss.metrics);
            for (metric, expected) in expected.as_object().unwrap() {
                let what = format!("{name}, step {}, {metric}", step + 1);
                let expected = expected.as_f64().unwrap();
                match metric.as_str() {
                    "loss" => near(&what, loss.value, expected, 1e-4),
                    "grad_norm" => near(&what, norm, expected, 1e-3),
                    metric => near(&what, found[metric], expected, 1e-4),
                }
            }
        }
    }
}

/// A step of 1 × 6 has the losses, metrics and gradients of 6 × 1 and 2 × 3, with layers kept or computed twice.
#[test]
fn a_step_does_not_depend_on_its_division_into_batches() {
    let goldens = goldens();
    let kto = UnpairedLoss {
        beta: 0.5,
        desirable_weight: 1.0,
        undesirable_weight: 1.5,
        has_baseline: true,
    };
    let tokens = Some((1.0, NllAverage::Tokens));
    let sequences = Some((0.5, NllAverage::Sequences));
    let beta = 0.1;
    for (objective, records) in [
        (Objective::Pairs(PairLoss::Ipo { beta }, tokens), "dpo"),
        (Objective::Pairs(PairLoss::Orpo { beta }, sequences), "dpo"),
        (Objective::Single(kto), "kto"),
    ] {
        let golden = &goldens["cases"][records];
        let mismatches = matches!(objective, Objective::Single(_));
        let compared = match objective {
            Objective::Pairs(loss, _) => loss.has_reference(),
            _ => true,
        };
        let case = Case {
            objective,
            ..case(records)
        };
        let step = |batch: usize, recompute: bool| {
            let groups = answers_of(records, golden, &goldens["rows"]);
            let batches = batches(groups, (batch, 6 / batch), mismatches);
            let run = Run::new(&case, compared);
            let batches = batches.in_order(&[0, 1, 2, 3, 4, 5]);
            assert_eq!(batches.len(), 6 / batch);
            let (_, loss, norm) = run.step(&batches, recompute);
            (loss.value, metrics::named(&loss.metrics), norm)
        };
        let (loss, named, norm) = step(6, false);
        for (batch, recompute) in [(1, false), (2, false), (2, true)] {
            let what = format!("{objective:?}, {batch}, {recompute}");
            let found = step(batch, recompute);
            near(&what, found.0, loss, 1e-5);
            near(&what, found.2, norm, 1e-5);
            assert_eq!(found.1.len(), named.len(), "{what}");
            // These are of some tokens of each batch.
            let of_some = [
                "entropy",
                "mean_token_accuracy",
                "logits/chosen",
                "logits/rejected",
            ];
            let each = found.1.iter();
            for (name, value) in each.filter(|(name, _)| !of_some.contains(&name.as_str())) {
                near(&format!("{what}, {name}"), *value, named[name], 1e-5);
            }
        }
    }
}

/// The baseline of KTO comes from answers behind other prompts than their own, in a step of one answer too.
#[test]
fn answers_stand_behind_other_prompts() {
    let goldens = goldens();
    let golden = &goldens["cases"]["kto"];
    let groups = answers_of("kto", golden, &goldens["rows"]);
    let all = groups.clone();
    let batches = batches(groups, (2, 2), true);
    let begins = |example: &Example| example.learned[0].start;
    for rows in [&[4, 7, 2, 5][..], &[3]] {
        let step = batches.in_order(rows);
        let found = step.iter().flat_map(|batch| {
            let mismatched = batch.answers().unwrap().mismatched.as_ref().unwrap();
            let labels = mismatched.labels.as_ref().unwrap();
            let lengths = labels
                .documents
                .clone()
                .unwrap_or(vec![mismatched.ids.len()]);
            let mut done = 0;
            lengths.into_iter().map(move |length| {
                done += length;
                mismatched.ids[done - length..done].to_vec()
            })
        });
        let found: Vec<Vec<i64>> = found.collect();
        let other = |at: usize| match rows {
            [row] => row + 1,
            rows => rows[(at + rows.len() - 1) % rows.len()],
        };
        let expected = (0..rows.len()).map(|at| {
            let (own, other) = (&all[rows[at]].answers[0], &all[other(at)].answers[0]);
            let ids = [&own.ids[..begins(own)], &other.ids[begins(other)..]].concat();
            ids.into_iter().map(i64::from).collect::<Vec<_>>()
        });
        assert_eq!(found, expected.collect::<Vec<_>>());
    }
}
