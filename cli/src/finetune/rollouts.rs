//! The completions that a model writes to prompts, as the batches of its next step.

use super::Args;
use super::data::{Batches, Example, Kind, Prompt, Prompts, Recorded, Row, Sizes};
use super::grpo::RolloutArgs;
use super::prepare::{Facts, fingerprint};
use super::writer::{Judged, Writer, generation, is_cut};
use crate::output;
use crate::text::Tokenizer;
use crate::training::batch::{Batch, Rollout, Source};
use crate::training::identity::Fingerprint;
use crate::training::step::without_gradients;
use anyhow::{Context, bail, ensure};
use burn::tensor::{Device, FloatDType};
use burn_kernels::optim::rounded;
use kernels_models::preference::{AdvantageScale, Metric, advantages};
use kernels_models::{CausalLm, ModelConfig, Scored};
use serde_json::Value;
use std::path::Path;

/// Refuses options that are about held-out data, for completions with rewards.
///
/// # Errors
/// Returns an error that names the option.
pub fn check(args: &Args) -> anyhow::Result<()> {
    ensure!(
        args.loss.kind() != Some(Kind::Prompts) || args.eval_data.is_empty(),
        "--eval-data: --loss grpo has no validation, because its loss says little about the model; look at `reward` in \
         metrics.jsonl"
    );
    Ok(())
}

/// Tells which prompts are too long.
pub fn tell_lost(found: &Prompts, seq: usize) {
    const SHOWN: usize = 5;
    let left_out = &found.left_out;
    if !left_out.is_empty() {
        let places: Vec<&str> = left_out.iter().take(SHOWN).map(String::as_str).collect();
        let more = if left_out.len() > SHOWN { ", …" } else { "" };
        output::note(format_args!(
            "{} records have no room for a whole completion within {seq} tokens, and are left out: {}{more}",
            left_out.len(),
            places.join(", ")
        ));
    }
}

/// Returns the batches of prompts, whose rows have the order of steps, with facts of them.
pub fn batches(args: &Args, prompts: &Prompts, packs: bool) -> (Batches, Facts) {
    let (mut examples, mut rows) = (Vec::new(), Vec::<Row>::new());
    for prompt in &prompts.rows {
        let first = examples.len();
        examples.extend(prompt.examples());
        rows.push((first..examples.len()).collect());
    }
    let mut known = Fingerprint::default();
    known.add(fingerprint(examples.iter()).as_bytes());
    for prompt in &prompts.rows {
        known.add(Value::Object(prompt.fields.clone()).to_string().as_bytes());
        for own in &prompt.recorded {
            known.add(&own.reward.to_le_bytes());
            let old = own.old.iter().flatten();
            old.for_each(|number| known.add(&number.to_le_bytes()));
        }
    }
    let facts = Facts {
        examples: rows.len(),
        held_out: 0,
        sequences: rows.len(),
        tokens: examples.iter().map(|example| example.ids.len()).sum(),
        targets: examples.iter().map(Example::targets).sum(),
        cut: 0,
        left_out: prompts.left_out.len(),
        new_ends: Vec::new(),
        fingerprint: known.to_string(),
        date: None,
        pictures: 0,
    };
    let sizes = Sizes {
        batch: args.batch,
        accumulate: args.accumulate,
        packs,
        length: args.seq,
        mismatches: false,
        scores: false,
    };
    let batches = Batches::new(examples, [rows, Vec::new()], args.seed, sizes);
    (batches, facts)
}

/// The prompts of a run, and how they are completed and judged.
pub struct Rollouts {
    prompts: Vec<Prompt>,
    /// The writer of completions. `None` if the records have them.
    writer: Option<Writer>,
    scale: AdvantageScale,
    /// The tokens that end a completion.
    ends: Vec<u32>,
    /// True to leave completions without such a token out of the loss.
    masks_truncated: bool,
    /// The number of updates by the completions of a step.
    updates: usize,
    temperature: f64,
    dtype: FloatDType,
    device: Device,
}

impl Rollouts {
    /// Prepares the prompts of a run on a checkpoint.
    ///
    /// # Errors
    /// Returns an error if completions have no rewards, or options that don't go with the records.
    pub fn new(
        prompts: Vec<Prompt>,
        (args, temperature, seed): (&RolloutArgs, f64, u64),
        (folder, config, tokenizer): (&Path, &ModelConfig, Tokenizer),
        (dtype, device): (FloatDType, Device),
    ) -> anyhow::Result<Self> {
        let settings = generation(folder, config, &tokenizer)?;
        let ends = settings.end_tokens.clone();
        let is_recorded = prompts.iter().any(|prompt| !prompt.recorded.is_empty());
        let scale = args.scale();
        let writer = match is_recorded {
            true => {
                let judged = ["--completions", "--reward-program", "--reward-regex"];
                let mut given = args.given().into_iter();
                let given = given.find(|(name, given)| *given && judged.contains(name));
                if let Some((option, _)) = given {
                    bail!(
                        "{option} is about completions that the model writes, but the records have completions"
                    );
                }
                let sizes = || prompts.iter().map(|prompt| prompt.recorded.len());
                ensure!(
                    scale != AdvantageScale::Batch
                        || sizes().all(|size| Some(size) == sizes().next()),
                    "--advantage-scale batch needs as many completions of each prompt, but the records have {} to {}",
                    sizes().min().unwrap_or(0),
                    sizes().max().unwrap_or(0)
                );
                let all = || prompts.iter().flat_map(|prompt| &prompt.recorded);
                ensure!(
                    !args.mask_truncated || all().any(|own| !is_cut(own, &ends)),
                    "--mask-truncated leaves out all {} completions, because none has a token that ends it, one of {ends:?}",
                    all().count()
                );
                None
            }
            false => Some(Writer::new(
                (args, temperature, seed),
                (settings, tokenizer),
            )?),
        };
        Ok(Self {
            prompts,
            writer,
            scale,
            ends,
            masks_truncated: args.mask_truncated,
            updates: args.updates(),
            temperature,
            dtype,
            device,
        })
    }

    /// Returns these prompts as a source of steps, in the order of `batches`, whose rows they are.
    pub fn over<'a>(&'a self, batches: &'a Batches) -> impl Source + 'a {
        Steps {
            rollouts: self,
            batches,
        }
    }

    /// Returns the completions of some prompts, with the rewards of each.
    fn complete(
        &self,
        rows: &[usize],
        step_and_part: (usize, usize),
        model: &CausalLm,
    ) -> anyhow::Result<Vec<Vec<Judged>>> {
        let prompts: Vec<&Prompt> = rows.iter().map(|row| &self.prompts[*row]).collect();
        match &self.writer {
            Some(writer) => writer.complete(&prompts, step_and_part, model),
            None => {
                let known = |own: &Recorded| Judged {
                    own: own.clone(),
                    is_cut: is_cut(own, &self.ends),
                };
                let known = |prompt: &&Prompt| prompt.recorded.iter().map(known).collect();
                Ok(prompts.iter().map(known).collect())
            }
        }
    }

    fn advantages(&self, groups: &[Vec<Judged>]) -> anyhow::Result<Vec<Vec<f64>>> {
        let rewards = |group: &Vec<Judged>| -> Vec<f64> {
            group.iter().map(|judged| judged.own.reward).collect()
        };
        let sizes: Vec<usize> = groups.iter().map(Vec::len).collect();
        if self.scale == AdvantageScale::Batch {
            let all: Vec<f64> = groups.iter().flat_map(rewards).collect();
            let all = advantages(&all, sizes[0], self.scale)?;
            return Ok(all.chunks(sizes[0]).map(<[f64]>::to_vec).collect());
        }
        let each = groups.iter().zip(sizes);
        let each = each.map(|(group, size)| advantages(&rewards(group), size, self.scale));
        Ok(each.collect::<Result<_, _>>()?)
    }
}

/// The steps of a run over its prompts.
struct Steps<'a> {
    rollouts: &'a Rollouts,
    batches: &'a Batches,
}

impl Source for Steps<'_> {
    fn training(&self, _: usize) -> Vec<Batch> {
        unreachable!("the completions of a step depend on the model")
    }

    fn batches(&self, step: usize, model: &CausalLm) -> anyhow::Result<Vec<Batch>> {
        let rollouts = self.rollouts;
        let model = without_gradients(model);
        let model = match rollouts.dtype {
            FloatDType::F32 => model,
            half => rounded(&model, half),
        };
        let rows = self.batches.rows(step);
        // As many prompts at a time as a batch has.
        let parts = rows.chunks(self.batches.rows_of_batch());
        let mut groups = Vec::with_capacity(rows.len());
        for (number, part) in parts.clone().enumerate() {
            groups.extend(rollouts.complete(part, (step, number), &model)?);
        }
        let advantages = rollouts.advantages(&groups)?;
        let mut metrics = metrics(&groups);
        let mut batches = Vec::new();
        let groups: Vec<_> = groups.into_iter().zip(advantages).collect();
        for part in groups.chunks(self.batches.rows_of_batch()) {
            let own = || {
                part.iter()
                    .flat_map(|(group, _)| group)
                    .map(|judged| &judged.own)
            };
            let examples: Vec<&Example> = own().map(|own| &own.example).collect();
            let mut batch = self.batches.answer_batch(&examples, &[]);
            let old = own()
                .map(|own| own.old.as_deref())
                .collect::<Option<Vec<_>>>();
            let mut rollout = Rollout {
                advantages: part
                    .iter()
                    .flat_map(|(_, own)| own.iter().copied())
                    .collect(),
                counts: part
                    .iter()
                    .flat_map(|(group, _)| group)
                    .map(|judged| !(judged.is_cut && rollouts.masks_truncated))
                    .collect(),
                old: old.map(|all| all.concat()),
                // They are those of the step.
                metrics: std::mem::take(&mut metrics),
            };
            if rollout.old.is_none() && rollouts.updates > 1 {
                let layout = batch.answers().context("it has answers")?;
                let scored = Scored {
                    places: &layout.places,
                    temperature: rollouts.temperature,
                };
                let log_probs = model.log_probs(batch.sequences(&rollouts.device), scored);
                rollout.old = Some(log_probs.try_to_vec_as::<f64>()?);
            }
            let answers = batch
                .labels
                .as_mut()
                .and_then(|labels| labels.answers.as_mut());
            answers.context("it has answers")?.rollout = Some(rollout);
            batches.push(batch);
        }
        Ok(batches)
    }

    fn updates(&self) -> usize {
        self.rollouts.updates
    }

    fn steps_per_epoch(&self) -> usize {
        self.batches.steps_per_epoch()
    }

    fn validations(&self) -> usize {
        0
    }

    fn validation(&self, _: usize) -> Batch {
        unreachable!("no prompt is held out")
    }
}

/// Returns the metrics of a step's completions under TRL's names.
fn metrics(groups: &[Vec<Judged>]) -> Vec<Metric> {
    let all = || groups.iter().flatten();
    let metric = |name, values: Vec<f64>| Metric {
        name,
        sum: values.iter().sum(),
        count: values.len() as f64,
    };
    let deviations = groups.iter().map(|group| {
        let count = group.len() as f64;
        let mean = group.iter().map(|judged| judged.own.reward).sum::<f64>() / count;
        let squares = group
            .iter()
            .map(|judged| (judged.own.reward - mean).powi(2));
        (squares.sum::<f64>() / (count - 1.0)).sqrt()
    });
    let deviations: Vec<f64> = deviations.collect();
    let flat = deviations
        .iter()
        .map(|own| f64::from(u8::from(*own == 0.0)));
    let cut = all().map(|judged| f64::from(u8::from(judged.is_cut)));
    vec![
        metric("reward", all().map(|judged| judged.own.reward).collect()),
        metric("frac_reward_zero_std", flat.collect()),
        metric("reward_std", deviations),
        metric(
            "completions/mean_length",
            all()
                .map(|judged| judged.own.example.targets() as f64)
                .collect(),
        ),
        metric("completions/clipped_ratio", cut.collect()),
    ]
}
