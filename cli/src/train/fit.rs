//! The training run: a new one, or one that goes on.

use super::data::{Batches, Splits};
use super::settings::Settings;
use crate::loading;
use crate::training::folder::RunFolder;
use crate::training::metrics::{Point, Recorder};
use crate::training::optimiser::Optimiser;
use crate::training::ranks::Ranks;
use crate::training::replicas::Replicas;
use crate::training::session::Session;
use crate::training::state::{Best, States, Trainee};
use burn::module::Module;
use kernels_models::CausalLm;
use std::path::Path;

/// A trained model and the record of its training.
pub struct Trained {
    /// The model, without autodiff.
    pub model: CausalLm,
    /// All training steps and validations, in order. The last is a validation.
    pub points: Vec<Point>,
    /// The validation with the lowest loss.
    pub best: Option<Best>,
}

/// Trains a model, from the newest of `states` on if there is one. Without a folder, nothing is written.
///
/// # Errors
/// Returns an error if a state can't be read, if the loss is not a finite number, if the metrics can't be written, or
/// if the device fails. Returns [`Interrupted`](crate::training::session::Interrupted) after a signal.
pub fn fit(
    settings: &Settings,
    splits: &Splits,
    (folder, states): (Option<&RunFolder>, &States),
    ranks: &Ranks,
    quiet: bool,
) -> anyhow::Result<Trained> {
    let path = folder.map_or(Path::new("."), RunFolder::path);
    let plan = settings.plan(ranks.clone(), settings.devices.open()?, path);
    let first = Trainee {
        model: loading::random(&settings.model, settings.seed, plan.device()),
        optimiser: Optimiser::new(settings.optimiser),
    };
    let new = Replicas::new(first, settings.optimiser, &plan)?;
    let (replicas, progress, points) = new.begun(states, &plan)?;
    let recorder = match folder {
        Some(folder) => Recorder::create(&folder.metrics(), points, plan.saving.tensorboard)?,
        None => Recorder::in_memory(points),
    };
    let batches = Batches { splits, settings };
    let session = Session::new(
        &plan,
        &batches,
        states,
        (replicas, progress),
        recorder,
        quiet,
    )?;
    let trained = session.run()?;
    Ok(Trained {
        points: trained.points,
        best: trained.progress.best,
        model: trained.trainee.model.valid(),
    })
}
