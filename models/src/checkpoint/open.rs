//! Finding and opening the files of a checkpoint.

use std::path::{Path, PathBuf};

use super::gguf;
use super::shards::Shards;
use super::{CONFIG, INDEX, SINGLE};
use crate::{ModelConfig, ModelError};

/// An opened checkpoint, whose tensors have not been compared with its configuration.
pub(super) struct Checkpoint {
    /// The directory or the file, which errors name.
    pub(super) path: PathBuf,
    pub(super) config: ModelConfig,
    pub(super) shards: Shards,
}

impl Checkpoint {
    /// Opens a directory in Hugging Face layout, a GGUF file, or a directory that holds one.
    pub(super) fn open(path: &Path) -> Result<Self, ModelError> {
        if let Some(file) = gguf_file(path)? {
            let (config, file) = gguf::open(&file)?;
            return Ok(Self {
                path: file.path().into(),
                config,
                shards: Shards::of(file),
            });
        }
        let file = path.join(CONFIG);
        let fields = ModelConfig::read_fields(&file)?;
        let config = ModelConfig::from_fields(&fields, &file)?;
        let quantisation = config.quantisation(&fields, &file)?;
        Ok(Self {
            path: path.into(),
            config,
            shards: Shards::open(path)?.quantised(quantisation),
        })
    }
}

impl ModelConfig {
    /// Reads the configuration of a checkpoint as [`load`](crate::load) does: of a directory in Hugging Face layout, a GGUF
    /// file, or a directory that holds one.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`load`](crate::load) but those of weights.
    pub fn of_checkpoint(path: &Path) -> Result<Self, ModelError> {
        match gguf::find(path)? {
            Some(file) => gguf::configuration(&file).map(|(_, config)| config),
            None => Self::from_file(&path.join(CONFIG)),
        }
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
