//! The header of a safetensors file.

use safetensors::tensor::Metadata;
use std::fmt;
use std::io::{self, Read};

/// The largest header that the format allows, in bytes.
pub const MAX_HEADER: u64 = 100_000_000;

/// A header that matches the length of its file.
#[derive(Debug)]
pub struct Header {
    /// The tensors with their names, types, shapes and offsets.
    pub metadata: Metadata,
    /// The offset in the file at which the tensors' bytes begin.
    pub start: u64,
}

/// An error of reading a header. It does not name the file, which the caller knows.
#[derive(thiserror::Error)]
pub enum HeaderError {
    /// The system returned an error.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The bytes are not a header of this file.
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
    /// It reads no more than the file has, and no more than [`MAX_HEADER`].
    ///
    /// # Errors
    /// Returns an error if the file can't be read, is cut off, is longer than its header says, or is not a safetensors
    /// file.
    pub fn read(file: &mut impl Read, length: u64) -> Result<Self, HeaderError> {
        let broken = |problem: String| Err(HeaderError::Broken(problem));
        let mut word = [0; 8];
        match file.read_exact(&mut word) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                return broken(format!("{length} bytes hold no header length"));
            }
            read => read?,
        }
        if let Some(found) = foreign(&word) {
            return broken(format!("it is {found}"));
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
        // Fits any usize, because it is at most MAX_HEADER.
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

/// Returns the kind of another file, by its first bytes. As the length of a header, each is far more than [`MAX_HEADER`].
fn foreign(start: &[u8; 8]) -> Option<String> {
    match start {
        [b'P', b'K', 3, 4, ..] => {
            Some("a zip archive, as PyTorch writes; convert it to safetensors".into())
        }
        [b'G', b'G', b'U', b'F', ..] => Some("a GGUF file; let its name end in .gguf".into()),
        text if text
            .iter()
            .all(|byte| matches!(byte, b' '..=b'~' | b'\n' | b'\r' | b'\t')) =>
        {
            let text = String::from_utf8_lossy(text);
            Some(format!(
                "text that begins with `{text}`; download the file again"
            ))
        }
        _ => None,
    }
}
