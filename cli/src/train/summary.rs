//! What a run says at its end.

use super::fit::Trained;
use super::folder::RunFolder;
use super::settings::Settings;
use super::throughput::Throughput;
use anyhow::Context;
use burn::module::Module;
use burn_kernels::report::Report;
use kernels_io::escape_path;
use serde::Serialize;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// The results of a run. `summary.json` holds them.
#[derive(Serialize)]
pub struct Summary {
    /// The run folder.
    pub folder: PathBuf,
    /// The checkpoint inside it.
    pub checkpoint: PathBuf,
    /// Parameters of the model.
    pub parameters: usize,
    /// Optimiser steps taken.
    pub steps: usize,
    /// Tokens seen in training.
    pub tokens: usize,
    /// The loss of the last batch, in nats per token.
    pub training_loss: f64,
    /// The loss over all held-out text after the last step, in nats per token.
    pub validation_loss: f64,
    /// `exp(validation_loss)`.
    pub perplexity: f64,
    /// How evenly a mixture of experts uses them; none for a dense model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load_balancing: Option<LoadBalancing>,
    /// Seconds of training and validation.
    pub training_seconds: f64,
    /// Seconds of the whole command.
    pub seconds: f64,
    /// Speed with kernels and without; none when the policy is `none`.
    pub throughput: Option<Throughput>,
    /// Which path each site took in training and validation.
    pub dispatch: Report,
    /// Generated text.
    pub sample: String,
}

/// The load-balancing loss at the end of a run.
#[derive(Clone, Copy, Serialize)]
pub struct LoadBalancing {
    /// Over the held-out text, before it is multiplied.
    pub validation_loss: f64,
    /// What it has been multiplied by in the training loss.
    pub coefficient: f64,
    /// What it is when all experts are used alike.
    pub even: f64,
}

impl LoadBalancing {
    fn new(settings: &Settings, validation_loss: f64) -> Option<Self> {
        let moe = settings.model.moe.as_ref()?;
        Some(Self {
            validation_loss,
            coefficient: moe.router_aux_loss_coef,
            even: moe.num_experts_per_tok as f64,
        })
    }
}

impl fmt::Display for LoadBalancing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Load-balancing loss {:.4} ({} if all experts were used alike), times {} in the training \
             loss",
            self.validation_loss, self.even, self.coefficient
        )
    }
}

impl Summary {
    /// Gathers the results.
    ///
    /// # Errors
    /// The run recorded no training step or no validation.
    pub fn new(
        settings: &Settings,
        folder: &RunFolder,
        trained: &Trained,
        dispatch: Report,
        throughput: Option<Throughput>,
        sample: String,
        elapsed: Duration,
    ) -> anyhow::Result<Self> {
        let last = |split: &str| {
            let mut points = trained.points.iter().rev();
            points
                .find(|point| point.split == split)
                .with_context(|| format!("the run recorded no point of split `{split}`"))
        };
        let (train, valid) = (last("train")?, last("valid")?);
        Ok(Self {
            folder: folder.path().to_owned(),
            checkpoint: folder.checkpoint(),
            parameters: trained.model.num_params(),
            steps: train.step,
            tokens: train.step * settings.tokens_per_step(),
            training_loss: train.loss,
            validation_loss: valid.loss,
            perplexity: valid.loss.exp(),
            load_balancing: valid
                .load_balancing_loss
                .and_then(|loss| LoadBalancing::new(settings, loss)),
            training_seconds: valid.seconds,
            seconds: elapsed.as_secs_f64(),
            throughput,
            dispatch,
            sample,
        })
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "What ran\n{}\n", self.dispatch.to_string().trim_end())?;
        writeln!(f, "Generated text\n{}\n", self.sample)?;
        writeln!(
            f,
            "Trained {} parameters on {} tokens in {:.0} s ({:.0} s with everything)",
            self.parameters, self.tokens, self.training_seconds, self.seconds
        )?;
        writeln!(
            f,
            "Validation loss {:.4} nats per byte, perplexity {:.2}",
            self.validation_loss, self.perplexity
        )?;
        if let Some(load_balancing) = self.load_balancing {
            writeln!(f, "{load_balancing}")?;
        }
        match &self.throughput {
            Some(throughput) => writeln!(f, "{throughput}")?,
            None => writeln!(f, "No speed to compare: the policy is `none`")?,
        }
        write!(
            f,
            "Run folder {}; try: kernels run --model {} --inputs FILE --outputs FILE",
            escape_path(&self.folder),
            escape_path(&self.checkpoint)
        )
    }
}
