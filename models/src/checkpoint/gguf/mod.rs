//! GGUF files: weights, configuration and tokenizer of a model in one file, as llama.cpp writes them.
//!
//! [`load`](crate::load) reads models from them. [`File`] gives access to the metadata, which hold the tokenizer.
//!
//! ```no_run
//! # fn main() -> Result<(), kernels_models::ModelError> {
//! let file = kernels_models::gguf::File::open("model.gguf".as_ref())?;
//! let metadata = file.metadata();
//! let tokens = metadata.strings("tokenizer.ggml.tokens")?; // None if the file has none
//! let end = metadata.integer("tokenizer.ggml.eos_token_id")?;
//! # let _ = (tokens, end);
//! # Ok(())
//! # }
//! ```

mod config;
mod contents;
mod dialect;
mod ends;
mod form;
mod metadata;
mod names;
mod rope;

use std::fs;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use gguf_rs_lib::GGUFError;
use gguf_rs_lib::reader::file_reader::GGUFFileReader;
use gguf_rs_lib::tensor::TensorType;
use kernels_quant::gguf::Block;
use safetensors::Dtype;

use self::contents::Contents;
use self::dialect::Dialect;
pub use self::ends::ends_text;
pub use self::form::Form;
pub use self::metadata::{Metadata, Value};
use self::names::ROPE_FREQS;
use super::decode::decode_into;
pub use super::file::Change;
use super::file::{StoredTensor, TensorFile};
use super::storage::Storage;
use crate::{ModelConfig, ModelError};

/// A GGUF file whose structure was checked. Its tensors have not been read.
#[derive(Debug)]
pub struct File {
    path: PathBuf,
    file: fs::File,
    metadata: Metadata,
    tensors: Vec<Info>,
}

/// A tensor of a file.
#[derive(Debug)]
struct Info {
    name: String,
    /// The shape in row-major order, which is the reverse of the file's.
    shape: Vec<usize>,
    storage: Storage,
    /// The offset of its bytes in the file.
    begin: u64,
    /// The number of its bytes.
    bytes: usize,
}

impl Info {
    fn stored(&self, change: Change) -> StoredTensor {
        StoredTensor {
            storage: self.storage,
            shape: self.shape.clone(),
            begin: self.begin,
            bytes: self.bytes,
            change,
        }
    }
}

impl File {
    /// Opens a file and checks its structure: every length, offset and type.
    ///
    /// # Errors
    ///
    /// Returns [`ModelError::Gguf`] if the file is not a GGUF file of version 3, is truncated, or contradicts itself, and
    /// an error of the system if it can't be read.
    pub fn open(path: &Path) -> Result<Self, ModelError> {
        let failed = |error| match error {
            GGUFError::Io(source) if source.kind() != std::io::ErrorKind::UnexpectedEof => {
                ModelError::io(path, "read", source)
            }
            GGUFError::Io(_) | GGUFError::UnexpectedEof => {
                ModelError::gguf(path, "its content ends too early")
            }
            GGUFError::InvalidMagic { .. } => ModelError::gguf(
                path,
                "it does not begin with `GGUF`; name such a file, or the folder of a checkpoint",
            ),
            other => ModelError::gguf(path, other.to_string()),
        };
        let file = BufReader::new(kernels_io::open(path)?);
        let reader = GGUFFileReader::new(file).map_err(failed)?;
        let start = reader.tensor_data_offset();
        let mut tensors = Vec::new();
        for info in reader.tensor_infos() {
            let bytes = info.checked_expected_data_size().map_err(failed)?;
            // The reader has checked that the bytes are in the file, so sizes and sums fit, and that rows are whole
            // numbers of blocks.
            let shape = info.shape().dims().iter().rev().map(|&size| size as usize);
            tensors.push(Info {
                name: info.name().to_owned(),
                shape: shape.collect(),
                storage: storage(info.tensor_type()),
                begin: start + info.data_offset(),
                bytes: bytes as usize,
            });
        }
        let metadata = Metadata::new(path, reader.metadata().clone());
        Ok(Self {
            path: path.into(),
            metadata,
            tensors,
            file: reader.into_inner().into_inner(),
        })
    }

    /// Returns the path that the file was opened by.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the metadata: values by key, such as `general.architecture` or `tokenizer.ggml.tokens`.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// Removes a value of the metadata. Returns `false` if it does not exist.
    pub(super) fn forget(&mut self, key: &str) -> bool {
        self.metadata.remove(key)
    }

    pub(super) fn into_file(self) -> fs::File {
        self.file
    }

    /// Reads a tensor as single-precision numbers in row-major order. Those of quantised blocks are the ones that ggml
    /// computes, bit for bit.
    ///
    /// # Errors
    ///
    /// Returns an error if no tensor has this name, if its type is not read, or if the system fails.
    pub fn read(&self, name: &str) -> Result<Vec<f32>, ModelError> {
        let Some(tensor) = self.find(name) else {
            return Err(self.metadata.error(name, "no tensor has this name"));
        };
        let storage = tensor.storage;
        if !storage.is_supported() {
            let problem = format!("tensors of type {storage} are not read");
            return Err(self.metadata.error(name, problem));
        }
        let mut bytes = vec![0; tensor.bytes];
        let mut file = &self.file;
        file.seek(SeekFrom::Start(tensor.begin))
            .and_then(|_| file.read_exact(&mut bytes))
            .map_err(|source| ModelError::io(&self.path, "read", source))?;
        let mut values = vec![0.0; tensor.shape.iter().product()];
        decode_into(&bytes, storage, &mut values);
        Ok(values)
    }

    /// Returns the names of all tensors.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tensors.iter().map(|tensor| tensor.name.as_str())
    }

    /// Returns the shape of a tensor, in row-major order, which is the reverse of the file's.
    pub fn shape(&self, name: &str) -> Option<&[usize]> {
        self.find(name).map(|tensor| tensor.shape.as_slice())
    }

    fn find(&self, name: &str) -> Option<&Info> {
        self.tensors.iter().find(|tensor| tensor.name == name)
    }
}

/// Opens the GGUF file that [`load`](crate::load) would read for a path: the file itself, or the only one in a directory
/// without safetensors files. Returns `None` if it would read a directory in Hugging Face layout.
///
/// # Errors
///
/// Returns an error as [`File::open`] does, and if a directory holds several GGUF files.
pub fn find(path: &Path) -> Result<Option<File>, ModelError> {
    super::open::gguf_file(path)?
        .map(|file| File::open(&file))
        .transpose()
}

/// Opens a model: its configuration, and its tensors under the names of the Hugging Face layout.
pub(super) fn open(path: &Path) -> Result<(ModelConfig, TensorFile), ModelError> {
    let file = File::open(path)?;
    let (dialect, config) = configuration(&file)?;
    let file = in_layout(file, dialect, &config);
    Ok((config, file))
}

/// Returns the configuration of a file.
pub(in crate::checkpoint) fn configuration(
    file: &File,
) -> Result<(&'static Dialect, ModelConfig), ModelError> {
    read_configuration(file)
}

/// Returns the configuration of a file, or of one that is to be written.
fn read_configuration(file: &dyn Contents) -> Result<(&'static Dialect, ModelConfig), ModelError> {
    let dialect = config::dialect(file.metadata())?;
    let fields = config::fields(file, dialect)?;
    let config = ModelConfig::from_fields(&fields, file.path())?;
    Ok((dialect, config))
}

/// Returns the tensors of a file under the names of the Hugging Face layout.
pub(super) fn in_layout(file: File, dialect: &Dialect, config: &ModelConfig) -> TensorFile {
    let tensors = file.tensors.iter();
    let tensors = tensors.filter(|tensor| tensor.name != ROPE_FREQS);
    let tensors = tensors.map(|tensor| {
        let change = change(&tensor.name, dialect, config);
        (
            names::in_layout(&tensor.name, dialect),
            tensor.stored(change),
        )
    });
    let tensors = tensors.collect();
    TensorFile::of_gguf(file, tensors)
}

/// Returns the tensors of a file under its own names.
pub(super) fn as_stored(file: File) -> TensorFile {
    let tensors = file.tensors.iter();
    let tensors = tensors.map(|tensor| (tensor.name.clone(), tensor.stored(Change::None)));
    let tensors = tensors.collect();
    TensorFile::of_gguf(file, tensors)
}

/// Returns how a tensor of a file differs from the Hugging Face layout.
fn change(name: &str, dialect: &Dialect, config: &ModelConfig) -> Change {
    if dialect.paired_rows && name.contains(".attn_q.") {
        Change::PairedRows(config.num_attention_heads)
    } else if dialect.paired_rows && name.contains(".attn_k.") {
        Change::PairedRows(config.num_key_value_heads)
    } else if dialect.gemma && name.ends_with("norm.weight") {
        Change::PlusOne
    } else {
        Change::None
    }
}

/// Returns how the elements of a type are stored.
fn storage(kind: TensorType) -> Storage {
    match kind {
        TensorType::F32 => Storage::Plain(Dtype::F32),
        TensorType::F16 => Storage::Plain(Dtype::F16),
        TensorType::BF16 => Storage::Plain(Dtype::BF16),
        TensorType::F64 => Storage::Plain(Dtype::F64),
        TensorType::Q8_0 => Storage::Blocks(Block::Q8_0),
        TensorType::Q4_0 => Storage::Blocks(Block::Q4_0),
        TensorType::Q4_1 => Storage::Blocks(Block::Q4_1),
        TensorType::Q5_0 => Storage::Blocks(Block::Q5_0),
        TensorType::Q5_1 => Storage::Blocks(Block::Q5_1),
        TensorType::Q4_K => Storage::Blocks(Block::Q4K),
        TensorType::Q5_K => Storage::Blocks(Block::Q5K),
        TensorType::Q6_K => Storage::Blocks(Block::Q6K),
        TensorType::MXFP4 => Storage::Blocks(Block::Mxfp4),
        other => Storage::Unread(other.name()),
    }
}
