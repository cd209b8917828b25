//! `kernels inspect`: the kernels and sites of a built file, read without running it.

use crate::object_file;
use crate::output;
use crate::screen::Width;
use anyhow::Context;
use burn_kernels::registry::section::Record;
use burn_kernels::semantics::{SemanticsKey, as_written};
use kernels_io::{Fit, Page, Table};
use serde_json::{Value, json};
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// List the kernels and sites in a built file without running it
///
/// Reads programs, libraries and object files in the formats ELF (Linux, Android, FreeBSD), Mach-O
/// (Apple, also universal files) and PE/COFF (Windows), and archives of object files (`.rlib`, `.a`).
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The program or library to read.
    file: PathBuf,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    width: Width,
}

/// Runs the command.
///
/// # Errors
/// Returns an error as [`records`] does.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let records = records(&args.file)?;
    let (kernels, sites) = sorted(&records);
    if args.json {
        output::json(
            &json!({ "file": args.file.to_string_lossy(), "kernels": kernels, "sites": sites }),
        )
    } else {
        let mut page = Page::new(args.width.look());
        page.table(&kernel_table(&kernels));
        page.line("");
        page.table(&site_table(&sites));
        output::page(&page)
    }
}

/// Reads the records of a built file.
///
/// # Errors
/// Returns an error if the file can't be read, is not an object file, or has no valid metadata section.
pub fn records(path: &Path) -> anyhow::Result<HashSet<Record>> {
    let shown = kernels_io::escape_path(path);
    let file = kernels_io::open(path).with_context(|| format!("cannot read {shown}"))?;
    let contents = object_file::read(file).with_context(|| format!("cannot inspect {shown}"))?;
    Ok(contents.records)
}

/// Returns the JSON of kernels and of sites, each sorted by name, because linkers keep no order.
pub fn sorted(records: &HashSet<Record>) -> (Vec<&Value>, Vec<&Value>) {
    let (mut kernels, mut sites) = (Vec::new(), Vec::new());
    for record in records {
        match record {
            Record::Kernel(json) => kernels.push(json),
            Record::Site(json) => sites.push(json),
        }
    }
    // Records with the same name are sorted by all their content, so that the output is always the same.
    kernels.sort_by_cached_key(|kernel| (text(kernel, "id"), kernel.to_string()));
    sites.sort_by_cached_key(|site| (site_name(site), site["line"].as_u64(), site.to_string()));
    (kernels, sites)
}

fn kernel_table(kernels: &[&Value]) -> Table<4> {
    let mut table = Table::new(["kernel", "version", "implementations", "summary"]);
    for kernel in kernels {
        table.row([
            text(kernel, "id"),
            text(kernel, "version"),
            implementations(kernel).join(" "),
            text(kernel, "summary"),
        ]);
    }
    table
}

/// Returns the names of a kernel's implementations.
pub fn implementations(kernel: &Value) -> Vec<String> {
    let implementations = kernel["implementations"].as_array();
    let names = implementations.into_iter().flatten();
    names.map(|one| text(one, "name")).collect()
}

fn site_table(sites: &[&Value]) -> Table<4> {
    let mut table = Table::new(["site", "kernel", "computes", "written at"]).fit([
        Fit::Item,
        Fit::Wrap,
        Fit::Wrap,
        Fit::File,
    ]);
    for site in sites {
        let place = format!("{}:{}", text(site, "file"), text(site, "line"));
        table.row([
            site_name(site),
            text(site, "kernel"),
            key_text(&site["key"]),
            place,
        ]);
    }
    table
}

/// Returns the full name of a site.
pub fn site_name(site: &Value) -> String {
    format!("{}::{}", text(site, "module"), text(site, "item"))
}

/// Formats a semantics key as attributes write it.
pub fn key_text(key: &Value) -> String {
    match SemanticsKey::from_json(key) {
        Some(key) => as_written(key),
        None => unknown_key_text(key),
    }
}

/// Formats a key of another release as `op(setting = value, …)` with all settings.
fn unknown_key_text(key: &Value) -> String {
    let settings = key.as_object().into_iter().flatten();
    let settings: Vec<_> = settings
        .filter(|(name, _)| *name != "op")
        .map(|(name, _)| match text(key, name).as_str() {
            // Attributes write numbers for offsets.
            "zero" if name.ends_with("offset") => format!("{name} = 0"),
            "one" if name.ends_with("offset") => format!("{name} = 1"),
            value => format!("{name} = {value}"),
        })
        .collect();
    format!("{}({})", text(key, "op"), settings.join(", "))
}

/// Returns a field as text, or empty text if the file, which may be of another release, does not have it.
pub fn text(json: &Value, field: &str) -> String {
    match &json[field] {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}
