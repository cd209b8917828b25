//! What was asked for, checked and complete: enough to repeat the run.

use super::Args;
use super::preset::Preset;
use crate::choice::{DeviceChoice, DtypeChoice};
use anyhow::Context;
use burn_kernels::policy::{self, Policy};
use clap::ValueEnum;
use kernels_models::ModelConfig;
use serde::Serialize;

/// The settings of a run. `train.json` holds them.
#[derive(Clone, Debug, Serialize)]
pub struct Settings {
    /// The model family.
    pub preset: Preset,
    /// The model in numbers; `checkpoint/config.json` holds it.
    #[serde(skip)]
    pub model: ModelConfig,
    /// Optimiser steps.
    pub steps: usize,
    /// How many of them come before each validation.
    pub steps_per_validation: usize,
    /// Sequences in each step.
    pub batch: usize,
    /// Tokens in each sequence.
    pub seq: usize,
    /// The highest learning rate.
    pub lr: f64,
    /// The seed of everything random.
    pub seed: u64,
    /// The kernel policy.
    pub kernels: Policy,
    /// Where the run takes place.
    pub device: DeviceChoice,
}

impl Settings {
    /// The settings that the arguments and the environment ask for.
    ///
    /// # Errors
    /// The policy in the environment is not a policy.
    pub fn new(args: &Args) -> anyhow::Result<Self> {
        Ok(Self {
            preset: args.preset,
            model: args.preset.config(args.seq)?,
            steps: args.steps,
            steps_per_validation: args.steps / validations(args.steps),
            batch: args.batch,
            seq: args.seq,
            lr: args.lr,
            seed: args.seed,
            kernels: policy::current().context("the kernel policy")?,
            device: args.device.clone(),
        })
    }

    /// How often the model is validated; the last time is after the last step.
    pub fn validations(&self) -> usize {
        self.steps / self.steps_per_validation
    }

    /// Tokens that one optimiser step processes.
    pub fn tokens_per_step(&self) -> usize {
        self.batch * self.seq
    }
}

/// Up to six validations at equal distances, at least ten steps apart.
fn validations(steps: usize) -> usize {
    (2..=6)
        .rev()
        .find(|rounds| steps.is_multiple_of(*rounds) && steps / rounds >= 10)
        .unwrap_or(1)
}

/// Parses an argument that has a lower bound.
pub fn at_least<const LOWEST: usize>(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(number) if number >= LOWEST => Ok(number),
        _ => Err(format!("expected a whole number of at least {LOWEST}")),
    }
}

/// Parses `--lr`, whose range is that of Burn's schedulers.
pub fn learning_rate(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(rate) if rate > 0.0 && rate <= 1.0 => Ok(rate),
        _ => Err("expected a number above 0 and at most 1".to_owned()),
    }
}

/// Parses `--dtype` for training.
pub fn training_dtype(text: &str) -> Result<DtypeChoice, String> {
    match DtypeChoice::from_str(text, false) {
        Ok(DtypeChoice::F32) => Ok(DtypeChoice::F32),
        Ok(_) => Err(format!(
            "training in {text} would need f32 master weights and loss scaling, which this \
             program does not have; train in f32"
        )),
        Err(_) => Err("the only training dtype is f32".to_owned()),
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
        assert_eq!(learning_rate("0.5"), Ok(0.5));
        for text in ["0", "-1", "1.5", "nan", "x"] {
            assert!(learning_rate(text).is_err(), "{text}");
        }
        assert!(
            training_dtype("bf16")
                .unwrap_err()
                .contains("master weights")
        );
    }
}
