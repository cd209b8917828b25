//! Errors of loading.

use std::fmt;
use std::path::PathBuf;

/// The outcome of opening a library.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The library is open.
    Opened,
    /// The file does not exist.
    NotThere,
    /// The loader refused the file, with this message.
    Refused(String),
}

/// An attempt to open a library.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// A path, or a bare name that the loader searches for.
    pub library: PathBuf,
    /// The outcome.
    pub outcome: Outcome,
}

impl fmt::Display for Attempt {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let library = self.library.display();
        match &self.outcome {
            Outcome::Opened => write!(out, "{library}"),
            Outcome::NotThere => write!(out, "{library} (no such file)"),
            Outcome::Refused(why) => write!(out, "{library} (could not be opened: {why})"),
        }
    }
}

/// CANN could not be loaded.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// CANN exists for Linux only.
    #[error("CANN is not on this platform ({os}): it exists for Linux on x86-64 and aarch64")]
    Platform {
        /// The operating system for which this was compiled.
        os: &'static str,
    },
    /// No runtime library could be opened.
    #[error(
        "no CANN runtime: libascendcl.so could not be opened.{}\n\
         Install the CANN toolkit and its driver and `source` the toolkit's set_env.sh, or set \
         {lib_dir} to the folder that holds its libraries",
        list(.attempts), lib_dir = crate::LIB_DIR
    )]
    NoRuntime {
        /// Every library that was tried, in order.
        attempts: Vec<Attempt>,
    },
    /// The folder holds the libraries for linking, whose functions only return errors.
    #[error(
        "{} holds CANN's stub libraries, which are for linking and do nothing: use the toolkit's lib64",
        .folder.display()
    )]
    Stubs {
        /// The folder.
        folder: PathBuf,
    },
}

fn list(attempts: &[Attempt]) -> String {
    attempts
        .iter()
        .map(|attempt| format!("\n  tried {attempt}"))
        .collect()
}
