//! One safetensors file, opened for reading.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use safetensors::tensor::{Metadata, TensorInfo};

use crate::ModelError;

/// The format's own limit for a header.
const MAX_HEADER: u64 = 100_000_000;

/// A safetensors file whose header is read and fits the file's length.
pub(super) struct TensorFile {
    path: PathBuf,
    file: File,
    metadata: Metadata,
    /// Where the tensors' bytes begin.
    start: u64,
}

impl TensorFile {
    pub(super) fn open(path: &Path) -> Result<Self, ModelError> {
        let broken = |problem: String| ModelError::Safetensors {
            file: path.into(),
            problem,
        };
        let failed = |source| ModelError::io(path, "read", source);
        let mut file = File::open(path).map_err(|source| ModelError::io(path, "open", source))?;
        let length = file.metadata().map_err(failed)?.len();

        let mut word = [0; 8];
        file.read_exact(&mut word)
            .map_err(|error| match error.kind() {
                io::ErrorKind::UnexpectedEof => {
                    broken(format!("{length} bytes hold no header length"))
                }
                _ => failed(error),
            })?;
        let header_length = u64::from_le_bytes(word);
        let start = header_length.saturating_add(8);
        if header_length > MAX_HEADER || start > length {
            let problem =
                format!("a header of {header_length} bytes does not fit a file of {length} bytes");
            return Err(broken(problem));
        }
        // At most MAX_HEADER, so it fits any usize.
        let mut header = vec![0; header_length as usize];
        file.read_exact(&mut header).map_err(failed)?;
        let metadata: Metadata = serde_json::from_slice(&header)
            .map_err(|error| broken(format!("the header does not parse: {error}")))?;

        let expected = start.saturating_add(metadata.data_len() as u64);
        if expected != length {
            let problem = format!("the header promises {expected} bytes, the file has {length}");
            return Err(broken(problem));
        }
        Ok(Self {
            path: path.into(),
            file,
            metadata,
            start,
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

    /// The bytes of a tensor, row after row, little-endian.
    pub(super) fn read(&self, info: &TensorInfo) -> Result<Vec<u8>, ModelError> {
        let (begin, end) = info.data_offsets;
        self.read_range(begin, end - begin)
    }

    /// `length` bytes from `begin`, which counts from the first tensor.
    pub(super) fn read_range(&self, begin: usize, length: usize) -> Result<Vec<u8>, ModelError> {
        let mut bytes = vec![0; length];
        let mut file = &self.file;
        file.seek(SeekFrom::Start(self.start + begin as u64))
            .and_then(|_| file.read_exact(&mut bytes))
            .map_err(|source| ModelError::io(&self.path, "read", source))?;
        Ok(bytes)
    }
}
