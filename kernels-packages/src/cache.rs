//! The cache of Hugging Face's programs.
//!
//! ```text
//! kernels--org--name/refs/v1              the commit of a branch or a tag
//! kernels--org--name/snapshots/<commit>/  the files, links into blobs/
//! kernels--org--name/blobs/<etag>
//! ```
//!
//! Repositories of the type `model`, `models--org--name`, are read too, as Python's loader does. Python writes no
//! `refs/v1`: a package that Python downloaded is found by its commit or by a lock.

use crate::error::Error;
use crate::lock::Lock;
use crate::package::Package;
use crate::repository::{Commit, Origin, Repository, Revision};
use crate::variant::Variant;
use kernels_io::{Limit, escape_path, is_there, read_text};
use std::path::{Path, PathBuf};

const REF: Limit = Limit {
    what: "a ref of a cache",
    bytes: 1 << 10,
};

/// A folder with repositories.
#[derive(Clone, Debug)]
pub struct Cache {
    root: PathBuf,
}

impl Cache {
    /// Takes a folder, which need not exist.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Reads a package that was downloaded before, without a network.
    ///
    /// The commit is that of the revision if it is one, that of the lock if it has one, or that of the branch or the
    /// tag when it was downloaded.
    ///
    /// # Errors
    /// Returns an error if the commit is not in the cache, and those of [`Package::open`].
    pub fn open(
        &self,
        repository: &Repository,
        revision: &Revision,
        wanted: &Variant,
        lock: Option<&Lock>,
    ) -> Result<Package, Error> {
        let locked = lock.and_then(|lock| lock.commit(repository, revision, wanted));
        let commit = match locked.cloned().or_else(|| revision.commit()) {
            Some(commit) => commit,
            None => self.commit_of(repository, revision)?,
        };
        self.open_commit(repository, revision, commit, wanted)
    }

    /// Reads a package of a commit.
    pub(crate) fn open_commit(
        &self,
        repository: &Repository,
        revision: &Revision,
        commit: Commit,
        wanted: &Variant,
    ) -> Result<Package, Error> {
        let Some(snapshot) = self.snapshot(repository, &commit) else {
            return Err(self.missing(repository, &format!("the commit {commit}")));
        };
        let origin = Origin::Repository {
            repository: repository.clone(),
            revision: revision.clone(),
            commit,
        };
        Package::of(&snapshot, wanted, origin)
    }

    fn missing(&self, repository: &Repository, what: &str) -> Error {
        Error::Setting(format!(
            "{what} of {repository} is not in the cache {}; download it while the hub can be reached",
            escape_path(&self.root)
        ))
    }

    /// Returns the commit that a branch or a tag had when it was downloaded.
    fn commit_of(&self, repository: &Repository, revision: &Revision) -> Result<Commit, Error> {
        for folder in self.folders(repository) {
            let file = folder.join("refs").join(revision.name());
            if is_there(&file) {
                let text = read_text(&file, REF)?;
                return Commit::parse(text.trim()).map_err(|error| Error::Malformed {
                    file,
                    problem: error.to_string(),
                });
            }
        }
        Err(self.missing(repository, &format!("`{revision}`")))
    }

    fn snapshot(&self, repository: &Repository, commit: &Commit) -> Option<PathBuf> {
        let folders = self.folders(repository).into_iter();
        let mut snapshots = folders.map(|folder| folder.join("snapshots").join(commit.as_str()));
        snapshots.find(|place| is_there(place))
    }

    /// Returns the folders that may have the repository.
    fn folders(&self, repository: &Repository) -> [PathBuf; 2] {
        ["kernels", "models"].map(|kind| self.root.join(repository.folder(kind)))
    }

    /// Returns the folder that downloads go to.
    #[cfg(feature = "hub")]
    pub(crate) fn folder(&self, repository: &Repository) -> PathBuf {
        let [folder, _] = self.folders(repository);
        folder
    }

    /// Returns the folder of all repositories.
    pub fn root(&self) -> &Path {
        &self.root
    }
}
