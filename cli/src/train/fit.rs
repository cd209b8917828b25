//! The training run: a new one, or one that goes on.

use super::data::{Batches, Splits};
use super::settings::Settings;
use crate::loading;
use crate::training::fit;
use crate::training::folder::RunFolder;
use crate::training::metrics::Point;
use crate::training::ranks::Ranks;
use crate::training::state::{Best, States};
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
    let model = loading::random(&settings.model, settings.seed, plan.device());
    let batches = Batches { splits, settings };
    let model = (model, settings.optimiser);
    let trained = fit::fit(&plan, &batches, (folder, states), model, quiet)?;
    Ok(Trained {
        points: trained.points,
        best: trained.progress.best,
        model: trained.trainee.model.valid(),
    })
}
