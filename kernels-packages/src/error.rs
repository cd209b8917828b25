//! Errors of finding, checking, loading and calling.

use kernels_io::{FileError, escape, escape_path};
use std::fmt;
use std::path::PathBuf;

/// An error of this crate. Its text is a sentence, in which text of packages and of servers is escaped.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file or a folder can't be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// The contents of a file are not what they must be.
    #[error("{}: {}", escape_path(.file), escape(.problem))]
    Malformed {
        /// The file.
        file: PathBuf,
        /// The field or the part, and what to do.
        problem: String,
    },
    /// No variant of a package runs here.
    #[error("{place}: no variant of the package runs here, where {wanted} is wanted{}", lines(.variants))]
    NoVariant {
        /// The folder or the repository.
        place: String,
        /// The kind of variant that was wanted.
        wanted: String,
        /// Each variant with the reason against it.
        variants: Vec<(String, String)>,
    },
    /// A package is whole, but must not or can't be used.
    #[error("{package}: {}", escape(.problem))]
    Refused {
        /// The package with its version and digest, escaped.
        package: String,
        /// The reason, and what to do.
        problem: String,
    },
    /// A call failed.
    #[error("{function} of {package}: {}", escape(.problem))]
    Call {
        /// The name of the function, escaped.
        function: String,
        /// The package with its version and digest, escaped.
        package: String,
        /// The message of the function.
        problem: String,
    },
    /// A variable of the environment, a name or an option is not valid.
    #[error("{}", escape(.0))]
    Setting(String),
    /// The hub refused or failed.
    #[error("{}: {}", escape(.what), escape(.problem))]
    Hub {
        /// The request, without a token.
        what: String,
        /// The failure, and what to do.
        problem: String,
    },
}

/// Prints the message, because `main` shows errors by `Debug`.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Returns a line for each variant.
fn lines(variants: &[(String, String)]) -> String {
    match variants {
        [] => "; it has none, in the folder build/ or beside it".into(),
        variants => {
            let line = |(name, reason): &(String, String)| {
                format!("\n    {}: {}", escape(name), escape(reason))
            };
            format!(":{}", variants.iter().map(line).collect::<String>())
        }
    }
}
