//! `kernels inspect`: the kernels and sites of a built file, read without running it.

mod sections;

use crate::output;
use crate::table::Table;
use anyhow::{Context, bail};
use burn_kernels::registry::section::{self, Record};
use serde_json::{Value, json};
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
}

/// Runs the command.
///
/// # Errors
/// The file can't be read, is no object file, has no section of ours, or a damaged one.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let path = args.file.display();
    let bytes = std::fs::read(&args.file).with_context(|| format!("cannot read {path}"))?;
    let records = read_records(&bytes).with_context(|| format!("cannot inspect {path}"))?;
    let (kernels, sites) = sorted(&records);
    if args.json {
        output::json(&json!({ "file": file_name(&args.file), "kernels": kernels, "sites": sites }))
    } else {
        output::text(format_args!(
            "{}\n\n{}",
            kernel_table(&kernels),
            site_table(&sites)
        ))
    }
}

fn read_records(bytes: &[u8]) -> anyhow::Result<Vec<Record>> {
    let mut section = Vec::new();
    sections::collect(bytes, &mut section)?;
    if section.is_empty() {
        bail!(
            "it holds no kernel metadata: it was not built with burn-kernels, or was stripped of it"
        );
    }
    let mut records: Vec<Record> = Vec::new();
    for section in section {
        // The parts of a universal file say the same of each processor.
        for record in section::decode(&section).context("its kernel metadata is damaged")? {
            if !records.contains(&record) {
                records.push(record);
            }
        }
    }
    if records.is_empty() {
        bail!("its kernel metadata is empty");
    }
    Ok(records)
}

fn file_name(path: &Path) -> String {
    path.display().to_string()
}

/// The JSON of kernels and of sites, each in the order of its names: linkers keep no order.
fn sorted(records: &[Record]) -> (Vec<&Value>, Vec<&Value>) {
    let (mut kernels, mut sites) = (Vec::new(), Vec::new());
    for record in records {
        match record {
            Record::Kernel(json) => kernels.push(json),
            Record::Site(json) => sites.push(json),
        }
    }
    kernels.sort_by_key(|kernel| text(kernel, "id"));
    sites.sort_by_key(|site| (site_name(site), site["line"].as_u64()));
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
