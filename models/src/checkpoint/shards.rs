//! The files of a checkpoint, with an index of their tensors.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path};

use kernels_io::{Limit, escape_path};
use serde_json::Value;

use super::file::{StoredTensor, TensorFile};
use super::{INDEX, SINGLE};
use crate::{ModelError, TensorProblem};

/// The opened files of a checkpoint. They hold every tensor of the index.
pub(super) struct Shards {
    files: Vec<TensorFile>,
    /// The index in `files` by tensor name.
    places: BTreeMap<String, usize>,
}

impl Shards {
    /// Opens `model.safetensors`, or all files that `model.safetensors.index.json` lists. Returns the first error.
    pub(super) fn open(dir: &Path) -> Result<Self, ModelError> {
        Self::open_all(dir).map_err(|mut errors| errors.swap_remove(0))
    }

    /// Opens the same files, and returns every error.
    pub(super) fn open_all(dir: &Path) -> Result<Self, Vec<ModelError>> {
        // Opening the path checks that it is a file.
        let exists = |name| dir.join(name).exists();
        if exists(SINGLE) {
            let file = TensorFile::open(&dir.join(SINGLE));
            return file.map(Self::of).map_err(|error| vec![error]);
        }
        if exists(INDEX) {
            return Self::open_index(dir, &dir.join(INDEX));
        }
        let hint = if exists("pytorch_model.bin") || exists("pytorch_model.bin.index.json") {
            "; pytorch_model.bin is not read, convert it to safetensors"
        } else {
            ""
        };
        let problem = format!("holds neither {SINGLE} nor {INDEX}{hint}");
        Err(vec![ModelError::Layout {
            dir: dir.into(),
            problem,
        }])
    }

    /// Returns the only file of a checkpoint.
    pub(super) fn of(file: TensorFile) -> Self {
        Self {
            places: file.names().map(|name| (name.to_owned(), 0)).collect(),
            files: vec![file],
        }
    }

    fn open_index(dir: &Path, index: &Path) -> Result<Self, Vec<ModelError>> {
        let weight_map = read_weight_map(index).map_err(|error| vec![error])?;
        let names: BTreeSet<&str> = weight_map.values().map(String::as_str).collect();
        let (mut files, mut errors) = (Vec::new(), Vec::new());
        for name in &names {
            match TensorFile::open(&dir.join(name)) {
                Ok(file) => files.push(file),
                Err(error) => errors.push(error),
            }
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        let by_name: BTreeMap<&str, usize> = names.into_iter().zip(0..).collect();
        let places: BTreeMap<String, usize> = weight_map
            .iter()
            .map(|(name, file)| (name.clone(), by_name[file.as_str()]))
            .collect();
        let problems = contradictions(index, &files, &places);
        if !problems.is_empty() {
            return Err(vec![ModelError::Tensors {
                dir: dir.into(),
                problems,
            }]);
        }
        Ok(Self { files, places })
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.places.keys().map(String::as_str)
    }

    pub(super) fn files(&self) -> &[TensorFile] {
        &self.files
    }

    /// Returns a tensor's file and description.
    pub(super) fn find(&self, name: &str) -> Option<(&TensorFile, &StoredTensor)> {
        let file = &self.files[*self.places.get(name)?];
        Some((file, file.info(name)?))
    }

    /// Returns every file that has tensors, with the name of one of them.
    #[cfg(feature = "remote")]
    pub(super) fn samples(&self) -> Vec<(&Path, &str)> {
        let mut samples: Vec<Option<&str>> = vec![None; self.files.len()];
        for (name, file) in &self.places {
            samples[*file].get_or_insert(name);
        }
        let files = self.files.iter().zip(samples);
        files
            .filter_map(|(file, name)| Some((file.path(), name?)))
            .collect()
    }

    /// Returns the file that an error about a missing tensor names: the only one, or the index.
    pub(super) fn whole(&self, dir: &Path) -> std::path::PathBuf {
        match self.files.as_slice() {
            [only] => only.path().into(),
            _ => dir.join(INDEX),
        }
    }
}

/// Reads the map from tensor names to file names.
fn read_weight_map(index: &Path) -> Result<BTreeMap<String, String>, ModelError> {
    // The largest models have a few hundred thousand tensors.
    const LIMIT: Limit = Limit::mib("an index", 64);
    let text = kernels_io::read_text(index, LIMIT)?;
    let root: Value = serde_json::from_str(&text).map_err(|source| ModelError::Json {
        file: index.into(),
        source,
    })?;
    let fail = |field: String, problem: &str| Err(ModelError::field(index, field, problem));
    let Some(map) = root.get("weight_map").and_then(Value::as_object) else {
        return fail(
            "weight_map".into(),
            "expected an object from tensor names to file names",
        );
    };
    let mut weight_map = BTreeMap::new();
    for (name, file) in map {
        let field = format!("weight_map.{name}");
        let Some(file) = file.as_str() else {
            return fail(field, "expected a file name");
        };
        if !is_plain_name(file) {
            let problem = format!("`{file}` is not the plain name of a file in the same directory");
            return fail(field, &problem);
        }
        weight_map.insert(name.clone(), file.to_owned());
    }
    Ok(weight_map)
}

/// Returns `true` for the plain name of a file. An index comes from outside and must not open files elsewhere.
fn is_plain_name(file: &str) -> bool {
    let mut components = Path::new(file).components();
    let first_is_name = matches!(components.next(), Some(Component::Normal(_)));
    first_is_name && components.next().is_none() && !file.contains(['/', '\\'])
}

/// Returns the tensors that the index places in a file without them, and those that it does not list.
fn contradictions(
    index: &Path,
    files: &[TensorFile],
    places: &BTreeMap<String, usize>,
) -> Vec<TensorProblem> {
    let absent = places
        .iter()
        .filter(|&(name, &at)| files[at].info(name).is_none())
        .map(|(name, &at)| TensorProblem {
            file: files[at].path().into(),
            tensor: name.clone(),
            problem: format!(
                "missing, though {} says that it is here",
                escape_path(index)
            ),
        });
    let unlisted = files.iter().enumerate().flat_map(|(at, file)| {
        let names = file
            .names()
            .filter(move |&name| places.get(name) != Some(&at));
        names.map(|name| TensorProblem {
            file: file.path().into(),
            problem: format!("{} does not say that it is here", escape_path(index)),
            tensor: name.to_owned(),
        })
    });
    absent.chain(unlisted).collect()
}
