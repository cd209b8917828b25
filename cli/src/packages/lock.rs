//! `kernels packages lock`: the lock of a program's packages, and whether packages are those in it.

use super::source::{self, Place, Wanted};
use crate::output;
use crate::screen::Width;
use anyhow::{Context, ensure};
use burn_kernels::packages::{LOCK_FILE, Lock, Locked, Package, Variant};
use kernels_io::{Cell, Page, Table, Tone, escape_path, is_there};
use std::collections::HashSet;
use std::path::PathBuf;

/// Lock packages byte for byte, or compare them with a lock
///
/// Each package is read and checked, and takes the place of its earlier state in the file. Of a branch or a tag, it is
/// the commit that the hub has now. A program that loads with the lock refuses every other byte.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Folders, or repositories with a version, such as org/name@v1.
    #[arg(value_name = "PACKAGE", required_unless_present = "check")]
    packages: Vec<PathBuf>,
    /// The file of the lock.
    #[arg(long, value_name = "FILE", default_value = LOCK_FILE)]
    file: PathBuf,
    /// Compare every package in the lock, and write nothing. A lock does not say where folders are: name them. The exit
    /// code is 1 if a package is not there or not the same, or if a named one is not in the lock.
    #[arg(long)]
    check: bool,
    #[command(flatten)]
    wanted: Wanted,
    #[command(flatten)]
    width: Width,
}

/// Runs the command.
///
/// # Errors
/// Returns an error if a package is not there or refused, if the lock can't be read or written, or, with `--check`, if
/// a package is not the one in the lock.
pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    match args.check {
        true => check(args),
        false => write(args),
    }
}

fn write(args: &Args) -> anyhow::Result<()> {
    output::refuse_unwritable(&args.file, "--file")?;
    let wanted = args.wanted.variant();
    let packages = args.packages.iter();
    let packages = packages.map(|package| Place::of(package)?.open(&wanted, None));
    let packages = packages.collect::<anyhow::Result<Vec<_>>>()?;
    // Downloads take long. What another run writes in the meantime must stay in the file.
    let mut lock = match is_there(&args.file) {
        true => Lock::read(&args.file)?,
        false => Lock::default(),
    };
    let mut said = Vec::new();
    for package in &packages {
        let state = match lock.check(package) {
            Ok(()) => "unchanged",
            Err(_) => "locked",
        };
        said.push(format!("{state}: {package}"));
        lock.add(package);
    }
    lock.write(&args.file)?;
    said.iter().for_each(output::note);
    output::note(format_args!("{} is written", escape_path(&args.file)));
    Ok(())
}

/// A package with the reason why it is not as the lock has it.
struct Compared {
    name: String,
    variant: String,
    problem: Option<String>,
}

impl Compared {
    fn new(name: String, variant: String, package: anyhow::Result<Package>, lock: &Lock) -> Self {
        let same = package.and_then(|package| Ok(lock.check(&package)?));
        let problem = same.err().map(|error| output::chain(&error));
        Self {
            name,
            variant,
            problem,
        }
    }
}

fn check(args: &Args) -> anyhow::Result<()> {
    let lock = Lock::read(&args.file)?;
    let places = args.packages.iter().map(|package| Place::of(package));
    let places = places.collect::<anyhow::Result<Vec<_>>>()?;
    let mut compared = Vec::new();
    let mut seen = HashSet::new();
    for locked in lock.packages() {
        let name = match &locked.source {
            Some((repository, revision, _)) => format!("{repository}@{revision}"),
            None => locked.name.clone(),
        };
        let package = open(locked, &places, &lock, &mut seen);
        compared.push(Compared::new(name, locked.variant.clone(), package, &lock));
    }
    let wanted = args.wanted.variant();
    for (index, place) in places.iter().enumerate() {
        if !seen.contains(&index) {
            let package = place.open(&wanted, Some(&lock));
            let (name, variant) = (place.to_string(), wanted.to_string());
            compared.push(Compared::new(name, variant, package, &lock));
        }
    }
    output::page(&page(args, &compared))?;
    let differing = compared.iter().filter(|one| one.problem.is_some()).count();
    let file = escape_path(&args.file);
    ensure!(
        differing == 0,
        "{file}: {differing} of {} packages differ, see above",
        compared.len()
    );
    Ok(())
}

/// Opens a package of the lock: its commit, or one of the folders that were named. Notes the named places that were
/// used.
fn open(
    locked: &Locked,
    places: &[Place],
    lock: &Lock,
    seen: &mut HashSet<usize>,
) -> anyhow::Result<Package> {
    let variant = Variant::parse(&locked.variant).map_err(anyhow::Error::msg);
    let variant = variant.with_context(|| format!("variant `{}`", locked.variant))?;
    let Some((repository, revision, _)) = &locked.source else {
        return open_folder(locked, &variant, places, seen);
    };
    for (index, place) in places.iter().enumerate() {
        if matches!(place, Place::Repository(own, Some(of)) if own == repository && of == revision)
        {
            seen.insert(index);
        }
    }
    source::open(repository, revision, &variant, Some(lock))
}

/// Opens the named folder that has the package of the lock, by its name.
fn open_folder(
    locked: &Locked,
    variant: &Variant,
    places: &[Place],
    seen: &mut HashSet<usize>,
) -> anyhow::Result<Package> {
    let mut refused = None;
    for (index, place) in places.iter().enumerate() {
        let Place::Folder(folder) = place else {
            continue;
        };
        match Package::open(folder, variant) {
            Ok(package) if package.metadata().name == locked.name => {
                seen.insert(index);
                return Ok(package);
            }
            Ok(_) => {}
            Err(error) => refused = refused.or(Some((index, error))),
        }
    }
    let (index, error) =
        refused.context("the folder of this package was not named, so that it was not compared")?;
    seen.insert(index);
    Err(error.into())
}

fn page(args: &Args, compared: &[Compared]) -> Page {
    let mut table = Table::new(["package", "variant", "state"]);
    for one in compared {
        let state = match &one.problem {
            None => Cell::new(Tone::Good, "as locked"),
            Some(problem) => Cell::new(Tone::Bad, problem),
        };
        table.row([(&one.name).into(), (&one.variant).into(), state]);
    }
    let mut page = Page::new(args.width.look());
    page.table(&table);
    page
}
