//! The checked and complete settings of a run, enough to repeat it.

use super::Args;
use super::preset::Preset;
use crate::choice::{DeviceChoice, DtypeChoice};
use anyhow::Context;
use burn_kernels::policy::{self, Policy};
use clap::ValueEnum;
use kernels_models::ModelConfig;
use serde::Serialize;

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
    /// The dtype that losses and gradients are computed in. Parameters are f32.
    pub dtype: DtypeChoice,
    /// The seed of all random numbers.
    pub seed: u64,
    /// The kernel policy.
    pub kernels: Policy,
    /// The device of the run.
    pub device: DeviceChoice,
}

impl Settings {
    /// Creates the settings from the arguments and the environment.
    ///
    /// # Errors
    /// Returns an error if the policy in the environment is invalid or the model's sizes don't fit together.
    pub fn new(args: &Args) -> anyhow::Result<Self> {
        Ok(Self {
            preset: args.preset,
            model: args.preset.config(args.seq)?,
            steps: args.steps,
            steps_per_validation: args.steps / validations(args.steps),
            batch: args.batch,
            seq: args.seq,
            lr: args.lr,
            dtype: args.dtype,
            seed: args.seed,
            kernels: policy::current().context("the kernel policy")?,
            device: args.device.clone(),
        })
    }

    /// Returns the number of validations. The last one is after the last step.
    pub fn validations(&self) -> usize {
        self.steps / self.steps_per_validation
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
        Ok(number) if number >= LOWEST => Ok(number),
        _ => Err(format!("expected a whole number of at least {LOWEST}")),
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
        assert_eq!(learning_rate("0.5"), Ok(0.5));
        for text in ["0", "-1", "1.5", "nan", "x"] {
            assert!(learning_rate(text).is_err(), "{text}");
        }
        assert!(training_dtype("f16").unwrap_err().contains("loss scaling"));
    }
}
