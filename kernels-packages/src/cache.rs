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
use crate::folder::{folders, list, variants};
use crate::lock::Lock;
use crate::package::Package;
use crate::repository::{Commit, Origin, Repository, Revision};
use crate::variant::{Decision, Variant};
use kernels_io::{Limit, escape_path, is_there, read_text};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const REF: Limit = Limit {
    what: "a ref of a cache",
    bytes: 1 << 10,
};

/// The kinds of repositories, as the names of folders begin.
const KINDS: [&str; 2] = ["kernels", "models"];

/// A repository in a cache.
#[derive(Clone, Debug, PartialEq)]
pub struct Cached {
    /// The repository.
    pub repository: Repository,
    /// The branches and tags with their commits when they were downloaded, by name. Those with `/` in their names are
    /// not among them.
    pub revisions: Vec<(Revision, Commit)>,
    /// The commits of which files are there.
    pub commits: Vec<Commit>,
}

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

    /// Returns the repositories with packages, by name. A repository of models is one of them if it has a folder
    /// `build`.
    ///
    /// # Errors
    /// Returns an error if a folder can't be listed, or if a ref is no commit.
    pub fn repositories(&self) -> Result<Vec<Cached>, Error> {
        let mut found = BTreeMap::<Repository, Cached>::new();
        let mut names = folders(&self.root)?;
        names.sort(); // `kernels` first, as in `open`
        for name in names {
            let Some((kind, repository)) = of_folder(&name) else {
                continue;
            };
            let folder = self.root.join(&name);
            let snapshots = folder.join("snapshots");
            let commits = folders(&snapshots)?.into_iter();
            let commits: Vec<_> = commits
                .filter_map(|name| Commit::parse(&name).ok())
                .collect();
            let has_build =
                |commit: &Commit| is_there(&snapshots.join(commit.as_str()).join("build"));
            if kind == "models" && !commits.iter().any(has_build) {
                continue;
            }
            let cached = found.entry(repository.clone()).or_insert_with(|| Cached {
                repository,
                revisions: Vec::new(),
                commits: Vec::new(),
            });
            for (revision, commit) in refs(&folder)? {
                // `open` takes the first one as well.
                if cached.revisions.iter().all(|(own, _)| *own != revision) {
                    cached.revisions.push((revision, commit));
                }
            }
            for commit in commits {
                if !cached.commits.contains(&commit) {
                    cached.commits.push(commit);
                }
            }
        }
        for cached in found.values_mut() {
            cached
                .revisions
                .sort_by_cached_key(|(revision, _)| revision.to_string());
            cached.commits.sort_by_cached_key(Commit::to_string);
        }
        Ok(found.into_values().collect())
    }

    /// Decides about each variant of a revision that is in the cache.
    ///
    /// # Errors
    /// Returns an error if the commit is not in the cache.
    pub fn variants(
        &self,
        repository: &Repository,
        revision: &Revision,
        wanted: &Variant,
    ) -> Result<Vec<Decision>, Error> {
        let commit = match revision.commit() {
            Some(commit) => commit,
            None => self.commit_of(repository, revision)?,
        };
        match self.snapshot(repository, &commit) {
            Some(snapshot) => variants(&snapshot, wanted),
            None => Err(self.missing(repository, &format!("the commit {commit}"))),
        }
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
                return read_ref(&file);
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
        KINDS.map(|kind| self.root.join(repository.folder(kind)))
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

/// Returns the kind and the repository of a folder in a cache.
fn of_folder(name: &str) -> Option<(&str, Repository)> {
    let (kind, rest) = name.split_once("--")?;
    let (owner, own) = rest.split_once("--")?;
    let repository = Repository::parse(&format!("{owner}/{own}")).ok()?;
    KINDS.contains(&kind).then_some((kind, repository))
}

/// Returns the branches and tags of a repository's folder.
fn refs(folder: &Path) -> Result<Vec<(Revision, Commit)>, Error> {
    let folder = folder.join("refs");
    let mut refs = Vec::new();
    if !is_there(&folder) {
        return Ok(refs);
    }
    for entry in list(&folder)? {
        let name = entry.file_name();
        let revision = Revision::parse(&name.to_string_lossy());
        if let (Ok(revision), false) = (revision, entry.path().is_dir()) {
            refs.push((revision, read_ref(&entry.path())?));
        }
    }
    Ok(refs)
}

fn read_ref(file: &Path) -> Result<Commit, Error> {
    let text = read_text(file, REF)?;
    Commit::parse(text.trim()).map_err(|error| Error::Malformed {
        file: file.to_owned(),
        problem: error.to_string(),
    })
}
