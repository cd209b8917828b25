//! The model families of GGUF files, and the differences between their files and the Hugging Face layout.

use crate::config::Architecture;

/// A value of `general.architecture` and its meaning.
#[derive(Debug)]
pub(crate) struct Dialect {
    /// The value, with which the keys of the configuration begin.
    pub(super) name: &'static str,
    pub(super) architecture: Architecture,
    /// True if rows of query and key projections are in the order of rotated pairs.
    pub(super) paired_rows: bool,
    /// True if the family is Gemma: the weights of norms are stored plus 1, each layer has four of them, and the
    /// file leaves out the scale of the scores.
    pub(super) gemma: bool,
    /// The number of layers of the model whose scores are scaled by the width of the hidden states divided by the number
    /// of heads, and not by the width of a head.
    pub(super) wide_scores: Option<usize>,
}

/// The settings that most families have in common.
const PLAIN: Dialect = Dialect {
    name: "qwen2",
    architecture: Architecture::Qwen2,
    paired_rows: false,
    gemma: false,
    wide_scores: None,
};

/// All families that are read. Files of Mistral say `llama`.
pub(super) static DIALECTS: [Dialect; 5] = [
    Dialect {
        name: "llama",
        architecture: Architecture::Llama,
        paired_rows: true,
        ..PLAIN
    },
    PLAIN,
    Dialect {
        name: "qwen3",
        architecture: Architecture::Qwen3,
        ..PLAIN
    },
    Dialect {
        name: "gemma2",
        architecture: Architecture::Gemma2,
        gemma: true,
        // The model of 27 billion parameters.
        wide_scores: Some(46),
        ..PLAIN
    },
    Dialect {
        name: "gemma3",
        architecture: Architecture::Gemma3,
        gemma: true,
        // The model of 27 billion parameters.
        wide_scores: Some(62),
        ..PLAIN
    },
];

impl Dialect {
    pub(super) fn find(name: &str) -> Option<&'static Self> {
        DIALECTS.iter().find(|dialect| dialect.name == name)
    }
}
