//! Errors of reading and writing files.

use crate::escape_path as path;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// An error of reading or writing a file. Every message names the file.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// The operating system returned an error.
    #[error("{}: cannot {action}: {source}", path(.file))]
    Io {
        /// The file or folder.
        file: PathBuf,
        /// The failed action, as a verb: `read`, `create`, …
        action: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// The path leads to something other than a file.
    #[error("{} is {kind}; name a plain file", path(.file))]
    NotPlain {
        /// The path.
        file: PathBuf,
        /// The kind of thing at the path: `a named pipe`, `a folder`, …
        kind: &'static str,
    },
    /// The path leads over a link without a target.
    #[error("{} is a broken link: {} does not exist; put the file itself in its place", path(.link), path(.target))]
    Dangling {
        /// The link.
        link: PathBuf,
        /// The place that it names.
        target: PathBuf,
    },
    /// The file is the pointer that Git LFS keeps in the place of a file that has not been fetched.
    #[error(
        "{} is a Git LFS pointer instead of the file itself; run `git lfs pull` in its folder, or download \
         the file",
        path(.file)
    )]
    Pointer {
        /// The pointer.
        file: PathBuf,
    },
    /// The file is larger than the limit of its kind.
    #[error(
        "{} has {} bytes, but {what} may have at most {limit} bytes; is this the intended file?",
        path(.file),
        counted(*.size, *.limit)
    )]
    TooLarge {
        /// The file.
        file: PathBuf,
        /// The expected kind of file: `a configuration`, …
        what: &'static str,
        /// The size in bytes, as far as it was counted.
        size: u64,
        /// The largest number of bytes that is read.
        limit: u64,
    },
    /// The file was expected to hold text and is not UTF-8.
    #[error("{} is not valid UTF-8 (first invalid byte: {offset})", path(.file))]
    NotText {
        /// The file.
        file: PathBuf,
        /// The number of bytes before the first invalid one.
        offset: usize,
    },
}

/// Prints the message, because `main` shows errors by `Debug`.
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

/// Describes a size. A size just above the limit means that reading stopped there: the file grew while it was read.
fn counted(size: u64, limit: u64) -> String {
    match size == limit + 1 {
        true => format!("more than {limit}"),
        false => size.to_string(),
    }
}
