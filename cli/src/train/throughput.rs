//! Tokens per second with and without kernels, measured in the same run.
//!
//! Both sides take real training steps (forward, backward, AdamW) on the same batches, with a copy of the trained model
//! that is discarded. Short segments of both sides alternate, and take turns in going first, so that changes in the
//! machine's speed affect both alike. The ratio is the median over the pairs.

use super::data::{Batches, Splits};
use super::settings::Settings;
use crate::training::batch::{Batch, Source};
use crate::training::optimiser::Optimiser;
use crate::training::state::Trainee;
use crate::training::step::Method;
use anyhow::Context;
use burn::module::Module;
use burn::tensor::{Device, FloatDType};
use burn_kernels::policy::{self, Policy};
use kernels_models::CausalLm;
use serde::Serialize;
use std::fmt;
use std::time::Instant;

const PAIRS: usize = 5;
const STEPS_PER_SEGMENT: usize = 2;

/// The speed of training with the run's policy and without kernels.
#[derive(Clone, Debug, Serialize)]
pub struct Throughput {
    /// The policy of the first side.
    pub policy: Policy,
    /// Median tokens per second under `policy`.
    pub with_kernels: f64,
    /// Median tokens per second under the policy `none`.
    pub without_kernels: f64,
    /// Median over the pairs of `with_kernels / without_kernels`.
    pub ratio: f64,
    /// The number of measured pairs of segments.
    pub pairs: usize,
    /// The number of training steps in a segment.
    pub steps_per_segment: usize,
}

/// Measures the speed, of one device with its share of a batch. Returns `None` if the run's own policy is `none`, because
/// there is nothing to compare.
///
/// # Errors
/// Returns an error if a batch can't be read or the device fails.
pub fn measure(
    model: CausalLm,
    settings: &Settings,
    splits: &Splits,
) -> anyhow::Result<Option<Throughput>> {
    if settings.kernels == Policy::reference() {
        return Ok(None);
    }
    let device = settings.devices.first().device()?.autodiff();
    let trainee = Trainee {
        model: model.train().fork(&device),
        optimiser: Optimiser::new(settings.optimiser),
    };
    let source = Batches { splits, settings };
    let devices = settings.devices.all().len();
    let mut bench = Bench {
        batches: (0..STEPS_PER_SEGMENT)
            .flat_map(|step| source.training(step))
            .map(|batch| batch.shares(devices).swap_remove(0))
            .collect(),
        trainee: Some(trainee),
        dtype: settings.dtype.float_dtype(),
        recompute: settings.gradient_checkpointing,
        rate: settings.lr,
        tokens: settings.tokens_per_step() / devices * STEPS_PER_SEGMENT,
        device,
    };
    let sides = [settings.kernels.clone(), Policy::reference()];
    // Creates caches, thread pools and the optimiser's state before the measurement.
    for side in &sides {
        bench.segment(side)?;
    }
    let mut speeds = [Vec::new(), Vec::new()];
    for pair in 0..PAIRS {
        for turn in 0..2 {
            let side = (pair + turn) % 2;
            speeds[side].push(bench.segment(&sides[side])?);
        }
    }
    let ratios = speeds[0]
        .iter()
        .zip(&speeds[1])
        .map(|(with, without)| with / without);
    Ok(Some(Throughput {
        ratio: median(ratios.collect()),
        policy: settings.kernels.clone(),
        with_kernels: median(speeds[0].clone()),
        without_kernels: median(speeds[1].clone()),
        pairs: PAIRS,
        steps_per_segment: STEPS_PER_SEGMENT,
    }))
}

struct Bench {
    /// One batch for each step of a segment. All segments use the same batches.
    batches: Vec<Batch>,
    /// The model, absent only while a step holds it.
    trainee: Option<Trainee>,
    dtype: FloatDType,
    recompute: bool,
    rate: f64,
    tokens: usize,
    device: Device,
}

impl Bench {
    /// Runs one segment under `policy` and returns its tokens per second.
    fn segment(&mut self, policy: &Policy) -> anyhow::Result<f64> {
        let _scope = policy::scope(policy.clone());
        self.device.sync()?;
        let started = Instant::now();
        for batch in &self.batches {
            let trainee = self.trainee.take().context("an earlier step failed")?;
            let batch = std::slice::from_ref(batch);
            let method = Method {
                dtype: self.dtype,
                device: &self.device,
                recompute: self.recompute.then_some(0),
                preference: None,
                teacher: None,
            };
            let (trainee, ..) = trainee.step(batch, method, self.rate)?;
            self.trainee = Some(trainee);
        }
        self.device.sync()?;
        Ok(self.tokens as f64 / started.elapsed().as_secs_f64())
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len().is_multiple_of(2) {
        (values[middle - 1] + values[middle]) / 2.0
    } else {
        values[middle]
    }
}

impl fmt::Display for Throughput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:.0} tokens/s with kernels ({}), {:.0} without: {:.2} times as fast\n  \
             (training steps on a copy of the model; medians of {} alternating pairs of {} steps)",
            self.with_kernels,
            self.policy,
            self.without_kernels,
            self.ratio,
            self.pairs,
            self.steps_per_segment,
        )?;
        match env!("KERNELS_OPT_LEVEL") {
            "3" => Ok(()),
            // The profiles in Cargo.toml keep this program's level and that of Burn the same.
            _ => f.write_str(
                "\n  (this build optimises Burn's own operations less than it could; `cargo run --profile dist` \
                 compares with them at their best)",
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), 2.5);
    }
}
