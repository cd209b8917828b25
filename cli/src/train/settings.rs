//! The checked and complete settings of a run, enough to repeat it.

use super::Args;
use super::data::Splits;
use super::preset::Preset;
use crate::choice::DtypeChoice;
use crate::devices::Devices;
use crate::training::optimiser::AdamW;
use crate::training::plan::{MOST_STEPS, Plan, Saving};
use crate::training::ranks::Ranks;
use crate::training::schedule::{Decay, Schedule};
use anyhow::{Context, ensure};
use burn::tensor::Device;
use burn_kernels::policy::{self, Policy};
use clap::ValueEnum;
use kernels_io::escape_path;
use kernels_models::ModelConfig;
use serde::Serialize;
use serde_json::{Value, json};
use std::path::Path;

/// The settings of a run, as written to `train.json`.
#[derive(Clone, Debug, Serialize)]
pub struct Settings {
    /// The preset of the model.
    pub preset: Preset,
    /// The configuration of the model, which is also in `checkpoint/config.json`.
    #[serde(skip)]
    pub model: ModelConfig,
    /// The number of optimiser steps.
    pub steps: usize,
    /// The number of steps before each validation.
    pub steps_per_validation: usize,
    /// The number of sequences in each step.
    pub batch: usize,
    /// The number of tokens in each sequence.
    pub seq: usize,
    /// The highest learning rate.
    pub lr: f64,
    /// The settings of AdamW.
    pub optimiser: AdamW,
    /// The dtype that losses and gradients are computed in. Parameters are f32.
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
    /// The times of checkpoints, which decide no number of the run.
    #[serde(skip)]
    pub saving: Saving,
}

/// The largest number of tokens in a step. Some tensors of one have a kilobyte for each.
const MOST_TOKENS: usize = 1 << 24;

impl Settings {
    /// Creates the settings from the arguments and the environment.
    ///
    /// # Errors
    /// Returns an error if the policy in the environment is invalid, if the model's sizes don't fit together, or if the
    /// devices can't share a batch.
    pub fn new(args: &Args) -> anyhow::Result<Self> {
        let devices = args.devices.chosen();
        devices.check_batch(args.batch)?;
        ensure!(
            args.batch.saturating_mul(args.seq) <= MOST_TOKENS,
            "a step of {} sequences of {} tokens is too large: it takes at most {MOST_TOKENS} tokens",
            args.batch,
            args.seq
        );
        Ok(Self {
            preset: args.preset,
            model: args.preset.config(args.seq)?,
            steps: args.steps,
            steps_per_validation: args.steps / validations(args.steps),
            batch: args.batch,
            seq: args.seq,
            lr: args.lr,
            optimiser: AdamW::FROM_SCRATCH,
            dtype: args.dtype,
            gradient_checkpointing: args.gradient_checkpointing,
            seed: args.seed,
            kernels: policy::current().context("the kernel policy")?,
            devices,
            saving: args.saving.saving(),
        })
    }

    /// Returns the settings of the training loop. `folder` is the run's.
    pub fn plan(&self, ranks: Ranks, devices: Vec<Device>, folder: &Path) -> Plan {
        let schedule = Schedule {
            highest: self.lr,
            lowest: self.lr / 10.0,
            warmup: (self.steps / 10).clamp(1, 100),
            steps: self.steps,
            decay: Decay::Cosine,
        };
        Plan {
            steps: self.steps,
            steps_per_validation: self.steps_per_validation,
            schedule,
            dtype: self.dtype.float_dtype(),
            gradient_checkpointing: self.gradient_checkpointing,
            seed: self.seed,
            ranks,
            devices,
            names: self.devices.names(),
            saving: self.saving,
            patience: None,
            preference: None,
            teacher: None,
            resume: format!("kernels train --resume {}", escape_path(folder)),
        }
    }

    /// Returns the contents of `train.json`: everything that decides the numbers of the run.
    ///
    /// # Errors
    /// Returns an error if the model's configuration is not JSON.
    pub fn describe(&self, splits: &Splits) -> anyhow::Result<Value> {
        let model: Value = serde_json::from_str(&self.model.to_json())?;
        Ok(json!({
            "program": concat!("kernels ", env!("CARGO_PKG_VERSION")),
            "settings": self,
            "model": model,
            "corpus": splits.corpus,
            "fingerprint": splits.fingerprint,
            "training_sequences": splits.train.len(),
            "validation_sequences": splits.valid.len(),
        }))
    }

    /// Returns the number of tokens in an optimiser step.
    pub fn tokens_per_step(&self) -> usize {
        self.batch * self.seq
    }
}

/// Returns the number of validations: at most six, at equal distances of at least ten steps.
fn validations(steps: usize) -> usize {
    (2..=6)
        .rev()
        .find(|rounds| steps.is_multiple_of(*rounds) && steps / rounds >= 10)
        .unwrap_or(1)
}

/// Parses an argument that has a lower bound.
pub fn at_least<const LOWEST: usize>(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(number) if (LOWEST..=MOST_STEPS).contains(&number) => Ok(number),
        _ => Err(format!(
            "expected a whole number from {LOWEST} to {MOST_STEPS}"
        )),
    }
}

/// Parses `--lr`, which has the range of Burn's schedulers.
pub fn learning_rate(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(rate) if rate > 0.0 && rate <= 1.0 => Ok(rate),
        _ => Err("expected a number above 0 and at most 1".to_owned()),
    }
}

/// Parses `--dtype` for training.
pub fn training_dtype(text: &str) -> Result<DtypeChoice, String> {
    match DtypeChoice::from_str(text, false) {
        Ok(dtype @ (DtypeChoice::F32 | DtypeChoice::Bf16)) => Ok(dtype),
        Ok(DtypeChoice::F16) => Err(
            "training in f16 would need loss scaling, which this program does not have; train in bf16 \
             or f32"
                .to_owned(),
        ),
        _ => Err("training dtypes are f32 and bf16".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn validations_divide_the_steps() {
        let cases = [
            (1, 1),
            (4, 1),
            (19, 1),
            (20, 2),
            (30, 3),
            (300, 6),
            (720, 6),
            (307, 1),
            (1000, 5),
        ];
        for (steps, rounds) in cases {
            assert_eq!(validations(steps), rounds, "{steps} steps");
        }
    }

    #[test]
    fn arguments_have_bounds() {
        assert_eq!(at_least::<2>("2"), Ok(2));
        assert!(at_least::<2>("1").is_err());
        assert!(at_least::<2>("18446744073709551615").is_err());
        assert_eq!(learning_rate("0.5"), Ok(0.5));
        for text in ["0", "-1", "1.5", "nan", "x"] {
            assert!(learning_rate(text).is_err(), "{text}");
        }
        assert!(training_dtype("f16").unwrap_err().contains("loss scaling"));
    }
}
