//! `kernels packages show`: what a package holds.

use super::bindings;
use super::source::{Place, Wanted};
use crate::output;
use crate::screen::Width;
use burn_kernels::packages::{Algorithm, Library, Metadata, Origin, Package};
use data_encoding::HEXLOWER;
use kernels_io::{Cell, Page, Table, Tone};
use serde_json::{Value, json};
use std::path::PathBuf;

/// Show what a package holds: its origin, digests, libraries and functions
///
/// The package is read and checked as before it is loaded. A build with the feature `hub` downloads what the cache
/// lacks.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// A folder, or a repository with a version, such as org/name@v1.
    #[arg(value_name = "PACKAGE")]
    package: PathBuf,
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
/// Returns an error if the package is not there, has no such variant, or is refused.
pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let package = Place::of(&args.package)?.open(&args.wanted.variant(), None)?;
    if args.json {
        return output::json(&as_json(&package));
    }
    let mut page = Page::new(args.width.look());
    page.table(&summary(&package));
    page.line("");
    page.table(&libraries(&package));
    page.line("");
    page.table(&bindings::table(&package));
    output::page(&page)
}

fn summary(package: &Package) -> Table<2> {
    let metadata = package.metadata();
    let mut table = Table::without_heading();
    let mut row = |name: &str, value: Cell| table.row([name.into(), value]);
    row(
        "package",
        format!("{} v{}", metadata.name, metadata.version).into(),
    );
    row("from", package.origin().into());
    row("variant", package.variant().into());
    row("contents", HEXLOWER.encode(package.id()).into());
    row(
        "metadata.json",
        HEXLOWER.encode(package.metadata_sum()).into(),
    );
    row("digests", digests(metadata));
    row("licence", (&metadata.license).into());
    let places = [
        ("upstream", &metadata.upstream),
        ("source", &metadata.source),
    ];
    for (name, place) in places {
        if let Some(place) = place {
            row(name, place.into());
        }
    }
    if let Some(archs) = &metadata.backend.archs {
        row("architectures", archs.join(" ").into());
    }
    table
}

/// Says which files have digests in metadata.json.
pub(super) fn digests(metadata: &Metadata) -> Cell {
    match &metadata.digest {
        Some(digest) => format!(
            "{} of {} files",
            algorithm(digest.algorithm),
            digest.files.len()
        )
        .into(),
        None => Cell::new(
            Tone::Caution,
            "none in metadata.json: a lock alone knows the files",
        ),
    }
}

fn algorithm(algorithm: Algorithm) -> &'static str {
    match algorithm {
        Algorithm::Sha256 => "SHA-256",
        Algorithm::Sha512 => "SHA-512",
    }
}

fn libraries(package: &Package) -> Table<3> {
    let mut table = Table::new(["library", "SHA-256", "needs"]);
    for library in package.libraries() {
        table.row([
            library.name.clone(),
            // The beginning, as in messages.
            HEXLOWER.encode(&library.sum[..8]),
            needs(library).unwrap_or("-").to_owned(),
        ]);
    }
    table
}

/// Returns the library that must be installed beside the package.
fn needs(library: &Library) -> Option<&'static str> {
    library.needs_runtime().then_some("libtvm_ffi.so")
}

fn as_json(package: &Package) -> Value {
    let metadata = package.metadata();
    let library = |library: &Library| {
        json!({
            "name": library.name,
            "sha256": HEXLOWER.encode(&library.sum),
            "needs": needs(library),
        })
    };
    let libraries: Vec<_> = package.libraries().iter().map(library).collect();
    let mut json = json!({
        "metadata": metadata,
        "variant": package.variant().to_string(),
        "contents": HEXLOWER.encode(package.id()),
        "metadata_sha256": HEXLOWER.encode(package.metadata_sum()),
        "libraries": libraries,
        "functions": package.functions().collect::<Vec<_>>(),
        "bindings": bindings::as_json(package),
    });
    match package.origin() {
        Origin::Folder(folder) => json["folder"] = folder.to_string_lossy().into(),
        Origin::Repository {
            repository,
            revision,
            commit,
        } => {
            json["repository"] = repository.to_string().into();
            json["revision"] = revision.to_string().into();
            json["commit"] = commit.as_str().into();
        }
    }
    json
}
