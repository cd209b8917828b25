//! Saving a model to a directory.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use burn::module::Module;
use burn::tensor::Tensor;
use kernels_io::{Staging, write_new};
use safetensors::Dtype;
use safetensors::tensor::{Metadata, TensorInfo};
use serde_json::json;

use super::{CONFIG, INDEX, SINGLE};
use crate::config::StoredDtype;
use crate::parameters::ParameterVisitor;
use crate::parameters::layout::ExpertStorage;
use crate::{CausalLm, ModelConfig, ModelError};

/// Writes `model` to the directory `dir` in Hugging Face layout: `config.json` and `model.safetensors`. If the tensors
/// take more than `shard_bytes`, it writes `model.safetensors.index.json` and several files, each of at most that many
/// bytes or with one larger tensor.
///
/// Parameters are stored in their own dtype. The experts of a layer are stored one by one; [`save_with`] can stack
/// them. Adapters are merged into the weights.
///
/// The directory appears complete or not at all: it is written next to its target, flushed to disk and renamed. What a
/// killed process left of an earlier save to `dir` is removed and logged.
///
/// # Errors
///
/// Returns [`ModelError::Layout`] if `dir` exists and is not an empty directory; nothing is overwritten. Returns
/// [`ModelError::Dtype`] for parameters of a dtype that checkpoints can't store, and [`ModelError::Io`] if the system
/// fails.
pub fn save(
    model: &CausalLm,
    config: &ModelConfig,
    dir: &Path,
    shard_bytes: Option<u64>,
) -> Result<(), ModelError> {
    save_with(model, config, dir, shard_bytes, ExpertStorage::default())
}

/// Writes a model as [`save`] does, with the experts of a layer stored as `experts` says.
///
/// # Errors
///
/// Returns an error as [`save`] does.
pub fn save_with(
    model: &CausalLm,
    config: &ModelConfig,
    dir: &Path,
    shard_bytes: Option<u64>,
    experts: ExpertStorage,
) -> Result<(), ModelError> {
    refuse_occupied(dir)?;
    let staging = Staging::beside(dir)?;
    write(model, config, staging.path(), shard_bytes, experts)?;
    Ok(staging.publish()?)
}

/// Writes the files of [`save`] to an empty folder, for a caller that adds others before the folder gets its name.
///
/// # Errors
///
/// Returns an error as [`save`] does. Files can be left in the folder then.
pub fn save_into(
    model: &CausalLm,
    config: &ModelConfig,
    dir: &Path,
    shard_bytes: Option<u64>,
) -> Result<(), ModelError> {
    refuse_occupied(dir)?;
    write(model, config, dir, shard_bytes, ExpertStorage::default())
}

fn write(
    model: &CausalLm,
    config: &ModelConfig,
    dir: &Path,
    shard_bytes: Option<u64>,
    experts: ExpertStorage,
) -> Result<(), ModelError> {
    let model = model.clone().materialize();
    let plan = Plan::new(&model, shard_bytes, experts)?;
    let mut config = config.clone();
    config.dtype = plan.dtype();
    write_new(&dir.join(CONFIG), config.to_json().as_bytes())?;
    plan.write(&model, dir)
}

pub(crate) fn refuse_occupied(dir: &Path) -> Result<(), ModelError> {
    match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(ModelError::io(dir, "list", error)),
        Ok(mut entries) => match entries.next() {
            None => Ok(()),
            Some(_) => {
                let problem = "is not empty; choose another directory, or remove it first".into();
                Err(ModelError::Layout {
                    dir: dir.into(),
                    problem,
                })
            }
        },
    }
}

/// The place of one tensor in the files.
struct Entry {
    name: String,
    info: TensorInfo,
    shard: usize,
}

/// The assignment of tensors to files. Within a file, tensors are in the model's order.
struct Plan {
    experts: ExpertStorage,
    entries: Vec<Entry>,
    /// The number of tensor bytes in each file.
    shards: Vec<usize>,
}

impl Plan {
    fn new(
        model: &CausalLm,
        shard_bytes: Option<u64>,
        experts: ExpertStorage,
    ) -> Result<Self, ModelError> {
        let limit = shard_bytes.map_or(usize::MAX, |bytes| {
            usize::try_from(bytes).unwrap_or(usize::MAX)
        });
        let mut planner = Planner {
            limit,
            plan: Plan {
                experts,
                entries: Vec::new(),
                shards: vec![0],
            },
            failure: None,
        };
        model.visit_tensors(experts, &mut planner);
        match planner.failure {
            Some(error) => Err(error),
            None => Ok(planner.plan),
        }
    }

    /// Returns the dtype for `config.json`: that of the first parameter, which is the embedding.
    fn dtype(&self) -> Option<StoredDtype> {
        match self.entries.first()?.info.dtype {
            Dtype::F16 => Some(StoredDtype::F16),
            Dtype::BF16 => Some(StoredDtype::BF16),
            Dtype::F32 => Some(StoredDtype::F32),
            Dtype::F64 => Some(StoredDtype::F64),
            _ => None,
        }
    }

    fn file_name(&self, shard: usize) -> String {
        match self.shards.len() {
            1 => SINGLE.into(),
            count => format!("model-{:05}-of-{count:05}.safetensors", shard + 1),
        }
    }

    fn write(&self, model: &CausalLm, dir: &Path) -> Result<(), ModelError> {
        let mut files = Vec::new();
        for shard in 0..self.shards.len() {
            files.push(OpenShard::create(
                dir.join(self.file_name(shard)),
                self.header(shard)?,
            )?);
        }
        let mut writer = Writer {
            entries: self.entries.iter(),
            files: &mut files,
            failure: None,
        };
        model.visit_tensors(self.experts, &mut writer);
        if let Some(error) = writer.failure {
            return Err(error);
        }
        for file in files {
            file.finish()?;
        }
        if self.shards.len() > 1 {
            write_new(&dir.join(INDEX), self.index().as_bytes())?;
        }
        Ok(())
    }

    /// Returns the start of a file: the header's length and the header, padded so that tensors are aligned.
    fn header(&self, shard: usize) -> Result<Vec<u8>, ModelError> {
        let tensors = self.entries.iter().filter(|entry| entry.shard == shard);
        let tensors = tensors
            .map(|entry| (entry.name.clone(), entry.info.clone()))
            .collect();
        let format = HashMap::from([("format".to_owned(), "pt".to_owned())]);
        let invalid = |problem: String| ModelError::Safetensors {
            file: PathBuf::from(self.file_name(shard)),
            problem,
        };
        let metadata = Metadata::new(Some(format), tensors).map_err(|e| invalid(e.to_string()))?;
        let mut text = serde_json::to_vec(&metadata).map_err(|e| invalid(e.to_string()))?;
        text.resize(text.len().next_multiple_of(8), b' ');
        let mut header = (text.len() as u64).to_le_bytes().to_vec();
        header.append(&mut text);
        Ok(header)
    }

    fn index(&self) -> String {
        let weight_map: serde_json::Map<_, _> = self
            .entries
            .iter()
            .map(|entry| (entry.name.clone(), json!(self.file_name(entry.shard))))
            .collect();
        let total_size: usize = self.shards.iter().sum();
        format!(
            "{:#}\n",
            json!({ "metadata": { "total_size": total_size }, "weight_map": weight_map })
        )
    }
}

/// The first visit, which collects sizes only.
struct Planner {
    limit: usize,
    plan: Plan,
    failure: Option<ModelError>,
}

impl ParameterVisitor for Planner {
    fn visit<const D: usize>(&mut self, name: &str, tensor: Tensor<D>) {
        let dtype = match StoredDtype::from_dtype(tensor.dtype()) {
            Some(StoredDtype::F16) => Dtype::F16,
            Some(StoredDtype::BF16) => Dtype::BF16,
            Some(StoredDtype::F32) => Dtype::F32,
            Some(StoredDtype::F64) => Dtype::F64,
            None => {
                let problem =
                    format!("parameter `{name}` cannot be stored; use f16, bf16, f32 or f64");
                let dtype = format!("{:?}", tensor.dtype());
                self.failure
                    .get_or_insert(ModelError::Dtype { dtype, problem });
                return;
            }
        };
        let shape = tensor.dims().to_vec();
        let bytes = shape.iter().product::<usize>() * dtype.bitsize() / 8;
        let shards = &mut self.plan.shards;
        if shards
            .last()
            .is_some_and(|&used| used > 0 && bytes > self.limit.saturating_sub(used))
        {
            shards.push(0);
        }
        let shard = shards.len() - 1;
        let begin = shards[shard];
        shards[shard] += bytes;
        let info = TensorInfo {
            dtype,
            shape,
            data_offsets: (begin, begin + bytes),
        };
        self.plan.entries.push(Entry {
            name: name.to_owned(),
            info,
            shard,
        });
    }
}

/// The second visit, which copies one tensor at a time to the host and writes it to its file.
struct Writer<'a> {
    entries: std::slice::Iter<'a, Entry>,
    files: &'a mut [OpenShard],
    failure: Option<ModelError>,
}

impl ParameterVisitor for Writer<'_> {
    fn visit<const D: usize>(&mut self, _name: &str, tensor: Tensor<D>) {
        let Some(entry) = self.entries.next() else {
            return;
        };
        if self.failure.is_some() {
            return;
        }
        let file = &mut self.files[entry.shard];
        let written = match tensor.try_into_data() {
            Ok(data) => file.write(entry.info.data_offsets.0, data.as_bytes()),
            Err(error) => Err(ModelError::io(&file.path, "fill", io::Error::other(error))),
        };
        self.failure = written.err();
    }
}

struct OpenShard {
    path: PathBuf,
    file: File,
    /// The offset at which the tensors' bytes begin.
    start: u64,
}

impl OpenShard {
    fn create(path: PathBuf, header: Vec<u8>) -> Result<Self, ModelError> {
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&path)
            .map_err(|source| ModelError::io(&path, "create", source))?;
        let mut shard = Self {
            path,
            file,
            start: 0,
        };
        shard.write(0, &header)?;
        shard.start = header.len() as u64;
        Ok(shard)
    }

    fn write(&mut self, begin: usize, bytes: &[u8]) -> Result<(), ModelError> {
        self.file
            .seek(SeekFrom::Start(self.start + begin as u64))
            .and_then(|_| self.file.write_all(bytes))
            .map_err(|source| ModelError::io(&self.path, "write", source))
    }

    fn finish(self) -> Result<(), ModelError> {
        self.file
            .sync_all()
            .map_err(|source| ModelError::io(&self.path, "flush", source))
    }
}
