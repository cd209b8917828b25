//! Loading of vision towers, in whole models and alone.

use std::path::Path;

use burn::tensor::{Device, FloatDType};

use super::CONFIG;
use super::check::check_part;
use super::load::{QuantisedWeights, check_dtype, open, read, read_floats};
use super::open::Checkpoint;
use super::progress::Progress;
use super::shards::Shards;
use crate::model::vision::VisionPart;
use crate::parameters::layout::in_whole_model;
use crate::{CausalLm, ModelConfig, ModelError, VisionConfig, VisionTower};

/// Reads a model with its vision tower as [`load_as`](crate::load_as) reads its text model alone.
/// [`Batch::with_pictures`](crate::Batch::with_pictures) adds pictures to its tokens, and [`save`](crate::save) writes the
/// tower, too.
///
/// # Errors
///
/// Returns an error as [`load`](crate::load) does, if the family has no vision tower that can be read, and for an invalid
/// `vision_config`.
pub fn load_with_vision(
    path: &Path,
    device: &Device,
    dtype: FloatDType,
    quantised: QuantisedWeights,
    progress: &mut dyn FnMut(Progress),
) -> Result<(ModelConfig, CausalLm), ModelError> {
    let checkpoint = open(path, None, device, dtype)?;
    if checkpoint.path.is_file() {
        return Err(ModelError::Layout {
            dir: checkpoint.path,
            problem: "a GGUF file holds no vision tower that can be read; name the model's folder"
                .into(),
        });
    }
    let vision = checkpoint.config.vision_config(&path.join(CONFIG))?;
    let new = |config: &ModelConfig, device: &Device| {
        config.init(device).with_vision(vision.init(device))
    };
    read(checkpoint, new, device, dtype, quantised, progress)
}

/// Reads a vision tower: one that was saved alone, or that of a model. Weights become floats of `dtype`.
///
/// # Errors
///
/// Returns an error as [`load`](crate::load) does, if there is no vision tower that can be read, and for an invalid
/// configuration of it.
pub fn load_vision_tower(
    path: &Path,
    device: &Device,
    dtype: FloatDType,
) -> Result<VisionTower, ModelError> {
    check_dtype(device, dtype)?;
    let file = path.join(CONFIG);
    let fields = ModelConfig::read_fields(&file)?;
    if let Some(config) = VisionConfig::of_tower(&fields, &file)? {
        let shards = Shards::open(path)?;
        let tower = config.init(device);
        check_part(path, &shards, &tower, "")?;
        return read_floats(tower, &shards, device, dtype);
    }
    let Checkpoint { config, shards, .. } = Checkpoint::open(path)?;
    let visual = config.vision_config(&file)?.init(device);
    let part = VisionPart { visual };
    let prefix = in_whole_model(config.architecture, "visual.");
    check_part(path, &shards, &part, &prefix)?;
    Ok(read_floats(part, &shards, device, dtype)?.visual)
}

/// Returns `true` for the folder of a vision tower that was saved alone; see [`load_vision_tower`].
///
/// # Errors
///
/// Returns an error if `config.json` can't be read, and for the configuration of such a tower that is invalid.
pub fn is_vision_tower(path: &Path) -> Result<bool, ModelError> {
    let file = path.join(CONFIG);
    if !kernels_io::is_there(&file) {
        return Ok(false);
    }
    let fields = ModelConfig::read_fields(&file)?;
    Ok(VisionConfig::of_tower(&fields, &file)?.is_some())
}
