//! Where packages come from: folders, and repositories of a hub.

use crate::error::Error;
use kernels_io::escape_path;
use std::fmt;
use std::path::PathBuf;

/// A repository of a hub: `organisation/name`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Repository {
    owner: String,
    name: String,
}

impl Repository {
    /// Reads `organisation/name`.
    ///
    /// # Errors
    /// Returns an error if the text is something else.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let wrong = || {
            let shown = crate::metadata::short(text);
            Error::Setting(format!(
                "`{shown}` is not a repository: organisation/name, of letters, digits, `-`, `_` and `.`"
            ))
        };
        let (owner, name) = text.split_once('/').ok_or_else(wrong)?;
        match [owner, name].into_iter().all(is_part) {
            true => Ok(Self {
                owner: owner.into(),
                name: name.into(),
            }),
            false => Err(wrong()),
        }
    }

    /// Returns the name of the folder in a cache, for a type of repositories: `kernels` or `models`.
    pub(crate) fn folder(&self, kind: &str) -> String {
        format!("{kind}--{}--{}", self.owner, self.name)
    }
}

impl fmt::Display for Repository {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.owner, self.name)
    }
}

/// As the hub has it. `--` separates the parts of folders in the cache.
fn is_part(text: &str) -> bool {
    let of_part = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_' | b'.');
    (1..=96).contains(&text.len())
        && text.bytes().all(of_part)
        && !text.starts_with(['.', '-'])
        && !text.ends_with(['.', '-'])
        && !text.contains("--")
        && !text.contains("..")
}

/// The state of a repository that is wanted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Revision {
    /// A version: the branch or the tag `v<N>`.
    Version(u64),
    /// A branch or a tag, or a commit by its 40 or 64 digits.
    Name(String),
}

impl Revision {
    /// Reads the name of a branch or a tag, or a commit. `v1` is version 1.
    ///
    /// # Errors
    /// Returns an error if no branch can have the name.
    pub fn parse(text: &str) -> Result<Self, Error> {
        if let Some(version) = version_of(text) {
            return Ok(Self::Version(version));
        }
        let of_name = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_' | b'.' | b'/');
        let fits = (1..=200).contains(&text.len())
            && text.bytes().all(of_name)
            && text
                .split('/')
                .all(|part| !part.is_empty() && !part.starts_with('.') && !part.starts_with('-'))
            && !text.contains("..");
        match fits {
            true => Ok(Self::Name(text.into())),
            false => Err(Error::Setting(format!(
                "`{}` is not the name of a branch, a tag or a commit",
                crate::metadata::short(text)
            ))),
        }
    }

    /// Returns the commit, if the revision is one.
    pub(crate) fn commit(&self) -> Option<Commit> {
        match self {
            Self::Name(name) => Commit::parse(name).ok(),
            Self::Version(_) => None,
        }
    }

    /// Returns the name of the branch or the tag.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Version(version) => format!("v{version}"),
            Self::Name(name) => name.clone(),
        }
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}

/// Returns the version that a branch or a tag is.
pub(crate) fn version_of(name: &str) -> Option<u64> {
    let digits = name.strip_prefix('v')?;
    let plain =
        digits.bytes().all(|c| c.is_ascii_digit()) && (digits == "0" || !digits.starts_with('0'));
    plain.then(|| digits.parse().ok()).flatten()
}

/// A commit by all its digits, 40 or 64, in lower case.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Commit(String);

impl Commit {
    /// Reads a commit.
    ///
    /// # Errors
    /// Returns an error if the text is something else.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let digits = text.bytes().all(|c| c.is_ascii_hexdigit());
        match digits && matches!(text.len(), 40 | 64) {
            true => Ok(Self(text.to_ascii_lowercase())),
            false => Err(Error::Setting(format!(
                "`{}` is not a commit: 40 or 64 hexadecimal digits",
                crate::metadata::short(text)
            ))),
        }
    }

    /// Returns the digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Commit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Where a package comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A folder that somebody named.
    Folder(PathBuf),
    /// A commit of a repository, from the cache or from a hub.
    Repository {
        /// The repository.
        repository: Repository,
        /// The revision that was asked for.
        revision: Revision,
        /// The commit that it was.
        commit: Commit,
    },
}

impl Origin {
    /// Returns the version that the package must be.
    pub(crate) fn version(&self) -> Option<u64> {
        match self {
            Self::Repository {
                revision: Revision::Version(version),
                ..
            } => Some(*version),
            _ => None,
        }
    }
}

/// Shows the origin, escaped.
impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(place) => f.write_str(&escape_path(place)),
            Self::Repository {
                repository,
                revision,
                commit,
            } => write!(f, "{repository}@{revision}, commit {}", &commit.0[..12]),
        }
    }
}
