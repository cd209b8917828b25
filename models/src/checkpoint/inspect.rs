//! The contents of a checkpoint, and every reason why it would not load.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use burn::module::Param;
use burn::tensor::{Device, Tensor};
use serde_json::{Map, Value};

use super::check::check_tensors;
use super::file::TensorFile;
use super::open::{gguf_file, part_of};
use super::shards::Shards;
use super::{CONFIG, gguf, quantised};
use crate::parameters::{ParameterInfo, Visit, walk};
use crate::{ModelConfig, ModelError};

/// The start of the fields of a text model that is a part of another.
const TEXT: &str = "text_config.";

/// The contents of a checkpoint, and the reasons that keep it from being loaded; see [`inspect`].
#[derive(Debug)]
#[non_exhaustive]
pub struct Inspection {
    /// The files with tensors.
    pub files: Vec<PathBuf>,
    /// The configuration. `None` if it has an error that leaves the model unknown.
    pub config: Option<ModelConfig>,
    /// The number of elements of all parameters of the model, if the configuration is known. Those of a tied output
    /// projection count once.
    pub parameters: Option<u64>,
    /// The types of the stored tensors, by name.
    pub types: BTreeMap<String, StoredType>,
    /// The weights of the model that are stored in quantised form, by the name of the encoding.
    pub quantised: BTreeMap<String, StoredType>,
    /// The quantised weights that [`QuantisedWeights::Kept`](crate::QuantisedWeights::Kept) leaves as their bytes.
    /// Others become floats.
    pub kept: StoredType,
    /// The weights of the model in the files, by their layer, such as `model.layers.3`, or their module outside of layers.
    pub layers: Vec<(String, StoredType)>,
    /// Every reason why the checkpoint would not load, each a sentence that names the file.
    pub problems: Vec<String>,
    /// Remarks on settings that may not be meant. They don't keep the checkpoint from loading.
    pub remarks: Vec<String>,
}

/// The stored tensors of a type.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredType {
    /// The number of tensors.
    pub tensors: usize,
    /// The number of elements of all of them.
    pub elements: u64,
    /// The number of bytes of all of them.
    pub bytes: u64,
}

impl StoredType {
    /// Returns the number of bits of an element, with those of scales.
    pub fn bits(&self) -> f64 {
        8.0 * self.bytes as f64 / self.elements as f64
    }

    pub(super) fn add(&mut self, elements: u64, bytes: u64) {
        self.tensors += 1;
        self.elements += elements;
        self.bytes += bytes;
    }
}

impl Inspection {
    /// Returns the number of bytes of all tensors.
    pub fn bytes(&self) -> u64 {
        self.types.values().map(|own| own.bytes).sum()
    }
}

/// Looks at a checkpoint, a path as [`load`](crate::load) takes it, without reading its weights. Of quantised ones it checks
/// the scales and zeros, but not those inside of blocks.
///
/// A configuration with several errors is read again without each wrong field, so that every error is found, up to a field
/// that can't be left out. Tensors are compared with a configuration without errors only. `device` holds no weights.
///
/// # Errors
///
/// Returns an error if nothing is at the path, or a directory can't be listed. What is wrong with the checkpoint is part
/// of the result.
pub fn inspect(path: &Path, device: &Device) -> Result<Inspection, ModelError> {
    kernels_io::metadata(path)?;
    let mut found = Found::default();
    match gguf_file(path)? {
        Some(file) => found.gguf(&file),
        None => found.directory(path),
    }
    Ok(found.finish(path, device))
}

/// The findings so far.
#[derive(Default)]
struct Found {
    config: Option<ModelConfig>,
    shards: Option<Shards>,
    problems: Vec<String>,
}

impl Found {
    fn gguf(&mut self, path: &Path) {
        let opened = gguf::File::open(path);
        let Some(mut file) = self.kept(opened) else {
            return;
        };
        let made = attempts(
            &mut file,
            gguf::configuration,
            |key| key,
            gguf::File::forget,
            &mut self.problems,
        );
        let file = match &made {
            Some((dialect, config)) => gguf::in_layout(file, dialect, config),
            None => gguf::as_stored(file),
        };
        self.config = made.map(|(_, config)| config);
        self.shards = Some(Shards::of(file));
    }

    fn directory(&mut self, dir: &Path) {
        let path = dir.join(CONFIG);
        let (mut quantisation, mut outer) = (None, "");
        let read = ModelConfig::read_fields(&path);
        if let Some(mut fields) = self.kept(read) {
            let parse = |fields: &Map<String, Value>| ModelConfig::of_part(fields, &path, None);
            let made = attempts(&mut fields, parse, outermost, remove, &mut self.problems);
            self.config = made.map(|(config, tensors)| {
                outer = tensors;
                config
            });
            // It has no errors, or was removed.
            let config = self.config.as_ref();
            quantisation = config.and_then(|config| config.quantisation(&fields, &path).ok()?);
            if self.config.is_none() {
                let further = missing_sizes(&fields, &path, &self.problems);
                self.problems.extend(further);
            }
        }
        match Shards::open_all(dir) {
            Ok(shards) => {
                let part = match &self.config {
                    Some(config) => part_of(shards, config, outer, dir),
                    None => Ok(shards),
                };
                self.shards = self.kept(part).map(|own| own.quantised(quantisation));
            }
            Err(errors) => self.problems.extend(errors.iter().flat_map(sentences)),
        }
    }

    fn kept<T>(&mut self, result: Result<T, ModelError>) -> Option<T> {
        result
            .map_err(|error| self.problems.extend(sentences(&error)))
            .ok()
    }

    fn finish(mut self, path: &Path, device: &Device) -> Inspection {
        let (mut parameters, mut weights) = (None, quantised::Weights::default());
        let mut remarks = Vec::new();
        if let Some(config) = &self.config {
            let model = config.build(device);
            let mut count = Count(0);
            walk(&model, &mut count);
            parameters = Some(count.0);
            if let Some(shards) = &self.shards {
                weights = quantised::weights(shards, &model);
            }
            let compared = match &self.shards {
                Some(shards) if self.problems.is_empty() => {
                    check_tensors(path, config, shards, &model)
                }
                Some(_) => Ok(vec![
                    "tensors are not compared with a configuration that has errors".to_owned(),
                ]),
                None => Ok(Vec::new()),
            };
            match compared {
                Ok(own) => remarks.extend(own),
                Err(error) => {
                    self.problems.extend(sentences(&error));
                    remarks.extend(self.shards.iter().flat_map(Shards::remarks).cloned());
                }
            }
            remarks.extend(config.misspelt().map(|(name, meant)| {
                let name = kernels_io::escape(name);
                format!("field `{name}` is not read; is `{meant}` meant?")
            }));
        }
        let files = self.shards.as_ref().map_or(&[][..], Shards::files);
        Inspection {
            files: files.iter().map(|file| file.path().into()).collect(),
            types: types(files),
            config: self.config,
            parameters,
            quantised: weights.encodings,
            kept: weights.kept,
            layers: weights.layers,
            problems: self.problems,
            remarks,
        }
    }
}

/// Returns the result of `attempt` on `state`. Each field that is wrong is recorded and removed, and the attempt
/// repeated.
fn attempts<S, T>(
    state: &mut S,
    attempt: impl Fn(&S) -> Result<T, ModelError>,
    outermost: impl Fn(&str) -> &str,
    remove: impl Fn(&mut S, &str) -> bool,
    problems: &mut Vec<String>,
) -> Option<T> {
    let mut removed = BTreeSet::new();
    loop {
        let error = match attempt(state) {
            Ok(made) => return Some(made),
            Err(error) => error,
        };
        let ModelError::Field { field, .. } = &error else {
            problems.extend(sentences(&error));
            return None;
        };
        // A removed field is missing now, which is not the file's fault.
        if !removed.contains(outermost(field)) {
            problems.extend(sentences(&error));
        }
        if !remove(state, field) {
            return None;
        }
        removed.insert(outermost(field).to_owned());
    }
}

/// Returns the outermost field of a wrong one that can be left out without it, because the settings of a scaling, for
/// example, make no sense without each other.
fn outermost(field: &str) -> &str {
    let text = field.strip_prefix(TEXT).map_or(0, |_| TEXT.len());
    let end = field[text..].find('.');
    end.map_or(field, |end| &field[..text + end])
}

/// Removes a field. Returns `false` if it does not exist.
fn remove(fields: &mut Map<String, Value>, field: &str) -> bool {
    let field = outermost(field);
    let Some(inner) = field.strip_prefix(TEXT) else {
        return fields.remove(field).is_some();
    };
    let text = fields.get_mut("text_config").and_then(Value::as_object_mut);
    text.is_some_and(|text| text.remove(inner).is_some())
}

/// Returns a problem for each further size that the file must name and does not, if it lacks one.
fn missing_sizes(fields: &Map<String, Value>, path: &Path, problems: &[String]) -> Vec<String> {
    const SIZES: [&str; 6] = [
        "vocab_size",
        "hidden_size",
        "intermediate_size",
        "num_hidden_layers",
        "num_attention_heads",
        "max_position_embeddings",
    ];
    let (prefix, fields) = match fields.get("text_config").and_then(Value::as_object) {
        Some(text) => ("text_config.", text),
        None => ("", fields),
    };
    let is_named = |size: &&str| {
        let field = format!("field `{prefix}{size}`");
        problems.iter().any(|problem| problem.contains(&field))
    };
    if !SIZES.iter().any(is_named) {
        return Vec::new();
    }
    let further = SIZES
        .into_iter()
        .filter(|size| !fields.contains_key(*size) && !is_named(size));
    let sentence = |size| ModelError::field(path, format!("{prefix}{size}"), "missing").to_string();
    further.map(sentence).collect()
}

/// Returns the sentences of an error: one for each tensor, and otherwise one.
fn sentences(error: &ModelError) -> Vec<String> {
    match error {
        ModelError::Tensors { problems, .. } => problems.iter().map(ToString::to_string).collect(),
        other => vec![other.to_string()],
    }
}

fn types(files: &[TensorFile]) -> BTreeMap<String, StoredType> {
    let mut types: BTreeMap<String, StoredType> = BTreeMap::new();
    for tensor in files.iter().flat_map(TensorFile::tensors) {
        let own = types.entry(tensor.storage.to_string()).or_default();
        let elements = tensor.shape.iter().map(|&size| size as u64).product();
        own.add(elements, tensor.bytes as u64);
    }
    types
}

/// The number of elements of all parameters.
struct Count(u64);

impl Visit for Count {
    fn visit<const D: usize>(&mut self, _: &ParameterInfo, param: &Param<Tensor<D>>) {
        let shape = param.lazy_shape();
        self.0 += shape
            .as_slice()
            .iter()
            .map(|&size| size as u64)
            .product::<u64>();
    }
}
