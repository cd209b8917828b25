//! Where words and files go: standard output, standard error, and files that appear whole.
//!
//! Words can hold text of files and of other machines. What a terminal would obey is escaped here, last;
//! line ends are escaped where such text enters a table or a message, since ours have some.

use kernels_io::{escape_json, escape_lines, indent_lines, shorten};
use serde::Serialize;
use std::fmt::Display;
use std::io::{self, Write};
use std::path::Path;

/// Prints a result for people, with one line end after it.
pub fn text(value: impl Display) -> anyhow::Result<()> {
    print(&escape_lines(value.to_string().trim_end()))
}

/// Prints a result for programs.
pub fn json(value: &impl Serialize) -> anyhow::Result<()> {
    print(&escape_json(&serde_json::to_string_pretty(value)?))
}

fn print(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{text}")?;
    Ok(out.flush()?)
}

/// Says something on standard error. Nobody listening is not an error.
pub fn note(message: impl Display) {
    let message = message.to_string();
    let _ = writeln!(io::stderr(), "{}", escape_lines(message.trim_end()));
}

/// The longest text of a panic or a line of a log, in bytes. Clients of a server choose parts of them.
const LONGEST: usize = 8 << 10;

/// Says why something panicked. Only the first line is one of ours, whatever the text holds.
pub fn panicked(message: &str, place: Option<impl Display>) {
    let message = shorten(message.trim_end(), LONGEST);
    let message = indent_lines(&message);
    match place {
        Some(place) => note(format_args!("error: {message}\n  (raised at {place})")),
        None => note(format_args!("error: {message}")),
    }
}

/// Standard error for a log, whose events come as one piece each. An event is one line, and what further lines
/// its text holds are indented.
pub struct Log;

impl Write for Log {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(event);
        let line = shorten(text.trim_end(), LONGEST);
        writeln!(io::stderr(), "{}", indent_lines(&line))?;
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

/// Whether a command failed only because the reader of its output, such as `head`, has left.
pub fn reader_went_away(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<io::Error>()
        .is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// Writes a file that is either there and complete, or as it was before.
///
/// # Errors
/// The file can't be written; the message names it.
pub fn write_file(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    Ok(kernels_io::write_whole(path, bytes)?)
}

/// [`write_file`] for JSON.
pub fn write_json(path: &Path, value: &impl Serialize) -> anyhow::Result<()> {
    let mut bytes = serde_json::to_vec_pretty(value)?;
    bytes.push(b'\n');
    write_file(path, &bytes)
}
