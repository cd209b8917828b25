//! Finding and opening the files of a checkpoint.

use std::path::{Path, PathBuf};

use super::gguf;
use super::shards::Shards;
use super::{CONFIG, INDEX, SINGLE};
use crate::config::{OmniPart, SpeechConfig};
use crate::{ModelConfig, ModelError};

/// An opened checkpoint, whose tensors have not been compared with its configuration.
pub(super) struct Checkpoint {
    /// The directory or the file, which errors name.
    pub(super) path: PathBuf,
    pub(super) config: ModelConfig,
    pub(super) shards: Shards,
}

impl Checkpoint {
    /// Opens a directory in Hugging Face layout, a GGUF file, or a directory that holds one. If a checkpoint
    /// holds several models, opens the usual one.
    pub(super) fn open(path: &Path) -> Result<Self, ModelError> {
        Self::open_part(path, None)
    }

    /// Opens a part of a directory in Hugging Face layout that holds several models, or any other checkpoint without a part.
    pub(super) fn open_part(path: &Path, part: Option<OmniPart>) -> Result<Self, ModelError> {
        if let Some(file) = gguf_file(path)? {
            refuse_part(&file, part)?;
            let (config, file) = gguf::open(&file)?;
            return Ok(Self {
                path: file.path().into(),
                config,
                shards: Shards::of(file),
            });
        }
        let file = path.join(CONFIG);
        let fields = ModelConfig::read_fields(&file)?;
        let (config, outer) = ModelConfig::of_part(&fields, &file, part)?;
        let quantisation = config.quantisation(&fields, &file)?;
        let shards = part_of(Shards::open(path)?, &config, outer, path)?;
        Ok(Self {
            path: path.into(),
            config,
            shards: shards.quantised(quantisation),
        })
    }
}

/// Returns the tensors of a model among those of a directory: all, or those whose names begin with `outer`.
///
/// # Errors
/// Returns an error if the tensors are those of a part and the configuration is not, and the other way around.
pub(super) fn part_of(
    shards: Shards,
    config: &ModelConfig,
    outer: &'static str,
    dir: &Path,
) -> Result<Shards, ModelError> {
    let is_whole = |start: &str| shards.names().any(|name| name.starts_with(start));
    let mut places = config.places_in_wholes();
    if let Some(place) = places.find(|place| outer.is_empty() && is_whole(place.tensors)) {
        let problem = format!(
            "holds tensors `{}…` of a whole checkpoint, though {CONFIG} is that of its {} alone; use the {CONFIG} of the \
             whole",
            place.tensors,
            place.part.name()
        );
        return Err(ModelError::Layout {
            dir: dir.into(),
            problem,
        });
    }
    shards.of_part(outer, config.has_model_prefix(), dir)
}

/// Refuses a part of a GGUF file, which holds one model.
fn refuse_part(file: &Path, part: Option<OmniPart>) -> Result<(), ModelError> {
    let Some(part) = part else {
        return Ok(());
    };
    let problem = format!(
        "a GGUF file holds one model; leave out the part `{}`",
        part.name()
    );
    Err(ModelError::Layout {
        dir: file.into(),
        problem,
    })
}

impl ModelConfig {
    /// Reads the configuration of a checkpoint as [`load`](crate::load) does: of a directory in Hugging Face layout, a GGUF
    /// file, or a directory that holds one.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`load`](crate::load) but those of weights.
    pub fn of_checkpoint(path: &Path) -> Result<Self, ModelError> {
        let config = Self::of_checkpoint_part(path, None)?;
        config.require_language_model(path)?;
        Ok(config)
    }

    /// Reads the configuration of a checkpoint as [`load_part`](crate::load_part) does.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`load_part`](crate::load_part) but those of weights.
    pub fn of_checkpoint_part(path: &Path, part: Option<OmniPart>) -> Result<Self, ModelError> {
        if let Some(file) = gguf::find(path)? {
            refuse_part(file.path(), part)?;
            return gguf::configuration(&file).map(|(_, config)| config);
        }
        let file = path.join(CONFIG);
        Self::of_part(&Self::read_fields(&file)?, &file, part).map(|(config, _)| config)
    }

    /// Refuses a part that is not a language model.
    pub(super) fn require_language_model(&self, path: &Path) -> Result<(), ModelError> {
        if self.is_language_model() {
            return Ok(());
        }
        let problem = format!(
            "{} is not a language model; `kernels run` runs it on its own inputs",
            self.architecture
        );
        Err(ModelError::field(
            path.join(CONFIG),
            "architectures",
            problem,
        ))
    }

    /// Returns `true` if names of parameters begin with `model.`, as in all models but the transformer of a vocoder.
    fn has_model_prefix(&self) -> bool {
        !matches!(self.speech, Some(SpeechConfig::Code2Wav { .. }))
    }
}

/// Returns the GGUF file that a path means: itself, or the only one in a directory without safetensors files.
pub(super) fn gguf_file(path: &Path) -> Result<Option<PathBuf>, ModelError> {
    if !path.is_dir() {
        return Ok(path.exists().then(|| path.into()));
    }
    let holds = |name: &&str| kernels_io::is_there(&path.join(name));
    if [SINGLE, INDEX].iter().any(holds) {
        return Ok(None);
    }
    let failed = |source| ModelError::io(path, "list", source);
    let mut found = Vec::new();
    for entry in path.read_dir().map_err(failed)? {
        let file = entry.map_err(failed)?.path();
        if file.extension().is_some_and(|end| end == "gguf") {
            found.push(file);
        }
    }
    found.sort();
    match found.as_slice() {
        [] => Ok(None),
        [only] => Ok(Some(only.clone())),
        several => {
            let names = several.iter().filter_map(|file| file.file_name());
            let names: Vec<_> = names.map(|name| name.to_string_lossy()).collect();
            let problem = format!(
                "holds several GGUF files; name one of them: {}",
                kernels_io::escape(&names.join(", "))
            );
            Err(ModelError::Layout {
                dir: path.into(),
                problem,
            })
        }
    }
}
