//! `kernels packages list`: packages in the cache, versions of a repository, variants of a package.

use super::source::{self, Place, Wanted};
use crate::output;
use crate::screen::Width;
use anyhow::ensure;
use burn_kernels::packages::{self, Cache, Commit, Decision, Repository, Revision, Settings};
use kernels_io::{Cell, Page, Table, Tone, escape_path};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// List the packages in the cache, the versions of a repository, or the variants of a package
///
/// A folder, or a repository with its version (org/name@v1), has its variants listed, each with the reason against it.
/// A repository without a version has its versions listed. Nothing is downloaded but lists.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// A folder, org/name or org/name@v1. Without it, the packages in the cache are listed.
    #[arg(value_name = "PACKAGE")]
    package: Option<PathBuf>,
    #[command(flatten)]
    wanted: Wanted,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    width: Width,
}

/// Runs the command.
///
/// # Errors
/// Returns an error if the cache or the folder can't be read, if the hub refuses or fails, or if nothing is found.
pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let place = args.package.as_deref().map(Place::of).transpose()?;
    let wanted = args.wanted.variant();
    match &place {
        None => list_commits(args, None),
        Some(Place::Repository(repository, None)) => list_commits(args, Some(repository)),
        Some(Place::Repository(repository, Some(revision))) => {
            let variants = source::variants(repository, revision, &wanted)?;
            list_variants(args, &format!("{repository}@{revision}"), &variants)
        }
        Some(Place::Folder(folder)) => {
            let variants = packages::variants(folder, &wanted)?;
            list_variants(args, &escape_path(folder), &variants)
        }
    }
}

/// A commit of a repository.
struct Row {
    repository: Repository,
    revision: Option<Revision>,
    commit: Commit,
    is_cached: bool,
}

/// Lists the commits of a repository, or those in the cache.
fn list_commits(args: &Args, of: Option<&Repository>) -> anyhow::Result<()> {
    let settings = Settings::from_env()?;
    let cached = cached(&settings, of)?;
    let on_hub = match of {
        Some(repository) => source::versions(&settings, repository)?,
        None => None,
    };
    let rows = match (on_hub, of) {
        (Some(versions), Some(repository)) => {
            let row = |(revision, commit)| Row {
                repository: repository.clone(),
                is_cached: cached
                    .iter()
                    .any(|row| row.is_cached && row.commit == commit),
                revision: Some(revision),
                commit,
            };
            versions.into_iter().map(row).collect()
        }
        _ => cached,
    };
    let cache = escape_path(&settings.cache);
    if args.json {
        let rows: Vec<_> = rows.iter().map(Row::json).collect();
        return output::json(
            &json!({ "cache": settings.cache.to_string_lossy(), "packages": rows }),
        );
    }
    match of {
        Some(repository) => ensure!(
            !rows.is_empty(),
            "{repository} has no version, and nothing of it is in the cache {cache}"
        ),
        None if rows.is_empty() => {
            output::note(format_args!("there is no package in the cache {cache}"));
            return Ok(());
        }
        None => {}
    }
    let mut table = Table::new(["repository", "revision", "commit", "in the cache"]);
    rows.iter().for_each(|row| table.row(row.cells()));
    let mut page = Page::new(args.width.look());
    page.table(&table);
    output::page(&page)
}

/// Returns the commits in the cache, those of one repository if it is given.
fn cached(settings: &Settings, of: Option<&Repository>) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::new();
    for cached in Cache::new(&settings.cache).repositories()? {
        if of.is_some_and(|of| *of != cached.repository) {
            continue;
        }
        let row = |revision, commit: &Commit| Row {
            repository: cached.repository.clone(),
            revision,
            commit: commit.clone(),
            is_cached: cached.commits.contains(commit),
        };
        let named = cached.revisions.iter();
        rows.extend(named.map(|(revision, commit)| row(Some(revision.clone()), commit)));
        let is_named = |commit: &&Commit| cached.revisions.iter().any(|(_, own)| own == *commit);
        let others = cached.commits.iter().filter(|commit| !is_named(commit));
        rows.extend(others.map(|commit| row(None, commit)));
    }
    Ok(rows)
}

impl Row {
    fn json(&self) -> Value {
        json!({
            "repository": self.repository.to_string(),
            "revision": self.revision.as_ref().map(Revision::to_string),
            "commit": self.commit.as_str(),
            "cached": self.is_cached,
        })
    }

    fn cells(&self) -> [Cell; 4] {
        let revision = self.revision.as_ref().map(Revision::to_string);
        [
            (&self.repository).into(),
            revision.unwrap_or_else(|| "-".into()).into(),
            (&self.commit).into(),
            match self.is_cached {
                true => Cell::new(Tone::Good, "yes"),
                false => "no".into(),
            },
        ]
    }
}

/// Lists variants with the reason against each.
fn list_variants(args: &Args, package: &str, variants: &[Decision]) -> anyhow::Result<()> {
    if args.json {
        let variant =
            |decision: &Decision| json!({ "name": decision.name, "against": decision.against });
        let variants: Vec<_> = variants.iter().map(variant).collect();
        let wanted = args.wanted.variant().to_string();
        let package = args.package.as_deref().map(Path::to_string_lossy);
        return output::json(
            &json!({ "package": package, "wanted": wanted, "variants": variants }),
        );
    }
    ensure!(
        !variants.is_empty(),
        "{package} has no variant of a package, in the folder build/ or beside it"
    );
    let mut table = Table::new(["variant", "here"]);
    for Decision { name, against } in variants {
        let here = match against {
            None => Cell::new(Tone::Good, "yes"),
            Some(reason) => Cell::new(Tone::Caution, reason),
        };
        table.row([name.into(), here]);
    }
    let mut page = Page::new(args.width.look());
    page.table(&table);
    output::page(&page)
}
