//! Why a file is not read or written.

use crate::escape_path as path;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Why a file is not read or written. Every message names it.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// The operating system refused.
    #[error("{}: cannot {action}: {source}", path(.file))]
    Io {
        /// The file or folder.
        file: PathBuf,
        /// The action that failed, as a verb: `read`, `create`, …
        action: &'static str,
        /// The system's reason.
        source: io::Error,
    },
    /// Something else than a file has its name.
    #[error("{} is {kind}; name a plain file", path(.file))]
    NotPlain {
        /// The path.
        file: PathBuf,
        /// The kind of thing that is there: `a named pipe`, `a folder`, …
        kind: &'static str,
    },
    /// The file is larger than any file of its kind.
    #[error(
        "{} has {} bytes; of {what} at most {limit} bytes are read: is this the file that was meant?",
        path(.file),
        counted(*.size, *.limit)
    )]
    TooLarge {
        /// The file.
        file: PathBuf,
        /// The thing that it should be: `a configuration`, …
        what: &'static str,
        /// Its bytes, as far as they were counted.
        size: u64,
        /// The most that are read.
        limit: u64,
    },
    /// A file of text holds something else.
    #[error("{} is not text in UTF-8: byte {offset} is the first that is none", path(.file))]
    NotText {
        /// The file.
        file: PathBuf,
        /// The number of bytes before it that are text.
        offset: usize,
    },
}

/// `main` shows errors by `Debug`.
impl fmt::Debug for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FileError {
    pub(crate) fn io(file: &Path, action: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io {
            file: file.to_owned(),
            action,
            source,
        }
    }
}

/// A file that grows while it is read has more bytes than it said.
fn counted(size: u64, limit: u64) -> String {
    match size == limit + 1 {
        true => format!("more than {limit}"),
        false => size.to_string(),
    }
}
