//! The summary at the end of a run.

use super::fit::Trained;
use super::settings::Settings;
use super::throughput::Throughput;
use crate::training::folder::{RunFolder, SUMMARY};
use crate::training::metrics::{TRAIN, VALID};
use crate::training::state::Best;
use anyhow::Context;
use burn::module::Module;
use burn_kernels::report::Report;
use burn_kernels::tune::{self, TuneReport};
use kernels_io::{Look, Page, escape_path};
use serde::Serialize;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// The results of a run, as written to `summary.json`.
#[derive(Serialize)]
pub struct Summary {
    /// The run folder.
    pub folder: PathBuf,
    /// The checkpoint in the run folder.
    pub checkpoint: PathBuf,
    /// The number of the model's parameters.
    pub parameters: usize,
    /// The number of optimiser steps.
    pub steps: usize,
    /// The number of tokens seen in training.
    pub tokens: usize,
    /// The loss of the last batch, in nats per token.
    pub training_loss: f64,
    /// The loss over all held-out text after the last step, in nats per token.
    pub validation_loss: f64,
    /// The validation with the lowest loss.
    pub best: Option<Best>,
    /// `exp(validation_loss)`.
    pub perplexity: f64,
    /// The load-balancing loss of a mixture of experts. `None` for a dense model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load_balancing: Option<LoadBalancing>,
    /// The seconds of training and validation.
    pub training_seconds: f64,
    /// The seconds of the whole command.
    pub seconds: f64,
    /// The speed with and without kernels. `None` if the policy is `none`.
    pub throughput: Option<Throughput>,
    /// The paths that each site took in training and validation.
    pub dispatch: Report,
    /// The classes that were measured, with their choices. `None` if the policy does not tune.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tuned: Option<TuneReport>,
    /// The generated text.
    pub sample: String,
}

/// The load-balancing loss at the end of a run.
#[derive(Clone, Copy, Serialize)]
pub struct LoadBalancing {
    /// The loss over the held-out text, without its coefficient.
    pub validation_loss: f64,
    /// The coefficient of the loss in the training loss.
    pub coefficient: f64,
    /// The value of the loss if all experts are used equally.
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
            "Load-balancing loss {:.4} ({} if all experts were used equally), times {} in the training \
             loss",
            self.validation_loss, self.even, self.coefficient
        )
    }
}

impl Summary {
    /// Collects the results.
    ///
    /// # Errors
    /// Returns an error if the run recorded no training step or no validation.
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
        let (train, valid) = (last(TRAIN)?, last(VALID)?);
        Ok(Self {
            folder: folder.path().to_owned(),
            checkpoint: folder.checkpoint(),
            parameters: trained.model.num_params(),
            steps: train.step,
            tokens: train.step * settings.tokens_per_step(),
            training_loss: train.loss,
            validation_loss: valid.loss,
            best: trained.best,
            perplexity: valid.loss.exp(),
            load_balancing: valid
                .load_balancing_loss
                .and_then(|loss| LoadBalancing::new(settings, loss)),
            training_seconds: valid.seconds,
            seconds: elapsed.as_secs_f64(),
            throughput,
            dispatch,
            tuned: settings.kernels.is_tuning().then(tune::report),
            sample,
        })
    }

    /// Lays out the results for a place.
    pub fn page(&self, look: Look) -> Page {
        let mut page = Page::new(look);
        page.line("What ran");
        let file = escape_path(&self.folder.join(SUMMARY));
        let shown_by = format!("`dispatch` in {file} lists every site");
        page.page(&self.dispatch.page(look, Some(&shown_by)));
        if let Some(tuned) = &self.tuned {
            page.line("\nWhat was measured");
            page.page(&tuned.page(look));
        }
        page.line(format_args!("\nGenerated text\n{}", self.sample));
        page.line("");
        page.line(format_args!(
            "Trained {} parameters on {} tokens in {:.0} s ({:.0} s in total)",
            self.parameters, self.tokens, self.training_seconds, self.seconds
        ));
        page.line(format_args!(
            "Validation loss {:.4} nats per byte, perplexity {:.2}, of the saved model: that after step {}, the last",
            self.validation_loss, self.perplexity, self.steps
        ));
        if let Some(load_balancing) = self.load_balancing {
            page.line(load_balancing);
        }
        match &self.throughput {
            Some(throughput) => page.line(throughput),
            None => page.line("No speed to compare: the policy is `none`"),
        }
        page.line(format_args!(
            "Run folder {}; try: kernels run --model {} --inputs FILE --outputs FILE",
            escape_path(&self.folder),
            escape_path(&self.checkpoint)
        ));
        page
    }
}
