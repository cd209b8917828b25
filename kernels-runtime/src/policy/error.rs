use super::GRAMMAR;
use crate::mapping::MappingError;
use kernels_io::{escape, escape_lines};
use thiserror::Error;

/// Why something is not a policy.
#[derive(Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// Nothing but blanks.
    #[error("the policy is empty; a policy is {GRAMMAR}")]
    Empty,
    /// A word that the grammar does not have.
    #[error("`{}` is not part of a policy; a policy is {GRAMMAR}", escape(.word))]
    Word {
        /// The word.
        word: String,
    },
    /// A name that there is not: of a kernel, an implementation, a reason or a reaction.
    #[error("{0}")]
    Unknown(String),
    /// A pattern with an empty segment or a character that no site name has.
    #[error(
        "`{}` is no pattern of sites: segments of a path, parted by `::` or `.`, in which \
         `*` stands for any characters and `?` for one",
        escape(.pattern)
    )]
    Pattern {
        /// The pattern.
        pattern: String,
    },
    /// A rule for layers that says none.
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
    /// A strict policy asks for a kernel that no site of the program can call.
    #[error("{0}")]
    NeverCalled(String),
    /// Two words that contradict each other or say the same twice.
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
    /// A mapping that can't be.
    #[error(transparent)]
    Mapping(#[from] MappingError),
    /// TOML that is no policy.
    #[error("the policy is not valid TOML: {}", escape_lines(.0))]
    Toml(String),
    /// A file that can't be read: the system refuses, it is no plain file, or larger than a policy.
    #[error("the policy file {0}")]
    Unreadable(String),
    /// A file that holds no policy.
    #[error("the policy file {}: {}", escape(.path), escape_lines(.problem))]
    File {
        /// The file.
        path: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The environment variable is not Unicode.
    #[error("the environment variable BURN_KERNELS is not valid Unicode; a policy is {GRAMMAR}")]
    NotUnicode,
    /// The environment variable holds no policy.
    #[error("the environment variable BURN_KERNELS is `{}`: {source}", escape(.value))]
    Environment {
        /// Its value.
        value: String,
        /// What is wrong with it.
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
