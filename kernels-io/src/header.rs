//! The header of a safetensors file.

use safetensors::tensor::Metadata;
use std::fmt;
use std::io::{self, Read};

/// The format's own limit for a header.
pub const MAX_HEADER: u64 = 100_000_000;

/// A header that fits the file's length.
#[derive(Debug)]
pub struct Header {
    /// The tensors: names, types, shapes and places.
    pub metadata: Metadata,
    /// The place where the tensors' bytes begin.
    pub start: u64,
}

/// Why a header was not read. The caller knows the file.
#[derive(thiserror::Error)]
pub enum HeaderError {
    /// The system refused to read.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The bytes are no header of this file.
    #[error("{}", crate::escape(.0))]
    Broken(String),
}

impl fmt::Debug for HeaderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Header {
    /// Reads the header from the start of a file of `length` bytes.
    ///
    /// # Errors
    /// The file is cut off, longer than its header says, or something else. No more is read than the
    /// file has, and than [`MAX_HEADER`].
    pub fn read(file: &mut impl Read, length: u64) -> Result<Self, HeaderError> {
        let broken = |problem: String| Err(HeaderError::Broken(problem));
        let mut word = [0; 8];
        match file.read_exact(&mut word) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                return broken(format!("{length} bytes hold no header length"));
            }
            read => read?,
        }
        let size = u64::from_le_bytes(word);
        let start = size.saturating_add(8);
        if start > length {
            return broken(format!(
                "a header of {size} bytes does not fit a file of {length} bytes"
            ));
        }
        if size > MAX_HEADER {
            return broken(format!(
                "a header of {size} bytes is longer than the format allows, {MAX_HEADER}"
            ));
        }
        // At most MAX_HEADER, so it fits any usize.
        let mut header = vec![0; size as usize];
        file.read_exact(&mut header)?;
        let metadata: Metadata = match serde_json::from_slice(&header) {
            Ok(metadata) => metadata,
            Err(error) => return broken(format!("the header does not parse: {error}")),
        };
        let expected = start.saturating_add(metadata.data_len() as u64);
        if expected != length {
            return broken(format!(
                "the header promises {expected} bytes, the file has {length}"
            ));
        }
        Ok(Self { metadata, start })
    }
}
