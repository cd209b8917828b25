//! The training of a new run, or of one that goes on.

use super::batch::Source;
use super::folder::RunFolder;
use super::metrics::Recorder;
use super::optimiser::{AdamW, Optimiser};
use super::plan::Plan;
use super::replicas::Replicas;
use super::session::{Session, Trained};
use super::state::{States, Trainee};
use kernels_models::CausalLm;

/// Trains a model, from the newest of `states` on if there is one. Without a folder, nothing is written.
///
/// # Errors
/// Returns an error if a state can't be read, if the loss is not a finite number, if the metrics can't be written, or
/// if the device fails. Returns [`Interrupted`](super::session::Interrupted) after a signal.
pub fn fit(
    plan: &Plan,
    source: &dyn Source,
    (folder, states): (Option<&RunFolder>, &States),
    (model, settings): (CausalLm, AdamW),
    quiet: bool,
) -> anyhow::Result<Trained> {
    let first = Trainee {
        model,
        optimiser: Optimiser::new(settings),
    };
    let new = Replicas::new(first, settings, plan)?;
    let (replicas, progress, points) = new.begun(states, plan)?;
    let recorder = match folder {
        Some(folder) => Recorder::create(&folder.metrics(), points, plan.saving.tensorboard)?,
        None => Recorder::in_memory(points),
    };
    let session = Session::new(plan, source, states, (replicas, progress), recorder, quiet)?;
    session.run()
}
