//! Errors of model directories and model inputs.

use std::io;
use std::path::{Path, PathBuf};

use kernels_io::{FileError, escape, escape_path as path};

/// An error of reading, writing or running a model. Every message about a file names the file, and the field or tensor.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// The operating system returned an error.
    #[error("{}: cannot {action}: {source}", path(.file))]
    Io {
        /// The file or directory.
        file: PathBuf,
        /// The failed action, as a verb: `read`, `create`, …
        action: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// A file is not a plain file, is larger than the limit of its kind, or is not text.
    #[error(transparent)]
    File(FileError),
    /// A JSON file can't be parsed.
    #[error("{}: not valid JSON: {source}", path(.file))]
    Json {
        /// The file.
        file: PathBuf,
        /// The parser's error, with its position.
        source: serde_json::Error,
    },
    /// A field of a JSON file is missing, of the wrong type, contradictory or not supported.
    #[error("{}: field `{}`: {}", path(.file), escape(.field), escape(.problem))]
    Field {
        /// The file.
        file: PathBuf,
        /// The field, with the names of enclosing objects: `rope_parameters.factor`.
        field: String,
        /// The expected and the found value.
        problem: String,
    },
    /// A file is not the expected safetensors file: it is truncated, corrupt, or of another format.
    #[error("{}: not a complete safetensors file: {}", path(.file), escape(.problem))]
    Safetensors {
        /// The file.
        file: PathBuf,
        /// The mismatch.
        problem: String,
    },
    /// A file is not the expected GGUF file: it is truncated, corrupt, or of another format.
    #[error("{}: not a GGUF file that can be read: {}", path(.file), escape(.problem))]
    Gguf {
        /// The file.
        file: PathBuf,
        /// The mismatch.
        problem: String,
    },
    /// A directory holds no checkpoint in a supported layout, or is not empty when a model is saved to it.
    #[error("{}: {problem}", path(.dir))]
    Layout {
        /// The directory.
        dir: PathBuf,
        /// The mismatch, or what was looked for.
        problem: String,
    },
    /// The tensors are not those of the configured model. The error lists all problems.
    #[error("{}: {} of the checkpoint's tensors do not fit its {}:{}", path(.dir), .problems.len(), configuration(.dir), list(.problems, .remarks))]
    Tensors {
        /// The checkpoint's directory, or its GGUF file.
        dir: PathBuf,
        /// All problems, in the order of the model's parameters. Unexpected tensors come last.
        problems: Vec<TensorProblem>,
        /// Other peculiarities of the files, which may be the reason.
        remarks: Vec<String>,
    },
    /// A weight can't be decoded.
    #[error(transparent)]
    Tensor(TensorProblem),
    /// The requested dtype can't be used.
    #[error("dtype {dtype}: {problem}")]
    Dtype {
        /// The requested dtype.
        dtype: String,
        /// The reason, and the dtypes that can be used.
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
    /// Low-rank adapters have a setting or a tensor that this model can't have.
    #[error("adapters: {}", escape(.problem))]
    Adapter {
        /// The mismatch.
        problem: String,
    },
    /// An input of the model has a wrong shape or value.
    #[error("{input}: {problem}")]
    Input {
        /// `input_ids`, `position_ids`, `attention_mask`, `lengths`, `cache`, of generation, `prompts` or `logits`, or
        /// a tensor of a [loss](crate::preference).
        input: &'static str,
        /// The expected and the found shape or value.
        problem: String,
    },
    /// A setting of generation or of a loss is outside its range.
    #[error("{setting}: {problem}")]
    Setting {
        /// The name of the setting, as a field of [`Generation`](crate::Generation), [`Sampling`](crate::Sampling) or a loss of
        /// [`preference`](crate::preference).
        setting: &'static str,
        /// The expected and the found value.
        problem: String,
    },
}

/// One tensor that does not fit.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: tensor `{}`: {}", path(.file), escape(.tensor), escape(.problem))]
pub struct TensorProblem {
    /// The file that holds the tensor, or the one where it was expected.
    pub file: PathBuf,
    /// The tensor's name in the checkpoint.
    pub tensor: String,
    /// The expected and the found tensor.
    pub problem: String,
}

/// Returns the part of a checkpoint that describes the model.
fn configuration(checkpoint: &Path) -> &'static str {
    match checkpoint.extension() {
        Some(end) if end == "gguf" => "metadata",
        _ => "config.json",
    }
}

/// The number of problems that a message lists. A model of a hundred layers with one wrong size has hundreds.
const LISTED: usize = 20;

fn list(problems: &[TensorProblem], remarks: &[String]) -> String {
    let mut text: String = problems
        .iter()
        .take(LISTED)
        .map(|problem| format!("\n  {problem}"))
        .collect();
    if problems.len() > LISTED {
        text.push_str(&format!("\n  … and {} more", problems.len() - LISTED));
    }
    for remark in remarks {
        text.push_str(&format!("\n  note: {remark}"));
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

    pub(crate) fn gguf(file: impl Into<PathBuf>, problem: impl Into<String>) -> Self {
        Self::Gguf {
            file: file.into(),
            problem: problem.into(),
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

burn_kernels::__private::debug_as_display!(ModelError, TensorProblem);
