use super::GRAMMAR;
use crate::mapping::MappingError;
use crate::tune::TuneError;
use kernels_io::{escape, escape_lines};
use thiserror::Error;

/// The reason why something is not a valid policy.
#[derive(Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// An empty or blank text.
    #[error("the policy is empty; a policy is {GRAMMAR}")]
    Empty,
    /// A word that is not in the grammar.
    #[error("`{}` is not part of a policy; a policy is {GRAMMAR}", escape(.word))]
    Word {
        /// The word.
        word: String,
    },
    /// An unknown name of a kernel, an implementation, a reason or a reaction.
    #[error("{0}")]
    Unknown(String),
    /// A pattern with an empty segment or with a character that no site name has.
    #[error(
        "invalid pattern `{}` of sites: segments of a path, separated by `::` or `.`, in which \
         `*` stands for any characters and `?` for one",
        escape(.pattern)
    )]
    Pattern {
        /// The pattern.
        pattern: String,
    },
    /// A rule for layers that names no layers.
    #[error(
        "`{}` says no layers; write `first:N`, `last:N` or `layers:I-J`, counted from 0",
        escape(.word)
    )]
    Layers {
        /// The word, without its sign.
        word: String,
    },
    /// A pattern that no site matches.
    #[error("no site matches `{}`; {}", escape(.pattern), nearest(.near))]
    NoSite {
        /// The pattern.
        pattern: String,
        /// The names of the nearest sites.
        near: String,
    },
    /// A kernel that no site of the program can call, under a strict policy.
    #[error("{0}")]
    NeverCalled(String),
    /// Two words that contradict or repeat each other.
    #[error(
        "`{}` and `{}` can't stand in one policy; a policy is {GRAMMAR}",
        escape(.first),
        escape(.second)
    )]
    Contradiction {
        /// The earlier word.
        first: String,
        /// The later word.
        second: String,
    },
    /// An invalid mapping.
    #[error(transparent)]
    Mapping(#[from] MappingError),
    /// A file of tuned choices that can't be used.
    #[error(transparent)]
    Tune(#[from] TuneError),
    /// TOML that is not a policy.
    #[error("the policy is not valid TOML: {}", escape_lines(.0))]
    Toml(String),
    /// A file that can't be read: the system refuses it, it is not a regular file, or it is too large for a policy.
    #[error("the policy file {0}")]
    Unreadable(String),
    /// A file that does not hold a policy.
    #[error("the policy file {}: {}", escape(.path), escape_lines(.problem))]
    File {
        /// The file.
        path: String,
        /// The problem with the file.
        problem: String,
    },
    /// The environment variable is not Unicode.
    #[error("the environment variable BURN_KERNELS is not valid Unicode; a policy is {GRAMMAR}")]
    NotUnicode,
    /// The environment variable does not hold a policy.
    #[error("the environment variable BURN_KERNELS is `{}`: {source}", escape(.value))]
    Environment {
        /// Its value.
        value: String,
        /// The problem with the value.
        source: Box<PolicyError>,
    },
}

fn nearest(near: &str) -> String {
    if near.is_empty() {
        "no site is linked in".to_owned()
    } else {
        format!("the nearest are {near}")
    }
}
