//! `metadata.json` of a variant, as Hugging Face's `kernels` has it.

use crate::digest::Digest;
use kernels_io::Limit;
use serde::{Deserialize, Serialize};

/// The largest `metadata.json`.
pub(crate) const LIMIT: Limit = Limit::mib("a metadata.json", 4);

/// The name of the file.
pub(crate) const FILE: &str = "metadata.json";

/// The description that a variant has of itself. Fields that Python's loader does not know either are ignored, as it does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Metadata {
    /// The name of the package: lower-case letters, digits and dashes.
    pub name: String,
    /// The key by which Python keeps the loaded package, the name of a module.
    pub id: String,
    /// The version: `1` is the branch `v1` of a repository.
    pub version: u64,
    /// The licence.
    pub license: String,
    /// The repository that the kernels come from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upstream: Option<String>,
    /// The repository of the sources.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The packages that the Python in the package imports. A Rust program needs none of them.
    pub python_depends: Vec<String>,
    /// The packages of kernels that this one calls.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kernel_depends: Vec<Dependency>,
    /// The hardware.
    pub backend: BackendInfo,
    /// The digests of all other files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<Digest>,
}

/// The hardware that a variant says it is for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BackendInfo {
    /// The name: `cpu`, `cann`, `cuda`, …
    #[serde(rename = "type")]
    pub kind: String,
    /// The architectures, of CANN `ascend910b` and the like.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub archs: Option<Vec<String>>,
}

/// A package that another one calls.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Dependency {
    /// The repository.
    pub repo_id: String,
    /// The version, or else a revision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
    /// The revision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
}

impl Metadata {
    /// Reads the file.
    ///
    /// # Errors
    /// Returns what is wrong with which field.
    pub fn from_json(json: &[u8]) -> Result<Self, String> {
        let read: Self = serde_json::from_slice(json).map_err(|error| error.to_string())?;
        if !is_name(&read.name) {
            return Err(format!(
                "name: `{}` must have lower-case letters, digits and dashes, begin with a letter \
                 and not end with a dash",
                short(&read.name)
            ));
        }
        if !is_id(&read.id) {
            return Err(format!(
                "id: `{}` must be the name of a module: letters, digits and _",
                short(&read.id)
            ));
        }
        if let Some(digest) = &read.digest {
            digest.check()?;
        }
        Ok(read)
    }

    /// Returns the file, with a line end.
    pub fn to_json(&self) -> String {
        let json = serde_json::to_string_pretty(self).expect("text and numbers are JSON");
        json + "\n"
    }
}

/// The longest name and id.
const LONGEST: usize = 200;

fn is_name(name: &str) -> bool {
    let of_word = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit();
    (2..=LONGEST).contains(&name.len())
        && name.bytes().all(|c| of_word(c) || c == b'-')
        && name.as_bytes()[0].is_ascii_lowercase()
        && !name.ends_with('-')
}

fn is_id(id: &str) -> bool {
    let of_word = |c: u8| c.is_ascii_alphanumeric() || c == b'_';
    (1..=LONGEST).contains(&id.len())
        && id.bytes().all(of_word)
        && !id.as_bytes()[0].is_ascii_digit()
}

/// Returns the beginning of a text, to show it.
pub(crate) fn short(text: &str) -> std::borrow::Cow<'_, str> {
    kernels_io::shorten(text, 100)
}
