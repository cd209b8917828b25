//! `kernels inspect`: the kernels and sites of a built file, read without running it.

use crate::output;
use crate::table::Table;
use anyhow::Context;
use burn_kernels::registry::section::Record;
use kernels_cli::object_file;
use serde_json::{Value, json};
use std::collections::HashSet;
use std::path::PathBuf;

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
}

/// Runs the command.
///
/// # Errors
/// The file can't be read, is no object file, has no section of ours, or a damaged one.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let path = kernels_io::escape_path(&args.file);
    let file = kernels_io::open(&args.file).with_context(|| format!("cannot read {path}"))?;
    let contents = object_file::read(file).with_context(|| format!("cannot inspect {path}"))?;
    let (kernels, sites) = sorted(&contents.records);
    if args.json {
        output::json(
            &json!({ "file": args.file.to_string_lossy(), "kernels": kernels, "sites": sites }),
        )
    } else {
        output::text(format_args!(
            "{}\n\n{}",
            kernel_table(&kernels),
            site_table(&sites)
        ))
    }
}

/// The JSON of kernels and of sites, each in the order of its names: linkers keep no order.
fn sorted(records: &HashSet<Record>) -> (Vec<&Value>, Vec<&Value>) {
    let (mut kernels, mut sites) = (Vec::new(), Vec::new());
    for record in records {
        match record {
            Record::Kernel(json) => kernels.push(json),
            Record::Site(json) => sites.push(json),
        }
    }
    // By all of it where names are the same, so that every run says the same.
    kernels.sort_by_cached_key(|kernel| (text(kernel, "id"), kernel.to_string()));
    sites.sort_by_cached_key(|site| (site_name(site), site["line"].as_u64(), site.to_string()));
    (kernels, sites)
}

fn kernel_table(kernels: &[&Value]) -> Table<4> {
    let mut table = Table::new(["kernel", "version", "implementations", "summary"]);
    for kernel in kernels {
        let implementations = kernel["implementations"].as_array();
        let names: Vec<_> = implementations
            .into_iter()
            .flatten()
            .map(|implementation| text(implementation, "name"))
            .collect();
        table.row([
            text(kernel, "id"),
            text(kernel, "version"),
            names.join(" "),
            text(kernel, "summary"),
        ]);
    }
    table
}

fn site_table(sites: &[&Value]) -> Table<4> {
    let mut table = Table::new(["site", "kernel", "computes", "written at"]);
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

fn site_name(site: &Value) -> String {
    format!("{}::{}", text(site, "module"), text(site, "item"))
}

/// A semantics key as `op(parameter=value, …)`.
fn key_text(key: &Value) -> String {
    let parameters = key.as_object().into_iter().flatten();
    let parameters: Vec<_> = parameters
        .filter(|(name, _)| *name != "op")
        .map(|(name, _)| format!("{name}={}", text(key, name)))
        .collect();
    format!("{}({})", text(key, "op"), parameters.join(", "))
}

/// A field as text; empty when the file, which may be of another release, has none.
fn text(json: &Value, field: &str) -> String {
    match &json[field] {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}
