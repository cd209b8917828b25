//! Errors of tokenizers, chat templates and conversations.

use kernels_io::{FileError, escape, escape_path as path};
use std::path::PathBuf;

/// An error of a tokenizer, a chat template or a conversation.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TextError {
    /// A file can't be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// A GGUF file can't be read.
    #[error(transparent)]
    Model(#[from] kernels_models::ModelError),
    /// A folder lacks a file that is needed.
    #[error("{}: {problem}", path(.folder))]
    Missing {
        /// The folder.
        folder: PathBuf,
        /// The missing part, and what to do.
        problem: &'static str,
    },
    /// A file does not hold what it should.
    #[error("{}: {}", path(.file), escape(.problem))]
    Content {
        /// The file.
        file: PathBuf,
        /// The expected and the found content.
        problem: String,
    },
    /// A text can't be turned into token ids, or ids into text.
    #[error("the tokenizer fails: {}", escape(.0))]
    Tokenizer(String),
    /// A text holds a token that the tokenizer has and the model has not.
    #[error(
        "the text holds the token `{}`, whose id {id} is beyond the model's {vocab_size} embeddings (vocab_size); remove it",
        escape(.token)
    )]
    NoEmbedding {
        /// The token.
        token: String,
        /// Its id.
        id: u32,
        /// The number of embeddings.
        vocab_size: usize,
    },
    /// A chat template refuses a conversation or fails.
    #[error("the chat template of {}{} fails: {}", path(.file), at(.line), escape(.problem))]
    Template {
        /// The file with the template.
        file: PathBuf,
        /// The line of the template, if it is known.
        line: Option<usize>,
        /// The template's own message, or the reason.
        problem: String,
    },
    /// Ctrl-C ended a chat template; see [`interrupt_templates_on`](super::interrupt_templates_on).
    #[error("Ctrl-C ended the chat template")]
    Interrupted,
    /// A conversation can't be rendered as asked.
    #[error("{}", escape(.0))]
    Conversation(String),
}

fn at(line: &Option<usize>) -> String {
    line.map_or_else(String::new, |line| format!(" (line {line})"))
}

impl TextError {
    pub(super) fn content(file: impl Into<PathBuf>, problem: impl Into<String>) -> Self {
        Self::Content {
            file: file.into(),
            problem: problem.into(),
        }
    }
}
