//! Lists of files.

use super::http::Client;
use crate::digest::sha256;
use crate::error::Error;
use crate::folder::MOST_BYTES;
use crate::repository::{Commit, Repository};
use crate::variant::{Decision, Variant, decide};
use data_encoding::HEXLOWER;
use serde::Deserialize;
use sha1::{Digest as _, Sha1};

/// The most bytes of a part of a list, and the most parts.
const LIST: u64 = 8 << 20;
const MOST_PARTS: usize = 50;

/// The largest file, and the most files.
const LARGEST: u64 = 512 << 20;
const MOST_FILES: usize = 4096;

#[derive(Deserialize)]
struct Entry {
    #[serde(rename = "type")]
    kind: String,
    path: String,
    #[serde(default)]
    size: u64,
    #[serde(default)]
    oid: String,
    lfs: Option<Large>,
}

#[derive(Deserialize)]
struct Large {
    oid: String,
    size: u64,
}

/// A file of a variant.
#[derive(Debug)]
pub(super) struct Remote {
    /// The path in the repository, whose parts are names.
    pub(super) path: String,
    pub(super) size: u64,
    /// The SHA-256, or git's SHA-1 of a small file: the name in the cache.
    pub(super) hash: String,
}

impl Remote {
    /// Returns `true` if these are the bytes of the file.
    pub(super) fn is(&self, bytes: &[u8]) -> bool {
        match self.hash.len() {
            64 => HEXLOWER.encode(&sha256(bytes)) == self.hash,
            _ => {
                let mut object = Sha1::new_with_prefix(format!("blob {}\0", bytes.len()));
                object.update(bytes);
                HEXLOWER.encode(&object.finalize()) == self.hash
            }
        }
    }
}

/// Decides about each variant of a commit.
pub(super) fn decisions(
    client: &Client,
    repository: &Repository,
    commit: &Commit,
    wanted: &Variant,
) -> Result<Vec<(Decision, Option<Variant>)>, Error> {
    let build = list(client, repository, commit, "build")?;
    let folders = build.iter().filter(|entry| entry.kind == "directory");
    let names = folders.filter_map(|entry| entry.path.strip_prefix("build/"));
    Ok(decide(names, wanted))
}

/// Returns the files of the variant that is wanted.
pub(super) fn files(
    client: &Client,
    repository: &Repository,
    commit: &Commit,
    wanted: &Variant,
) -> Result<Vec<Remote>, Error> {
    let decisions = decisions(client, repository, commit, wanted)?;
    let Some((Decision { name, .. }, _)) = decisions.iter().find(|(_, variant)| variant.is_some())
    else {
        let refused = decisions.into_iter().map(|(decision, _)| decision);
        return Err(Error::NoVariant {
            place: format!("{repository}, commit {commit}"),
            wanted: wanted.to_string(),
            variants: refused
                .map(|one| (one.name, one.against.unwrap_or_default()))
                .collect(),
        });
    };
    let place = format!("build/{name}");
    let entries = list(
        client,
        repository,
        commit,
        &format!("{place}?recursive=true"),
    )?;
    let files = entries
        .into_iter()
        .filter(|entry| entry.kind == "file" && !is_bytecode(&entry.path));
    let files = files
        .map(|entry| file(entry, &place))
        .collect::<Result<Vec<_>, _>>();
    let files = files.and_then(|files| {
        let total = files.iter().map(|file| file.size).sum::<u64>();
        match total <= MOST_BYTES {
            true => Ok(files),
            false => Err(format!(
                "the files of {place} have {total} bytes, more than are supported"
            )),
        }
    });
    files.map_err(|problem| Error::Hub {
        what: format!("{repository}, commit {commit}"),
        problem,
    })
}

/// Returns the entries of a folder, from all parts of the list.
fn list(
    client: &Client,
    repository: &Repository,
    commit: &Commit,
    folder: &str,
) -> Result<Vec<Entry>, Error> {
    let mut path = format!("/api/kernels/{repository}/tree/{commit}/{folder}");
    let mut entries = Vec::new();
    let failed = |problem: String| Error::Hub {
        what: format!("{repository}, commit {commit}"),
        problem,
    };
    for _ in 0..MOST_PARTS {
        let answer = client.get(&path, LIST)?;
        let next = answer.next(client)?;
        entries.extend(answer.json::<Vec<Entry>>(LIST)?);
        if entries.len() > MOST_FILES {
            return Err(failed(format!(
                "a package may have at most {MOST_FILES} files"
            )));
        }
        match next {
            Some(next) => path = next,
            None => return Ok(entries),
        }
    }
    Err(failed(format!(
        "the list of files has more than {MOST_PARTS} parts"
    )))
}

/// Python's compiled modules, which nobody downloads.
fn is_bytecode(path: &str) -> bool {
    path.ends_with(".pyc") || path.split('/').any(|part| part == "__pycache__")
}

fn file(entry: Entry, place: &str) -> Result<Remote, String> {
    let (hash, size) = match entry.lfs {
        Some(large) => (large.oid, large.size),
        None => (entry.oid, entry.size),
    };
    let path = entry.path;
    let inside = path
        .strip_prefix(place)
        .and_then(|rest| rest.strip_prefix('/'));
    let of_name = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_' | b'.' | b'+');
    let is_name = |part: &str| {
        !part.is_empty() && !part.starts_with("..") && part != "." && part.bytes().all(of_name)
    };
    if !inside.is_some_and(|inside| inside.split('/').all(is_name)) {
        return Err(format!(
            "the list of files has the path `{}`",
            crate::metadata::short(&path)
        ));
    }
    if size > LARGEST {
        return Err(format!(
            "{path} has {size} bytes, more than the {LARGEST} that are supported"
        ));
    }
    match matches!(hash.len(), 40 | 64)
        && hash
            .bytes()
            .all(|c| c.is_ascii_digit() || (b'a'..=b'f').contains(&c))
    {
        true => Ok(Remote { path, size, hash }),
        false => Err(format!("the list of files has no hash of {path}")),
    }
}
