//! One safetensors file, opened for reading.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use kernels_io::header::{Header, HeaderError};
use safetensors::tensor::{Metadata, TensorInfo};

use crate::ModelError;

/// A safetensors file with a header that matches the file's length.
pub(super) struct TensorFile {
    path: PathBuf,
    file: File,
    metadata: Metadata,
    /// The offset at which the tensors' bytes begin.
    start: u64,
}

impl TensorFile {
    pub(super) fn open(path: &Path) -> Result<Self, ModelError> {
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
        Ok(Self {
            path: path.into(),
            file,
            metadata: header.metadata,
            start: header.start,
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn names(&self) -> Vec<String> {
        self.metadata.offset_keys()
    }

    pub(super) fn info(&self, name: &str) -> Option<&TensorInfo> {
        self.metadata.info(name)
    }

    /// Reads the bytes of a tensor, in row-major order and little-endian.
    pub(super) fn read(&self, info: &TensorInfo) -> Result<Vec<u8>, ModelError> {
        let (begin, end) = info.data_offsets;
        self.read_range(begin, end - begin)
    }

    /// Reads `length` bytes from `begin`, an offset from the first tensor.
    pub(super) fn read_range(&self, begin: usize, length: usize) -> Result<Vec<u8>, ModelError> {
        let mut bytes = vec![0; length];
        let mut file = &self.file;
        file.seek(SeekFrom::Start(self.start + begin as u64))
            .and_then(|_| file.read_exact(&mut bytes))
            .map_err(|source| ModelError::io(&self.path, "read", source))?;
        Ok(bytes)
    }
}
