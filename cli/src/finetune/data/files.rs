//! Data files: a text, JSON lines, JSON, or Parquet.

mod found;
mod kind;
#[cfg(test)]
mod tests;
mod text;

use super::preferences::Kind as Answers;
use super::record::Record;
use anyhow::{bail, ensure};
use found::Found;
use kernels_io::escape_path;
use kind::Kind;
use std::path::{Path, PathBuf};

/// The number of problems that a message lists.
const LISTED: usize = 100;

/// A record and its place, for messages: `data.jsonl:3`.
pub type Placed = (String, Record);

/// Reads all records of files, whose kind is known by the ends of their names. `answers` is the kind of records that a
/// loss of answers takes.
///
/// # Errors
/// Returns an error if a file can't be read or is of another kind, and one that lists all problems of records.
pub fn read(files: &[PathBuf], answers: Option<Answers>) -> anyhow::Result<Vec<Placed>> {
    let mut found = Found {
        answers,
        ..Found::default()
    };
    for file in files {
        let kind = Kind::of(file)?;
        let text = match kind {
            Kind::Parquet => text::rows(file)?,
            _ => text::text(file)?,
        };
        let (name, before) = (escape_path(file), found.count());
        found.folder = file.parent().unwrap_or(Path::new("")).to_owned();
        found.add(&name, kind, text);
        ensure!(found.count() > before, "{name} holds no record");
    }
    report(&found.problems)?;
    Ok(found.records)
}

/// Returns an error that lists all problems, if there are any.
///
/// # Errors
/// Returns that error.
pub fn report(problems: &[String]) -> anyhow::Result<()> {
    if problems.is_empty() {
        return Ok(());
    }
    let mut list: Vec<String> = problems.iter().take(LISTED).cloned().collect();
    if problems.len() > LISTED {
        list.push(format!("… and {} more", problems.len() - LISTED));
    }
    bail!(
        "{} of the records can't be trained on; correct or remove them:\n  {}",
        problems.len(),
        list.join("\n  ")
    )
}
