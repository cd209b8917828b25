//! Errors of pictures, their settings and their tokens.

use kernels_io::{FileError, escape, shorten};
use std::fmt;

/// An error of this crate. Its text is a sentence, in which text of files is escaped.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file can't be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// A picture can't be decoded, or has a size that is not accepted.
    #[error("{}: {}", shown(.name), escape(.problem))]
    Picture {
        /// The file, or another name of the picture.
        name: String,
        /// The problem and its solution.
        problem: String,
    },
    /// A configuration has a value that is not supported.
    #[error("{}: {}", shown(.file), escape(.problem))]
    Setting {
        /// The file.
        file: String,
        /// The field, its value and the supported values.
        problem: String,
    },
    /// Tokens and pictures don't go together.
    #[error("{0}")]
    Tokens(String),
    /// A record or a message names pictures in a way that is not supported.
    #[error("{}", escape(.0))]
    Record(String),
}

/// The longest name that an error shows, in bytes. A name can be a whole URL.
const LONGEST_NAME: usize = 300;

/// Returns a number of things, such as `1 picture`.
pub(crate) fn counted(number: usize, thing: &str) -> String {
    match number {
        1 => format!("1 {thing}"),
        _ => format!("{number} {thing}s"),
    }
}

fn shown(name: &str) -> String {
    shorten(&escape(name), LONGEST_NAME).into_owned()
}

/// Prints the message, because `main` shows errors by `Debug`.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Error {
    pub(crate) fn picture(name: &str) -> impl FnOnce(String) -> Self {
        move |problem| Self::Picture {
            name: name.to_owned(),
            problem,
        }
    }

    pub(crate) fn setting(file: &str) -> impl Fn(String) -> Self {
        move |problem| Self::Setting {
            file: file.to_owned(),
            problem,
        }
    }
}
