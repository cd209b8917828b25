//! Where packages come from: folders, the cache, and, with the feature `hub`, a hub.

use anyhow::{Context, bail, ensure};
#[cfg(feature = "hub")]
use burn_kernels::packages::Hub;
use burn_kernels::packages::{
    Backend, Cache, Commit, Decision, Lock, Package, Repository, Revision, Settings, Variant,
};
use kernels_io::{escape_path, is_there};
use std::fmt;
use std::path::{Path, PathBuf};

/// The place of a package.
pub(super) enum Place {
    Folder(PathBuf),
    Repository(Repository, Option<Revision>),
}

impl Place {
    /// Reads a place as typed.
    ///
    /// # Errors
    /// Returns an error if it is neither a folder that exists nor the name of a repository.
    pub(super) fn of(typed: &Path) -> anyhow::Result<Self> {
        let shown = escape_path(typed);
        if is_there(typed) {
            ensure!(typed.is_dir(), "{shown} is a file; a package is a folder");
            return Ok(Self::Folder(typed.to_owned()));
        }
        let text = typed.to_str().unwrap_or_default();
        let (name, revision) = match text.split_once('@') {
            Some((name, revision)) => (name, Some(revision)),
            None => (text, None),
        };
        let Ok(repository) = Repository::parse(name) else {
            bail!("{shown} is neither a folder nor a repository such as org/name@v1");
        };
        let revision = revision.map(read_revision).transpose()?;
        Ok(Self::Repository(repository, revision))
    }

    /// Reads and checks a variant of the package. With a lock, the commit is the one that it has.
    ///
    /// # Errors
    /// Returns an error if the package is not there or is refused, or if the version of a repository is not given.
    pub(super) fn open(&self, wanted: &Variant, lock: Option<&Lock>) -> anyhow::Result<Package> {
        match self {
            Self::Folder(folder) => Ok(Package::open(folder, wanted)?),
            Self::Repository(repository, revision) => {
                let revision = revision.as_ref().with_context(|| {
                    format!(
                        "the version of {repository} is missing, as in {repository}@v1; `kernels packages list \
                         {repository}` lists the versions"
                    )
                })?;
                open(repository, revision, wanted, lock)
            }
        }
    }
}

/// Shows the place as it is typed, escaped.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(folder) => f.write_str(&escape_path(folder)),
            Self::Repository(repository, None) => repository.fmt(f),
            Self::Repository(repository, Some(revision)) => write!(f, "{repository}@{revision}"),
        }
    }
}

/// Reads the revision behind the `@`. `1` is version 1, as in the names of kernels of transformers.
fn read_revision(text: &str) -> anyhow::Result<Revision> {
    let is_number = (1..=9).contains(&text.len()) && text.bytes().all(|c| c.is_ascii_digit());
    Ok(match is_number {
        true => Revision::parse(&format!("v{text}"))?,
        false => Revision::parse(text)?,
    })
}

/// Reads and checks a variant of a revision: from the hub, or from the cache alone.
///
/// # Errors
/// Returns an error if the package is not there or is refused.
pub(super) fn open(
    repository: &Repository,
    revision: &Revision,
    wanted: &Variant,
    lock: Option<&Lock>,
) -> anyhow::Result<Package> {
    let settings = Settings::from_env()?;
    #[cfg(feature = "hub")]
    let package = Hub::new(&settings)?.open(repository, revision, wanted, lock);
    #[cfg(not(feature = "hub"))]
    let package = Cache::new(settings.cache).open(repository, revision, wanted, lock);
    package.with_context(|| no_folder(repository))
}

/// Decides about each variant of a revision.
///
/// # Errors
/// Returns an error if the hub refuses or fails, or if the cache does not have the revision.
pub(super) fn variants(
    repository: &Repository,
    revision: &Revision,
    wanted: &Variant,
) -> anyhow::Result<Vec<Decision>> {
    let settings = Settings::from_env()?;
    #[cfg(feature = "hub")]
    if !settings.offline {
        let variants = Hub::new(&settings)?.variants(repository, revision, wanted);
        return variants.with_context(|| no_folder(repository));
    }
    let variants = Cache::new(settings.cache).variants(repository, revision, wanted);
    variants.with_context(|| no_folder(repository))
}

/// Returns the versions of a repository that the hub has. `None` if no hub may be asked.
///
/// # Errors
/// Returns an error if the hub refuses or fails.
pub(super) fn versions(
    settings: &Settings,
    repository: &Repository,
) -> anyhow::Result<Option<Vec<(Revision, Commit)>>> {
    #[cfg(feature = "hub")]
    if !settings.offline {
        let versions = Hub::new(settings)?.versions(repository);
        let versions = versions.with_context(|| no_folder(repository))?.into_iter();
        let of_version = |(version, commit)| (Revision::Version(version), commit);
        return Ok(Some(versions.map(of_version).collect()));
    }
    #[cfg(not(feature = "hub"))]
    let _ = (settings, repository);
    Ok(None)
}

/// Says for an error how the name was understood, and why nothing was downloaded.
fn no_folder(repository: &Repository) -> String {
    let from = match cfg!(feature = "hub") {
        true => "a repository of the hub",
        false => "a repository in the cache (a build with `--features hub` downloads)",
    };
    format!("{repository} is not a folder here, but {from}")
}

/// The option that chooses the variant.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Wanted {
    /// The variant, by the name of its folder, such as tvm-ffi01-cann85-aarch64-linux. By default, the one for the CPU
    /// of this machine.
    #[arg(long, value_name = "NAME", value_parser = Variant::parse)]
    variant: Option<Variant>,
}

impl Wanted {
    /// Returns the variant.
    pub(super) fn variant(&self) -> Variant {
        let here = || Variant::here(Backend::Cpu);
        self.variant.clone().unwrap_or_else(here)
    }
}
