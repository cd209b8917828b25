//! The training run, with burn-train's `SupervisedTraining`.

use super::balance::LoadBalancingMetric;
use super::data::{ByteBatcher, Splits, Windows};
use super::folder::RunFolder;
use super::metrics::{Point, Recorder, TokenCounts};
use super::optimiser;
use super::progress::Progress;
use super::schedule;
use super::settings::Settings;
use super::step::{Batch, Trainee};
use anyhow::{Context, anyhow};
use burn::data::dataloader::{DataLoader, DataLoaderBuilder};
use burn::data::dataset::Dataset;
use burn::data::dataset::transform::{SamplerDataset, SamplerDatasetOptions};
use burn::module::Module;
use burn::tensor::Device;
use burn::train::metric::{LearningRateMetric, LossMetric};
use burn::train::{Interrupter, Learner, SupervisedTraining};
use kernels_models::CausalLm;
use std::sync::Arc;

/// A trained model and the record of its training.
pub struct Trained {
    /// The model, without autodiff.
    pub model: CausalLm,
    /// All training steps and validations, in order. The last is a validation.
    pub points: Vec<Point>,
}

/// Trains a model.
///
/// burn-train writes no files of its own into the run folder: its metrics go to [`Recorder`], its progress to
/// [`Progress`], its log to the program's log, and its checkpoints (in Burn's format) are off.
///
/// # Errors
/// Returns an error if the loss is not a finite number, the metrics can't be written, or the device fails.
pub fn fit(
    settings: &Settings,
    splits: &Splits,
    folder: &RunFolder,
    quiet: bool,
) -> anyhow::Result<Trained> {
    let device = settings.device.device()?.autodiff();
    device.seed(settings.seed);
    let model = Trainee {
        model: initial(settings, &device),
        dtype: settings.dtype.float_dtype(),
    };
    let learner = Learner::new(model, optimiser::adamw(), schedule::schedule(settings)?);

    let interrupter = Interrupter::new();
    let tokens = TokenCounts {
        step: settings.tokens_per_step(),
        validation: splits.valid.len() * settings.seq,
    };
    let (recorder, history) = Recorder::create(&folder.metrics(), tokens, interrupter.clone())?;
    let training = SupervisedTraining::new(
        folder.path(),
        training_batches(settings, &splits.train),
        validation_batches(settings, &splits.valid),
    )
    .metric_train_numeric(LossMetric::new())
    .metric_train_numeric(LearningRateMetric::new())
    .metric_valid_numeric(LossMetric::new())
    .with_metric_logger(recorder)
    .with_application_logger(None)
    .with_interrupter(interrupter)
    .renderer(Box::new(Progress::new(settings, quiet)))
    .num_epochs(settings.validations());
    let training = if settings.model.moe.is_some() {
        training
            .metric_train_numeric(LoadBalancingMetric::default())
            .metric_valid_numeric(LoadBalancingMetric::default())
    } else {
        training
    };
    let result = training.launch(learner);

    if let Some(error) = result.error {
        return Err(anyhow!("{error}")).context("training failed");
    }
    Ok(Trained {
        points: history.take()?,
        model: result.model.model,
    })
}

/// Returns the initial model. Its parameters are drawn on the CPU, so that a seed gives the same model on every device.
fn initial(settings: &Settings, device: &Device) -> CausalLm {
    let here = Device::flex().autodiff();
    here.seed(settings.seed);
    let model = settings.model.init(&here);
    // Parameters are drawn when they are first read.
    model.named_parameters();
    model.fork(device)
}

/// Returns random sequences, drawn with replacement: as many as the steps up to the next validation take.
pub fn training_batches(settings: &Settings, windows: &Windows) -> Arc<dyn DataLoader<Batch>> {
    let sequences = settings.steps_per_validation * settings.batch;
    let options = SamplerDatasetOptions::default()
        .with_replacement()
        .with_fixed_size(sequences)
        .with_seed(settings.seed);
    DataLoaderBuilder::new(ByteBatcher)
        .batch_size(settings.batch)
        .build(SamplerDataset::new(windows.clone(), options))
}

/// Returns all held-out sequences in order.
fn validation_batches(settings: &Settings, windows: &Windows) -> Arc<dyn DataLoader<Batch>> {
    DataLoaderBuilder::new(ByteBatcher)
        .batch_size(settings.batch)
        .build(windows.clone())
}
