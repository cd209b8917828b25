//! The training run: a new one, or one that goes on.

use super::data::{Batches, Splits};
use super::settings::Settings;
use crate::training::folder::RunFolder;
use crate::training::metrics::{Point, Recorder};
use crate::training::optimiser::Optimiser;
use crate::training::plan::Plan;
use crate::training::replicas::Replicas;
use crate::training::session::Session;
use crate::training::state::{Best, Progress, Saved, States, Trainee};
use crate::{loading, output};
use burn::module::Module;
use kernels_models::CausalLm;

/// A trained model and the record of its training.
pub struct Trained {
    /// The model, without autodiff.
    pub model: CausalLm,
    /// All training steps and validations, in order. The last is a validation.
    pub points: Vec<Point>,
    /// The validation with the lowest loss.
    pub best: Option<Best>,
}

/// Trains a model, from the newest of `states` on if there is one.
///
/// # Errors
/// Returns an error if a state can't be read, if the loss is not a finite number, if the metrics can't be written, or
/// if the device fails. Returns [`Interrupted`](crate::training::session::Interrupted) after a signal.
pub fn fit(
    settings: &Settings,
    splits: &Splits,
    folder: &RunFolder,
    states: &States,
    quiet: bool,
) -> anyhow::Result<Trained> {
    let plan = settings.plan(settings.devices.open()?, folder.path());
    let first = Trainee {
        model: loading::random(&settings.model, settings.seed, plan.device()),
        optimiser: Optimiser::new(settings.optimiser),
    };
    let new = Replicas::new(first, settings.optimiser, &plan)?;
    let (replicas, progress, points) = match states.newest()? {
        Some(saved) => resumed(saved, new, &plan)?,
        None => (new, Progress::default(), Vec::new()),
    };
    let recorder = Recorder::create(&folder.metrics(), points, plan.saving.tensorboard)?;
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

fn resumed(
    saved: Saved,
    new: Replicas,
    plan: &Plan,
) -> anyhow::Result<(Replicas, Progress, Vec<Point>)> {
    let replicas = new.restored(&saved, plan)?;
    output::note(format_args!(
        "going on after step {} of {}",
        saved.progress.step, plan.steps
    ));
    Ok((replicas, saved.progress, saved.points))
}
