//! The plan of a run: everything that the training loop does, apart from its data.

use super::distillation::Teacher;
use super::preference::Preference;
use super::ranks::Ranks;
use super::schedule::Schedule;
use super::step::Method;
use burn::tensor::{Device, FloatDType};
use std::time::{Duration, Instant};

/// The largest number of steps of a run: some thirty years of one each second.
pub const MOST_STEPS: usize = 1_000_000_000;

/// The course of a run, apart from its data.
pub struct Plan {
    /// The number of optimiser steps.
    pub steps: usize,
    /// The number of steps before each validation. The last validation is after the last step.
    pub steps_per_validation: usize,
    /// The learning rate.
    pub schedule: Schedule,
    /// The dtype that losses and gradients are computed in.
    pub dtype: FloatDType,
    /// True to compute each layer twice, in place of keeping its activations.
    pub gradient_checkpointing: bool,
    /// The seed of all random numbers.
    pub seed: u64,
    /// The processes of the run.
    pub ranks: Ranks,
    /// The devices, with autodiff. Each has a copy of the model.
    pub devices: Vec<Device>,
    /// The names of the devices, for errors.
    pub names: Vec<String>,
    /// The times of checkpoints.
    pub saving: Saving,
    /// The number of validations without a lower loss after which training ends.
    pub patience: Option<usize>,
    /// The command that goes on with the run.
    pub resume: String,
    /// The loss of answers, in place of that of tokens.
    pub preference: Option<Preference>,
    /// The teacher, if the loss is a divergence from one.
    pub teacher: Option<Teacher>,
}

/// The times at which a run saves its state, apart from better validations and signals, and what else it writes.
#[derive(Clone, Copy, Debug)]
pub struct Saving {
    /// After this number of steps, again and again.
    pub steps: Option<usize>,
    /// After this time, again and again.
    pub time: Option<Duration>,
    /// True if metrics are events for TensorBoard too.
    pub tensorboard: bool,
}

impl Saving {
    pub(super) fn is_due(self, step: usize, last: Instant) -> bool {
        self.steps.is_some_and(|every| step.is_multiple_of(every))
            || self.time.is_some_and(|every| last.elapsed() >= every)
    }
}

impl Plan {
    /// Returns the first device, which validates and whose model is saved.
    pub fn device(&self) -> &Device {
        &self.devices[0]
    }

    /// Returns the way in which a training step with this seed is computed on a device.
    pub(super) fn method<'a>(&'a self, device: &'a Device, seed: u64) -> Method<'a> {
        Method {
            dtype: self.dtype,
            device,
            recompute: self.gradient_checkpointing.then_some(seed),
            preference: self.preference.as_ref(),
            teacher: self.teacher.as_ref(),
        }
    }
}
