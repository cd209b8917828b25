//! Log-probabilities of tokens, and losses of them with their gradients: against TRL 1.16 and f64, and against whole logits.

use crate::common::{File, fixtures, l2, model_dir, read, to_f64};
use crate::comparison::{difference, relative_to};
use burn::module::Module;
use burn::optim::{GradientsAccumulator, GradientsParams};
use burn::tensor::activation::log_softmax;
use burn::tensor::{Device, FloatDType, Int, Tensor, TensorData};
use burn_kernels::policy::{Policy, scope};
use kernels_models::preference::{
    Aggregation, Answers, Metric, NllAverage, PairLoss, Pairs, PolicyLoss, Ratio, Rollouts,
    UnpairedLoss, answer_sums,
};
use kernels_models::{CausalLm, Scored, Sequences, load};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;

fn device() -> Device {
    Device::flex().autodiff()
}

/// Rows of tokens, and the places of those that are scored.
struct Scoring {
    sequences: Sequences,
    places: Vec<usize>,
    /// The number of scored tokens of each row.
    lengths: Vec<usize>,
}

impl Scoring {
    /// Pads rows, each of ids and of the tokens that count, to one length.
    fn new(rows: &[(Vec<i64>, Vec<bool>)]) -> Self {
        let seq = rows.iter().map(|(ids, _)| ids.len()).max().unwrap();
        let (mut ids, mut targets, mut mask) = (Vec::new(), Vec::new(), Vec::new());
        let (mut places, mut lengths) = (Vec::new(), Vec::new());
        for (row, (tokens, counts)) in rows.iter().enumerate() {
            let before = places.len();
            for at in 0..seq {
                ids.push(tokens.get(at).copied().unwrap_or(0));
                mask.push(i64::from(at < tokens.len()));
                let scored = counts.get(at + 1).copied().unwrap_or(false);
                targets.push(match scored {
                    true => tokens[at + 1],
                    false => Sequences::IGNORED,
                });
                if scored {
                    places.push(row * seq + at);
                }
            }
            lengths.push(places.len() - before);
        }
        let tensor = |values: Vec<i64>| {
            Tensor::<1, Int>::from_data(&values[..], &device()).reshape([rows.len(), seq])
        };
        let positions = (0..rows.len()).flat_map(|_| 0..seq as i64).collect();
        let sequences = Sequences {
            input_ids: tensor(ids),
            targets: tensor(targets),
            position_ids: tensor(positions),
            documents: None,
            attention_mask: Some(tensor(mask)),
            pictures: None,
        };
        Self {
            sequences,
            places,
            lengths,
        }
    }

    fn scored(&self, temperature: f64) -> Scored<'_> {
        Scored {
            places: &self.places,
            temperature,
        }
    }
}

/// Returns the rows of two files' tensors: the kept ids, and whether each counts.
fn rows(file: &File, ids: &str, attention: &str, counts: &str) -> Vec<(Vec<i64>, Vec<bool>)> {
    let width = file[ids].shape[1];
    let values = |name: &str| file[name].values();
    let (ids, attention, counts) = (values(ids), values(attention), values(counts));
    let row = |start: usize| {
        let kept = (start..start + width).filter(|at| attention[*at] == 1.0);
        kept.map(|at| (ids[at] as i64, counts[at] == 1.0)).unzip()
    };
    (0..ids.len()).step_by(width).map(row).collect()
}

/// The sums of `Σ g_i·cos(0.7·i + 0.3)` and the norm of each gradient, by the names of a list.
fn probes(gradients: &BTreeMap<String, TensorData>, names: &[String]) -> (Vec<f64>, Vec<f64>) {
    assert_eq!(gradients.len(), names.len());
    let of = |name: &String| {
        let values = to_f64(&gradients[name]);
        let each = values.iter().enumerate();
        let probe: f64 = each.map(|(i, g)| g * (0.7 * i as f64 + 0.3).cos()).sum();
        (l2(values), probe)
    };
    names.iter().map(of).unzip()
}

fn like(values: &[f64], tensor: &Tensor<1>) -> Tensor<1> {
    let data = TensorData::new(values.to_vec(), [values.len()]);
    Tensor::from_data(data, (&tensor.device(), tensor.dtype()))
}

fn mean_of(metrics: &[Metric], name: &str) -> f64 {
    let metric = metrics.iter().find(|metric| metric.name == name);
    let metric = metric.unwrap_or_else(|| panic!("{name} is missing"));
    metric.sum / metric.count
}

/// The inputs of a loss of the goldens.
struct Goldens {
    file: File,
    answers: Scoring,
    /// Whole sequences of the chosen answers.
    whole: Scoring,
    completions: Scoring,
}

impl Goldens {
    fn new() -> Self {
        let file = read(&fixtures().join("preference/llama.safetensors"));
        let pairs = rows(&file, "input_ids", "attention_mask", "completion_mask");
        let all = |(ids, _): &(Vec<i64>, Vec<bool>)| (ids.clone(), vec![true; ids.len()]);
        let whole: Vec<_> = pairs[..4].iter().map(all).collect();
        let prompts = rows(
            &file,
            "grpo.prompt_ids",
            "grpo.prompt_mask",
            "grpo.prompt_mask",
        );
        let answers = rows(
            &file,
            "grpo.completion_ids",
            "grpo.completion_mask",
            "grpo.completion_mask",
        );
        let joined = prompts.into_iter().zip(answers);
        let joined = joined.map(|((mut ids, _), (answer, counts))| {
            let before = vec![false; ids.len()];
            ids.extend(answer);
            (ids, [before, counts].concat())
        });
        Self {
            answers: Scoring::new(&pairs),
            whole: Scoring::new(&whole),
            completions: Scoring::new(&joined.collect::<Vec<_>>()),
            file,
        }
    }

    /// Returns a loss of the policy, and its metrics.
    fn loss(&self, model: &CausalLm, kind: &str, params: &Value) -> (Tensor<1>, Vec<Metric>) {
        match kind {
            "grpo" => self.of_completions(model, params),
            "kto" => self.of_single_answers(model, params),
            kind => self.of_pairs(model, kind, params),
        }
    }

    fn sums(&self, model: &CausalLm, scoring: &Scoring) -> (Tensor<1>, Tensor<1>) {
        let log_probs = model.log_probs(scoring.sequences.clone(), scoring.scored(1.0));
        answer_sums(log_probs, &scoring.lengths).unwrap()
    }

    /// Returns the sums of the reference's log-probabilities.
    fn reference(&self) -> Vec<f64> {
        let stored = &self.file["reference_logps"];
        let values = stored.values();
        values
            .chunks(stored.shape[1])
            .map(|row| row.iter().sum())
            .collect()
    }

    fn of_pairs(&self, model: &CausalLm, kind: &str, params: &Value) -> (Tensor<1>, Vec<Metric>) {
        let number = |name: &str| params[name].as_f64().unwrap_or(0.0);
        let (beta, smoothing) = (number("beta"), number("label_smoothing"));
        let loss = match kind {
            "sigmoid" | "cpo" => PairLoss::Sigmoid { beta, smoothing },
            "robust" => PairLoss::Robust { beta, smoothing },
            "hinge" => PairLoss::Hinge { beta },
            "ipo" => PairLoss::Ipo { beta },
            "sigmoid_norm" => PairLoss::SigmoidNorm { beta },
            "orpo" => PairLoss::Orpo { beta },
            "simpo" => PairLoss::Simpo {
                beta,
                gamma: number("gamma"),
                smoothing,
            },
            other => panic!("{other}"),
        };
        let (sums, tokens) = self.sums(model, &self.answers);
        let free = kind == "cpo" || params["reference_free"] == true || !loss.has_reference();
        let reference = self.reference();
        let side = |start: usize| Answers {
            policy: sums.clone().narrow(0, start, 4),
            reference: (!free).then(|| like(&reference[start..start + 4], &sums)),
            tokens: tokens.clone().narrow(0, start, 4),
        };
        let pairs = Pairs {
            chosen: side(0),
            rejected: side(4),
        };
        let mut total = loss.per_pair(&pairs).unwrap().mean();
        for (name, average) in [
            ("sft_trl", NllAverage::Tokens),
            ("ftx", NllAverage::Sequences),
        ] {
            if let Some(weight) = params[name].as_f64() {
                total = total + average.nll(&pairs.chosen).unwrap() * weight;
            }
        }
        if let Some(weight) = params["nll_whole"].as_f64() {
            let (policy, tokens) = self.sums(model, &self.whole);
            let whole = Answers {
                policy,
                reference: None,
                tokens,
            };
            total = total + NllAverage::Tokens.nll(&whole).unwrap() * weight;
        }
        (total, loss.metrics(&pairs).unwrap())
    }

    fn of_single_answers(&self, model: &CausalLm, params: &Value) -> (Tensor<1>, Vec<Metric>) {
        let weight = |name: &str| params[name].as_f64().unwrap_or(1.0);
        let loss = UnpairedLoss {
            beta: params["beta"].as_f64().unwrap(),
            desirable_weight: weight("desirable_weight"),
            undesirable_weight: weight("undesirable_weight"),
            has_baseline: true,
        };
        let (sums, tokens) = self.sums(model, &self.answers);
        let reference = self.reference();
        let answers = Answers {
            policy: sums.clone().narrow(0, 0, 4),
            reference: Some(like(&reference[..4], &sums)),
            tokens: tokens.narrow(0, 0, 4),
        };
        let labels: Vec<bool> = self.file["kto.label"]
            .values()
            .iter()
            .map(|label| *label == 1.0)
            .collect();
        // The estimate of these pairs is below 0.
        let baseline = like(&[0.0], &sums);
        let mut metrics = loss.metrics(&answers, &labels).unwrap();
        metrics.push(Metric {
            name: "kl",
            sum: 0.0,
            count: 1.0,
        });
        let each = loss.per_answer(&answers, &labels, Some(baseline));
        (each.unwrap().mean(), metrics)
    }

    fn of_completions(&self, model: &CausalLm, params: &Value) -> (Tensor<1>, Vec<Metric>) {
        let temperature = params["temperature"].as_f64().unwrap_or(1.0);
        let settings = &params["grpo"];
        let Scoring {
            sequences, lengths, ..
        } = &self.completions;
        let scored = self.completions.scored(temperature);
        let found = model.log_probs(sequences.clone(), scored);
        let stored = &self.file["grpo.completion_mask"];
        let [count, width] = [stored.shape[0], stored.shape[1]];
        let mut ends = 0;
        let padded = lengths.iter().map(|length| {
            let row = found.clone().narrow(0, ends, *length);
            ends += length;
            let rest = Tensor::zeros([width - length], (&found.device(), found.dtype()));
            Tensor::cat(vec![row, rest], 0).unsqueeze_dim::<2>(0)
        });
        let policy = Tensor::cat(padded.collect::<Vec<_>>(), 0);
        let stored = |name: &str| {
            let values = self.file[name].values();
            like(&values, &found).reshape([count, width])
        };
        let named = |name: &str| stored(&format!("grpo.{name}_logps.{temperature:.1}"));
        let (low, kl) = (
            settings["epsilon"].as_f64().unwrap_or(0.2),
            settings["beta"].as_f64().unwrap_or(0.0),
        );
        let loss = PolicyLoss {
            ratio: match settings["level"] == "sequence" {
                true => Ratio::Sequence,
                false => Ratio::Token,
            },
            epsilon_low: low,
            epsilon_high: settings["epsilon_high"].as_f64().unwrap_or(low),
            delta: None,
            kl,
            kl_by_ratio: kl > 0.0,
            aggregation: match settings["loss"].as_str().unwrap() {
                "grpo" => Aggregation::Sequences,
                "dr_grpo" => Aggregation::MaxLength(16),
                "dapo" => Aggregation::StepTokens(lengths.iter().sum()),
                other => panic!("{other}"),
            },
        };
        let rollouts = Rollouts {
            policy,
            old: (params["on_policy"] != true).then(|| named("old")),
            reference: (kl > 0.0).then(|| named("reference")),
            mask: stored("grpo.completion_mask"),
            advantages: like(&self.file["grpo.advantages"].values(), &found),
        };
        loss.loss(&rollouts).unwrap()
    }
}

#[test]
fn losses_of_a_model_metrics_and_gradients_are_trls() {
    let path = fixtures().join("preference/llama.json");
    let known: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    let names: Vec<String> = serde_json::from_value(known["names"].clone()).unwrap();
    let goldens = Goldens::new();
    let losses = known["losses"].as_object().unwrap();
    assert_eq!(losses.len(), 21);
    // Those of f64 are rounded sums of the same numbers; f32 has 2⁻²⁴ in each.
    for (dtype, of_loss, of_gradients) in
        [(FloatDType::F64, 1e-9, 1e-8), (FloatDType::F32, 1e-5, 1e-4)]
    {
        let (_, model) = load(&model_dir("llama"), &device(), dtype).unwrap();
        for policy in [Policy::auto(), Policy::reference()] {
            let _policy = scope(policy);
            for (name, case) in losses {
                let kind = case["kind"].as_str().unwrap();
                let (loss, metrics) = goldens.loss(&model, kind, &case["params"]);
                let expected = case["loss"].as_f64().unwrap();
                let found = to_f64(&loss.clone().without_autodiff().into_data());
                let error = difference(&found, &[expected]) / expected.abs().max(1.0);
                assert!(error < of_loss, "{name}: {found:?}, not {expected}");
                for (metric, expected) in case["metrics"].as_object().unwrap() {
                    let found = match metric.as_str() {
                        "rewards/margins" => {
                            mean_of(&metrics, "rewards/chosen")
                                - mean_of(&metrics, "rewards/rejected")
                        }
                        metric => mean_of(&metrics, metric),
                    };
                    let expected = expected.as_f64().unwrap();
                    let error = difference(&[found], &[expected]) / expected.abs().max(1.0);
                    assert!(
                        error < 10.0 * of_loss,
                        "{name}, {metric}: {found}, not {expected}"
                    );
                }
                let gradients = model.gradients(&loss.backward());
                let (norms, probes) = probes(&gradients, &names);
                let stored = |what: &str| goldens.file[&format!("{what}.{name}.f64")].values();
                for (what, found) in [("norm", norms), ("probe", probes)] {
                    let error = relative_to(1e-6, &found, &stored(what));
                    assert!(error < of_gradients, "{name}, {what}: {error}");
                }
            }
        }
    }
}

#[test]
fn log_probabilities_are_those_of_whole_logits() {
    let tokens = |ids: &[i64], first: usize| {
        let counts = (0..ids.len()).map(|at| at >= first).collect();
        (ids.to_vec(), counts)
    };
    let scoring = Scoring::new(&[
        tokens(&[3, 9, 27, 17, 5], 2),
        tokens(&[4, 8], 1),
        tokens(&[11, 12, 13], 1),
    ]);
    // Untied, tied, and tied with a cap of logits.
    for name in ["llama", "llama_rope3_tied", "gemma2_sw8"] {
        let (config, model) = load(&model_dir(name), &device(), FloatDType::F64).unwrap();
        for (temperature, policy) in [
            (1.0, Policy::auto()),
            (0.7, Policy::auto()),
            (0.7, Policy::reference()),
        ] {
            let _policy = scope(policy);
            let what = format!("{name} at {temperature}");
            let sequences = || scoring.sequences.clone();
            let found = model.log_probs(sequences(), scoring.scored(temperature));
            let places: Vec<i64> = scoring.places.iter().map(|place| *place as i64).collect();
            let places = Tensor::<1, Int>::from_data(&places[..], &device());
            let logits = model.forward(sequences().input_ids, None);
            let logits = logits.reshape([15, config.vocab_size]) * (1.0 / temperature);
            let targets = sequences().targets.reshape([15]).select(0, places.clone());
            let expected = log_softmax(logits.select(0, places), 1);
            let expected: Tensor<1> = expected.gather(1, targets.unsqueeze_dim(1)).squeeze_dim(1);
            let number =
                |tensor: &Tensor<1>| to_f64(&tensor.clone().without_autodiff().into_data());
            assert!(
                difference(&number(&found), &number(&expected)) < 1e-10,
                "{what}"
            );
            // Each token has a gradient of its own.
            let factors = like(&[0.3, -1.1, 2.0, 0.7, -0.2, 1.3], &found);
            let of = |scores: Tensor<1>| (scores * factors.clone()).sum();
            let expected = of(expected);
            let value = number(&expected);
            let expected = GradientsParams::from_grads(expected.backward(), &model);
            let kept = GradientsParams::from_grads(of(found).backward(), &model);
            let mut recomputed = GradientsAccumulator::new();
            let losses = model.recomputed_losses_of_log_probs(
                sequences(),
                scoring.scored(temperature),
                of,
                (1.0, 7),
                |part| recomputed.accumulate(&model, GradientsParams::from_grads(part, &model)),
            );
            assert!(difference(&number(&losses.total), &value) < 1e-10, "{what}");
            for found in [kept, recomputed.grads()] {
                let error = farthest(&model, &found, &expected);
                assert!(error < 1e-8, "{what}: {error}");
            }
        }
    }
}

fn farthest(model: &CausalLm, one: &GradientsParams, other: &GradientsParams) -> f64 {
    use burn::module::{ModuleVisitor, Param};
    struct Compare<'a>(&'a GradientsParams, &'a GradientsParams, f64);
    impl ModuleVisitor for Compare<'_> {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            let found = self.0.get::<D>(param.id);
            let Some(expected) = self.1.get::<D>(param.id) else {
                return;
            };
            let found = found.expect("both have the same gradients");
            let [found, expected] = [found, expected].map(|gradient| to_f64(&gradient.into_data()));
            let error = relative_to(1e-9, &found, &expected);
            if error > self.2 {
                self.2 = error;
            }
        }
    }
    let mut compare = Compare(one, other, 0.0);
    model.visit(&mut compare);
    assert!(one.len() > 10 && one.len() == other.len());
    compare.2
}

#[test]
fn tokens_that_cannot_be_scored_are_refused() {
    let (_, model) = load(&model_dir("llama"), &device(), FloatDType::F32).unwrap();
    let scoring = Scoring::new(&[(vec![3, 9], vec![false, true])]);
    for (places, temperature, expected) in [
        (&[][..], 1.0, "no token to score"),
        (&[2], 1.0, "outside 1 sequences of 2 tokens"),
        (&[0], 0.0, "temperature: must be"),
        (&[0], f64::NAN, "temperature: must be"),
        (
            &[0, 1],
            1.0,
            "targets: row 0, column 1 is scored, but its target -100 (the one of tokens that are not part of a loss)",
        ),
    ] {
        let score = || {
            let scored = Scored {
                places,
                temperature,
            };
            model.log_probs(scoring.sequences.clone(), scored)
        };
        let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(score)).unwrap_err();
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.unwrap_or_else(|| (*panic.downcast_ref::<&str>().unwrap()).to_owned());
        assert!(text.contains(expected), "{text}");
    }
}
