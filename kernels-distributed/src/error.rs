//! Errors of groups.

use std::fmt;

/// An error of a group. Its text is one sentence that names rank and host, in which text of peers is escaped.
#[derive(Clone, PartialEq, Eq)]
pub struct Error {
    kind: ErrorKind,
    message: String,
}

/// The kind of an [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The ranks were started wrongly, or an option is not valid.
    Start,
    /// No engine can join these ranks.
    Engine,
    /// A connection between ranks can't be made.
    Connection,
    /// A rank died, hangs, can't be reached, gave up or left the group too early.
    Lost,
    /// Ranks differ in what they hold or in what they call.
    Differs,
    /// An argument of a call is not valid.
    Argument,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { kind, message }
    }

    /// Returns the kind of the error.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

// A `main` that returns the error shows its text.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Error {}
