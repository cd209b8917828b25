//! Where words and files go: standard output, standard error, and files that appear whole.

use anyhow::Context;
use serde::Serialize;
use std::ffi::OsString;
use std::fmt::Display;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Prints a result for people, with one line end after it.
pub fn text(value: impl Display) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{}", value.to_string().trim_end())?;
    Ok(out.flush()?)
}

/// Prints a result for programs.
pub fn json(value: &impl Serialize) -> anyhow::Result<()> {
    text(serde_json::to_string_pretty(value)?)
}

/// Says something on standard error. Nobody listening is not an error.
pub fn note(message: impl Display) {
    let _ = writeln!(io::stderr(), "{}", message.to_string().trim_end());
}

/// Whether a command failed only because the reader of its output, such as `head`, has left.
pub fn reader_went_away(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<io::Error>()
        .is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// Writes a file that is either there and complete, or not there.
///
/// # Errors
/// The file can't be written; the message names it.
pub fn write_file(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let temporary = sibling(path);
    let written = write_and_rename(&temporary, path, bytes);
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written.with_context(|| format!("cannot write {}", path.display()))
}

/// [`write_file`] for JSON.
pub fn write_json(path: &Path, value: &impl Serialize) -> anyhow::Result<()> {
    let mut bytes = serde_json::to_vec_pretty(value)?;
    bytes.push(b'\n');
    write_file(path, &bytes)
}

fn write_and_rename(temporary: &Path, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::create(temporary)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(temporary, path)
}

/// A name in the same folder, hence on the same file system, that no other process picks.
fn sibling(path: &Path) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".{}.tmp", std::process::id()));
    path.with_file_name(name)
}
