//! Packages of a hub, by the requests of Hugging Face's programs:
//!
//! * `/api/kernels/<repository>/refs`: branches and tags with their commits;
//! * `/api/kernels/<repository>/tree/<commit>/build`: the variants, and `…/build/<variant>?recursive=true`: their
//!   files;
//! * `/kernels/<repository>/resolve/<commit>/<file>`: a file.
//!
//! A file goes into the cache when its size and its hash are those of the tree: SHA-256 for large files, and git's
//! SHA-1 for others. It appears there complete or not at all. Two processes that download one file do so one after
//! the other.

mod download;
mod http;
mod tree;

use crate::cache::Cache;
use crate::error::Error;
use crate::lock::Lock;
use crate::package::Package;
use crate::repository::{Commit, Repository, Revision, version_of};
use crate::settings::Settings;
use crate::variant::{Decision, Variant};
use http::Client;
use serde::Deserialize;
use std::time::Duration;

/// How long a hub may take to answer, and to send the next bytes.
const PATIENCE: Duration = Duration::from_secs(30);

/// The most bytes of a list of branches.
const REFS: u64 = 4 << 20;

/// A hub with a cache.
#[derive(Debug)]
pub struct Hub {
    client: Client,
    cache: Cache,
    offline: bool,
}

#[derive(Deserialize)]
struct Refs {
    #[serde(default)]
    branches: Vec<Ref>,
    #[serde(default)]
    tags: Vec<Ref>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Ref {
    name: String,
    target_commit: String,
}

impl Hub {
    /// Makes a client. Nothing is requested yet.
    ///
    /// # Errors
    /// Returns an error if the address of the hub is not one of HTTP.
    pub fn new(settings: &Settings) -> Result<Self, Error> {
        Self::with_patience(settings, PATIENCE)
    }

    /// Makes a client that waits so long for an answer and for the next bytes of it.
    ///
    /// # Errors
    /// Returns the errors of [`new`](Self::new).
    pub fn with_patience(settings: &Settings, patience: Duration) -> Result<Self, Error> {
        Ok(Self {
            client: Client::new(&settings.endpoint, settings.token.clone(), patience)?,
            cache: Cache::new(&settings.cache),
            offline: settings.offline,
        })
    }

    /// Returns the versions of a repository with their commits, the newest first.
    ///
    /// # Errors
    /// Returns an error if the hub refuses or fails, or may not be asked.
    pub fn versions(&self, repository: &Repository) -> Result<Vec<(u64, Commit)>, Error> {
        let Refs { branches, tags } = self.refs(repository)?;
        let mut versions = Vec::new();
        // Branches come first, as Python's loader knows them alone.
        for one in branches.into_iter().chain(tags) {
            let version = version_of(&one.name);
            if let Some(version) =
                version.filter(|version| versions.iter().all(|(other, _)| other != version))
            {
                versions.push((version, self.client.commit(&one.target_commit)?));
            }
        }
        versions.sort_by_key(|(version, _)| std::cmp::Reverse(*version));
        Ok(versions)
    }

    /// Decides about each variant that the hub has of a revision. No file is downloaded.
    ///
    /// # Errors
    /// Returns an error if the hub refuses or fails, or may not be asked.
    pub fn variants(
        &self,
        repository: &Repository,
        revision: &Revision,
        wanted: &Variant,
    ) -> Result<Vec<Decision>, Error> {
        if self.offline {
            return Err(offline(&format!("the variants of {repository}")));
        }
        let commit = match revision.commit() {
            Some(commit) => commit,
            None => self.resolve(repository, revision)?,
        };
        let decisions = tree::decisions(&self.client, repository, &commit, wanted)?;
        Ok(decisions
            .into_iter()
            .map(|(decision, _)| decision)
            .collect())
    }

    /// Reads a package, and downloads before that what the cache does not have of it.
    ///
    /// The commit is that of the lock if it has one. If the settings say offline, the cache alone is read.
    ///
    /// # Errors
    /// Returns an error if the hub refuses or fails, if no variant is the wanted one, or if a file can't be written,
    /// and those of [`Package::open`].
    pub fn open(
        &self,
        repository: &Repository,
        revision: &Revision,
        wanted: &Variant,
        lock: Option<&Lock>,
    ) -> Result<Package, Error> {
        if self.offline {
            return self.cache.open(repository, revision, wanted, lock);
        }
        let locked = lock.and_then(|lock| lock.commit(repository, revision, wanted));
        let commit = match locked.cloned().or_else(|| revision.commit()) {
            Some(commit) => commit,
            None => self.resolve(repository, revision)?,
        };
        if let Some(package) = self.cached(repository, revision, &commit, wanted) {
            return Ok(package);
        }
        let folder = self.cache.folder(repository);
        download::variant(&self.client, repository, &commit, wanted, &folder)?;
        if locked.is_none() && revision.commit().is_none() {
            download::write_ref(&folder, revision, &commit)?;
        }
        self.cache.open_commit(repository, revision, commit, wanted)
    }

    /// Returns the package if the cache has it whole, which only digests tell.
    fn cached(
        &self,
        repository: &Repository,
        revision: &Revision,
        commit: &Commit,
        wanted: &Variant,
    ) -> Option<Package> {
        let package = self
            .cache
            .open_commit(repository, revision, commit.clone(), wanted)
            .ok()?;
        package.metadata().digest.is_some().then_some(package)
    }

    /// Returns the commit of a branch or a tag.
    fn resolve(&self, repository: &Repository, revision: &Revision) -> Result<Commit, Error> {
        let Refs { branches, tags } = self.refs(repository)?;
        let name = revision.name();
        let versions: Vec<_> = branches
            .iter()
            .chain(&tags)
            .filter_map(|one| version_of(&one.name))
            .collect();
        match branches.iter().chain(&tags).find(|one| one.name == name) {
            Some(one) => self.client.commit(&one.target_commit),
            None => Err(Error::Hub {
                what: repository.to_string(),
                problem: format!(
                    "there is no branch or tag `{name}`; the versions are {versions:?}"
                ),
            }),
        }
    }

    fn refs(&self, repository: &Repository) -> Result<Refs, Error> {
        if self.offline {
            return Err(offline(&format!("the versions of {repository}")));
        }
        self.client
            .json(&format!("/api/kernels/{repository}/refs"), REFS)
    }
}

fn offline(what: &str) -> Error {
    Error::Setting(format!(
        "{what} are known to the hub alone, and HF_HUB_OFFLINE is set"
    ))
}
