//! `kernels packages check`: whether a package would be loaded, variant by variant.

use super::source::{Place, Wanted};
use super::{bindings, show};
use crate::output;
use crate::screen::Width;
use anyhow::ensure;
use burn_kernels::packages::{self, Decision, Package, Variant};
use kernels_io::{Cell, Page, Table, Tone, escape_path};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Check whether a package would be loaded: its digests, libraries and bindings
///
/// Of a folder, every variant that a Rust program can read is checked, also for other machines. Of a repository, the
/// wanted one is, after a download where the build has the feature `hub`. The exit code is 1 if a variant is refused,
/// or if none fits.
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

/// A variant with what was found.
struct Checked {
    name: String,
    /// The reason why it is not the wanted one.
    against: Option<String>,
    found: Found,
}

enum Found {
    /// All checks passed.
    Whole(Box<Package>),
    /// It is no variant for Rust programs. Nothing of it was read.
    Unread,
    /// A check failed.
    Refused(String),
}

/// Runs the command.
///
/// # Errors
/// Returns an error if the package is not there, if a variant is refused, or if none is the wanted one.
pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let wanted = args.wanted.variant();
    let place = Place::of(&args.package)?;
    let checked = match &place {
        Place::Folder(folder) => all(folder, &wanted)?,
        Place::Repository(..) => vec![one(place.open(&wanted, None)?)],
    };
    if args.json {
        let variants: Vec<_> = checked.iter().map(Checked::json).collect();
        output::json(&json!({ "wanted": wanted.to_string(), "variants": variants }))?;
    } else {
        output::page(&page(args, &checked))?;
    }
    let is_refused = |one: &&Checked| matches!(one.found, Found::Refused(_));
    let refused = checked.iter().filter(is_refused).count();
    let shown = escape_path(&args.package);
    ensure!(
        refused == 0,
        "{shown}: {refused} of {} variants refused, see above",
        checked.len()
    );
    ensure!(
        checked.iter().any(|one| one.against.is_none()),
        "{shown} has no variant {wanted}, which is the wanted one"
    );
    Ok(())
}

/// Checks every variant of a folder.
fn all(folder: &Path, wanted: &Variant) -> anyhow::Result<Vec<Checked>> {
    let decisions = packages::variants(folder, wanted)?.into_iter();
    let check = |Decision { name, against }| Checked {
        found: match Variant::parse(&name).map(|variant| Package::open(folder, &variant)) {
            Ok(Ok(package)) => Found::Whole(Box::new(package)),
            Ok(Err(error)) => Found::Refused(error.to_string()),
            Err(_) => Found::Unread,
        },
        name,
        against,
    };
    Ok(decisions.map(check).collect())
}

fn one(package: Package) -> Checked {
    Checked {
        name: package.variant().to_string(),
        against: None,
        found: Found::Whole(Box::new(package)),
    }
}

fn page(args: &Args, checked: &[Checked]) -> Page {
    let mut page = Page::new(args.width.look());
    let mut table = Table::new(["variant", "state", "digests", "reason"]);
    checked.iter().for_each(|one| table.row(one.cells()));
    page.table(&table);
    for one in checked {
        if let (Found::Whole(package), None) = (&one.found, &one.against) {
            page.line("");
            page.table(&bindings::table(package));
        }
    }
    page
}

impl Checked {
    fn state(&self) -> (Tone, &'static str) {
        match (&self.found, &self.against) {
            (Found::Whole(_), None) => (Tone::Good, "fits"),
            (Found::Whole(_), Some(_)) => (Tone::Plain, "whole"),
            (Found::Unread, _) => (Tone::Caution, "not read"),
            (Found::Refused(_), _) => (Tone::Bad, "refused"),
        }
    }

    /// Returns the problem, or the reason why the variant is not the wanted one.
    fn reason(&self) -> Option<&str> {
        match &self.found {
            Found::Refused(problem) => Some(problem),
            _ => self.against.as_deref(),
        }
    }

    fn cells(&self) -> [Cell; 4] {
        let (tone, state) = self.state();
        let digests = match &self.found {
            Found::Whole(package) => show::digests(package.metadata()),
            _ => "-".into(),
        };
        [
            (&self.name).into(),
            Cell::new(tone, state),
            digests,
            self.reason().unwrap_or("-").into(),
        ]
    }

    fn json(&self) -> Value {
        let mut json =
            json!({ "name": self.name, "state": self.state().1, "reason": self.reason() });
        if let Found::Whole(package) = &self.found {
            json["digest"] = json!(
                package
                    .metadata()
                    .digest
                    .as_ref()
                    .map(|digest| digest.algorithm)
            );
            json["bindings"] = bindings::as_json(package).into();
        }
        json
    }
}
