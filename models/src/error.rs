//! What can be wrong with a model directory or with a model's inputs.

use std::fmt;
use std::io;
use std::path::PathBuf;

use kernels_io::{FileError, escape, escape_path as path};

/// Why a model could not be read, written or run. Every message names the file and the field or
/// tensor.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// The operating system refused to read or write.
    #[error("{}: cannot {action}: {source}", path(.file))]
    Io {
        /// The file or directory.
        file: PathBuf,
        /// What was being done, as a verb: `read`, `create`, …
        action: &'static str,
        /// The system's reason.
        source: io::Error,
    },
    /// A file is something else than a plain file, larger than any of its kind, or not text.
    #[error(transparent)]
    File(FileError),
    /// A JSON file does not parse.
    #[error("{}: not valid JSON: {source}", path(.file))]
    Json {
        /// The file.
        file: PathBuf,
        /// Where and why.
        source: serde_json::Error,
    },
    /// A field of a JSON file is missing, of the wrong type, contradictory or not supported.
    #[error("{}: field `{}`: {}", path(.file), escape(.field), escape(.problem))]
    Field {
        /// The file.
        file: PathBuf,
        /// The field, with the names of enclosing objects: `rope_parameters.factor`.
        field: String,
        /// What was expected and what was found.
        problem: String,
    },
    /// A file is not the safetensors file that it should be (truncated, corrupt, foreign).
    #[error("{}: not a complete safetensors file: {}", path(.file), escape(.problem))]
    Safetensors {
        /// The file.
        file: PathBuf,
        /// What does not fit.
        problem: String,
    },
    /// A directory holds no checkpoint in a layout that can be read.
    #[error("{}: {problem}", path(.dir))]
    Layout {
        /// The directory.
        dir: PathBuf,
        /// What was looked for and what was found.
        problem: String,
    },
    /// The tensors are not those of the configured model. All that is wrong is listed.
    #[error("{}: {} of the checkpoint's tensors do not fit its config.json:{}", path(.dir), .problems.len(), list(.problems))]
    Tensors {
        /// The checkpoint's directory.
        dir: PathBuf,
        /// Every problem, in the order of the model's parameters, foreign tensors last.
        problems: Vec<TensorProblem>,
    },
    /// The asked dtype cannot be used.
    #[error("dtype {dtype}: {problem}")]
    Dtype {
        /// The asked dtype.
        dtype: String,
        /// Why not, and what can be used.
        problem: String,
    },
    /// The server of a remote device does not read a file that it was asked to read.
    #[error("{}: the device's server can't read it: {}", path(.file), escape(.problem))]
    Remote {
        /// The file.
        file: PathBuf,
        /// The server's reason.
        problem: String,
    },
    /// An input of the model has a wrong shape or value.
    #[error("{input}: {problem}")]
    Input {
        /// `input_ids` or `position_ids`.
        input: &'static str,
        /// What was expected and what was found.
        problem: String,
    },
}

/// One tensor that does not fit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorProblem {
    /// The file that holds the tensor, or where it was looked for.
    pub file: PathBuf,
    /// The tensor's name in the checkpoint.
    pub tensor: String,
    /// What was expected and what was found.
    pub problem: String,
}

impl fmt::Display for TensorProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: tensor `{}`: {}",
            path(&self.file),
            escape(&self.tensor),
            escape(&self.problem)
        )
    }
}

/// A model of a hundred layers with one wrong size has hundreds of problems; nobody reads them all.
const LISTED: usize = 20;

fn list(problems: &[TensorProblem]) -> String {
    let mut text: String = problems
        .iter()
        .take(LISTED)
        .map(|problem| format!("\n  {problem}"))
        .collect();
    if problems.len() > LISTED {
        text.push_str(&format!("\n  … and {} more", problems.len() - LISTED));
    }
    text
}

impl From<FileError> for ModelError {
    fn from(error: FileError) -> Self {
        match error {
            FileError::Io {
                file,
                action,
                source,
            } => Self::Io {
                file,
                action,
                source,
            },
            other => Self::File(other),
        }
    }
}

impl ModelError {
    pub(crate) fn io(file: impl Into<PathBuf>, action: &'static str, source: io::Error) -> Self {
        Self::Io {
            file: file.into(),
            action,
            source,
        }
    }

    pub(crate) fn field(
        file: impl Into<PathBuf>,
        field: impl Into<String>,
        problem: impl Into<String>,
    ) -> Self {
        Self::Field {
            file: file.into(),
            field: field.into(),
            problem: problem.into(),
        }
    }
}

burn_kernels::__private::debug_as_display!(ModelError);
