//! The checked and complete settings of a run.

use super::Args;
use super::data::{Batches, Kind};
use super::loss::LossArgs;
use super::model::Output;
use super::prepare::Facts;
use crate::choice::DtypeChoice;
use crate::devices::Devices;
use crate::training::batch::Source;
use crate::training::distillation::Teacher;
use crate::training::identity::{BASE, REFERENCE};
use crate::training::optimiser::AdamW;
use crate::training::plan::{MOST_STEPS, Plan};
use crate::training::preference::Preference;
use crate::training::ranks::Ranks;
use crate::training::schedule::{Decay, Schedule};
use anyhow::{Context, ensure};
use burn_kernels::policy::{self, Policy};
use kernels_io::escape_path;
use kernels_models::{AdapterConfig, ModelConfig};
use serde::Serialize;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// The settings of a run, as written to `finetune.json`.
#[derive(Clone, Debug, Serialize)]
pub struct Settings {
    /// The folder of the checkpoint to begin with.
    pub model: PathBuf,
    /// The configuration of the model.
    #[serde(skip)]
    pub config: ModelConfig,
    /// The settings of adapters, if the run trains some.
    #[serde(skip)]
    pub adapters: Option<AdapterConfig>,
    /// The checksum of the weights of the checkpoint, if the run stays bound to them: below adapters, or as the reference.
    #[serde(skip)]
    pub base: Option<String>,
    /// The checksum of the weights of the reference, if it is not the checkpoint, or of the teacher.
    #[serde(skip)]
    pub reference: Option<String>,
    /// The form of frozen weights, if the run trains adapters and does not decode the weights.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frozen: Option<&'static str>,
    /// True if the merged model is saved too.
    pub merge: bool,
    /// The number of optimiser steps.
    pub steps: usize,
    /// The number of steps before each validation.
    pub steps_per_validation: usize,
    /// The number of validations without a lower loss after which training ends.
    pub patience: Option<usize>,
    /// The number of sequences in a batch.
    pub batch: usize,
    /// The number of batches in a step.
    pub accumulate: usize,
    /// The largest number of tokens in a sequence.
    pub seq: usize,
    /// True if a sequence holds several examples.
    pub packs: bool,
    /// True if prompts are learned too.
    pub all_tokens: bool,
    /// The options of the loss.
    pub loss: LossArgs,
    /// The highest learning rate.
    pub lr: f64,
    /// The number of steps in which the learning rate rises.
    pub warmup: usize,
    /// The course of the learning rate after that.
    pub schedule: Decay,
    /// The settings of AdamW.
    pub optimiser: AdamW,
    /// The dtype that losses and gradients are computed in. Trained parameters are f32.
    pub dtype: DtypeChoice,
    /// True if each layer is computed twice, in place of keeping its activations.
    pub gradient_checkpointing: bool,
    /// The seed of all random numbers.
    pub seed: u64,
    /// The kernel policy.
    pub kernels: Policy,
    /// The devices of the run.
    #[serde(rename = "device")]
    pub devices: Devices,
}

impl Settings {
    /// Checks the options. `adapts` is true for a run that trains adapters, whose settings are not known yet.
    pub(super) fn new(
        args: &Args,
        (model, config, adapts): (PathBuf, ModelConfig, bool),
        packs: bool,
        batches: &Batches,
    ) -> anyhow::Result<Self> {
        // Numbers that are too large for `usize` become its largest.
        let of_epochs = (args.epochs * batches.steps_per_epoch() as f64).ceil() as usize;
        let steps = args.steps.unwrap_or(of_epochs).max(1);
        ensure!(
            steps <= MOST_STEPS,
            "a run takes at most {MOST_STEPS} steps; choose fewer --steps or --epochs"
        );
        ensure!(
            args.patience.is_none() || batches.validations() > 0,
            "--patience waits for a lower validation loss, but no example is held out; give --eval-data or --held-out"
        );
        let warmup = args.warmup.unwrap_or((steps * 3).div_ceil(100));
        ensure!(
            warmup <= steps,
            "--warmup is {warmup}, but the run has {steps} steps, so the learning rate would never be the highest"
        );
        let lr = args.lr.unwrap_or(if adapts { 2e-4 } else { 2e-5 });
        let decay = lr * f64::from(args.weight_decay);
        ensure!(
            decay < 1.0,
            "a step takes --lr times --weight-decay, {decay}, of each weight away, which must be below 1"
        );
        let mut loss = args.loss.clone();
        loss.rollouts.forget_timeout();
        Ok(Self {
            model,
            config,
            adapters: None,
            base: None,
            reference: None,
            // Reward models are decoded.
            frozen: (args.lora.frozen_name()).filter(|_| adapts && !args.loss.is_reward()),
            merge: args.lora.merge,
            steps,
            steps_per_validation: args.validate_steps.unwrap_or(steps.div_ceil(4)),
            patience: args.patience,
            batch: args.batch,
            accumulate: args.accumulate,
            seq: args.seq,
            packs,
            all_tokens: args.all_tokens,
            loss,
            lr,
            warmup,
            schedule: args.schedule,
            optimiser: AdamW {
                beta_1: 0.9,
                beta_2: 0.999,
                epsilon: 1e-8,
                weight_decay: args.weight_decay,
                clip: (args.clip > 0.0).then_some(args.clip),
            },
            dtype: args.dtype,
            gradient_checkpointing: args.gradient_checkpointing,
            seed: args.seed,
            kernels: policy::current().context("the kernel policy")?,
            devices: args.devices.chosen(),
        })
    }

    /// Returns the settings of the training loop. `folder` is the run's.
    ///
    /// # Errors
    /// Returns an error if the device can't be reached.
    pub fn plan(
        &self,
        args: &Args,
        (preference, teacher): (Option<Preference>, Option<Teacher>),
        ranks: Ranks,
        folder: &Path,
    ) -> anyhow::Result<Plan> {
        Ok(Plan {
            steps: self.steps,
            steps_per_validation: self.steps_per_validation,
            schedule: Schedule {
                highest: self.lr,
                lowest: 0.0,
                warmup: self.warmup,
                steps: self.steps,
                decay: self.schedule,
            },
            dtype: self.dtype.float_dtype(),
            gradient_checkpointing: self.gradient_checkpointing,
            seed: self.seed,
            ranks,
            devices: self.devices.open()?,
            names: self.devices.names(),
            saving: args.saving.saving(),
            patience: self.patience,
            preference,
            teacher,
            resume: format!("kernels finetune --resume {}", escape_path(folder)),
        })
    }

    /// Returns the contents of `finetune.json`: everything that decides the numbers of the run.
    ///
    /// # Errors
    /// Returns an error if the model's configuration is not JSON.
    pub fn describe(&self, facts: &Facts) -> anyhow::Result<Value> {
        let config: Value = serde_json::from_str(&self.config.to_json())?;
        let adapters = self.adapters.as_ref().map(|adapters| {
            json!({
                "rank": adapters.rank,
                "alpha": adapters.alpha,
                "dropout": adapters.dropout,
                "rank_stabilised": adapters.rank_stabilised,
                "targets": adapters.targets,
            })
        });
        Ok(json!({
            "program": concat!("kernels ", env!("CARGO_PKG_VERSION")),
            "settings": self,
            "adapters": adapters,
            "model": config,
            "data": facts,
            BASE: self.base,
            REFERENCE: self.reference,
        }))
    }

    /// Returns the unit that the loss is a mean of.
    pub fn unit(&self) -> &'static str {
        match self.loss.kind() {
            None if self.loss.is_distillation() => "of divergence per token",
            None => "in nats per token",
            Some(Kind::Pairs | Kind::Scored) => "of a pair",
            Some(Kind::Single) => "of an answer",
            Some(Kind::Prompts) => "of a completion",
        }
    }

    /// Returns the folders that receive the trained model. `folder` is that of the run.
    pub fn outputs(&self, folder: &Path) -> Vec<Output> {
        let model = Output::Model(folder.join("checkpoint"));
        let adapter = Output::Adapter(folder.join("adapter"));
        match (&self.adapters, self.merge) {
            (None, _) => vec![model],
            // An adapter has no place for the head.
            _ if self.loss.is_reward() => vec![model],
            (Some(_), false) => vec![adapter],
            (Some(_), true) => vec![adapter, model],
        }
    }
}
