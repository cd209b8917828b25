//! One file with tensors, opened for reading.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use kernels_io::header::{Header, HeaderError};

use super::decode::decode_into;
use super::gguf;
use super::storage::Storage;
use crate::ModelError;

/// A safetensors or GGUF file with a description of its tensors that matches the file's length.
pub(crate) struct TensorFile {
    path: PathBuf,
    file: File,
    /// The tensors under the names of the Hugging Face layout.
    tensors: BTreeMap<String, StoredTensor>,
    #[cfg(feature = "remote")]
    is_gguf: bool,
}

/// A tensor of a file.
#[derive(Debug, Clone)]
pub(crate) struct StoredTensor {
    pub(super) storage: Storage,
    pub(crate) shape: Vec<usize>,
    /// The offset of its bytes in the file.
    pub(super) begin: u64,
    /// The number of its bytes.
    pub(super) bytes: usize,
    pub(super) change: Change,
}

impl StoredTensor {
    /// Returns the name of the type of its elements.
    pub(crate) fn type_name(&self) -> String {
        self.storage.to_string()
    }
}

/// The difference between a stored tensor and the Hugging Face layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// None.
    None,
    /// In each of this number of heads, row `2i` of the file is row `i`, and row `2i + 1` is row `i` of the second half.
    PairedRows(usize),
    /// The file holds the weights plus 1.
    PlusOne,
}

impl TensorFile {
    /// Opens a safetensors file.
    pub(crate) fn open(path: &Path) -> Result<Self, ModelError> {
        let failed = |source| ModelError::io(path, "read", source);
        let mut file = kernels_io::open(path)?;
        let length = file.metadata().map_err(failed)?.len();
        let header = Header::read(&mut file, length).map_err(|error| match error {
            HeaderError::Io(source) => failed(source),
            HeaderError::Broken(problem) => ModelError::Safetensors {
                file: path.into(),
                problem,
            },
        })?;
        let tensors = header.metadata.tensors().into_iter().map(|(name, info)| {
            let (begin, end) = info.data_offsets;
            let stored = StoredTensor {
                storage: Storage::Plain(info.dtype),
                shape: info.shape.clone(),
                begin: header.start + begin as u64,
                bytes: end - begin,
                change: Change::None,
            };
            (name, stored)
        });
        Ok(Self {
            path: path.into(),
            tensors: tensors.collect(),
            file,
            #[cfg(feature = "remote")]
            is_gguf: false,
        })
    }

    /// Takes an opened GGUF file, whose tensors have names of the Hugging Face layout.
    pub(super) fn of_gguf(file: gguf::File, tensors: BTreeMap<String, StoredTensor>) -> Self {
        Self {
            path: file.path().into(),
            file: file.into_file(),
            tensors,
            #[cfg(feature = "remote")]
            is_gguf: true,
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns `true` if the file is not a safetensors file.
    #[cfg(feature = "remote")]
    pub(super) fn is_gguf(&self) -> bool {
        self.is_gguf
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.tensors.keys().map(String::as_str)
    }

    pub(super) fn tensors(&self) -> impl Iterator<Item = &StoredTensor> {
        self.tensors.values()
    }

    pub(crate) fn info(&self, name: &str) -> Option<&StoredTensor> {
        self.tensors.get(name)
    }

    /// Reads all bytes of a tensor.
    pub(super) fn read(&self, info: &StoredTensor) -> Result<Vec<u8>, ModelError> {
        self.read_range(info.begin, info.bytes)
    }

    /// Reads a tensor in row-major order, in f32. Returns `None` if its type is not read.
    pub(crate) fn read_f32(&self, info: &StoredTensor) -> Result<Option<Vec<f32>>, ModelError> {
        if !info.storage.is_supported() {
            return Ok(None);
        }
        let mut values = vec![0.0; info.shape.iter().product()];
        decode_into(&self.read(info)?, info.storage, &mut values);
        Ok(Some(values))
    }

    /// Reads `length` bytes from an offset in the file.
    pub(super) fn read_range(&self, begin: u64, length: usize) -> Result<Vec<u8>, ModelError> {
        let mut bytes = vec![0; length];
        let mut file = &self.file;
        file.seek(SeekFrom::Start(begin))
            .and_then(|_| file.read_exact(&mut bytes))
            .map_err(|source| ModelError::io(&self.path, "read", source))?;
        Ok(bytes)
    }
}
