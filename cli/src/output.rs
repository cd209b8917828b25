//! Output to standard output, to standard error, and to files that appear complete or not at all.
//!
//! Output can contain text from files and other machines. All control characters in it are escaped: here, or, in pages
//! with colours, where the text is added. Line ends stay here, because messages have their own; where foreign text
//! enters a table or a message, they are escaped too.

use crate::screen;
use anstream::AutoStream;
use anstyle::{AnsiColor, Style};
use anyhow::{Context, bail, ensure};
use burn_kernels::{policy, tune};
use kernels_io::{Page, escape_json, escape_lines, escape_path, indent_lines, shorten};
use serde::Serialize;
use std::fmt::Display;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// Prints text, with one line end after it.
pub fn text(value: impl Display) -> anyhow::Result<()> {
    print(&escape_lines(value.to_string().trim_end()))
}

/// Prints a page, which is already laid out and escaped.
pub fn page(page: &Page) -> anyhow::Result<()> {
    styled(page.to_string().trim_end())
}

/// Prints text with colours, which is already escaped, with one line end after it.
pub fn styled(text: &str) -> anyhow::Result<()> {
    let mut out = AutoStream::auto(io::stdout().lock());
    writeln!(out, "{text}")?;
    Ok(out.flush()?)
}

/// Prints a value as JSON.
pub fn json(value: &impl Serialize) -> anyhow::Result<()> {
    print(&escape_json(&serde_json::to_string_pretty(value)?))
}

/// Prints a part of a text at once, without a line end after it. Line ends and tabs stay.
#[cfg(feature = "text")]
pub fn piece(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    for (at, part) in text.split('\t').enumerate() {
        let tab = if at > 0 { "\t" } else { "" };
        write!(out, "{tab}{}", escape_lines(part))?;
    }
    Ok(out.flush()?)
}

fn print(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{text}")?;
    Ok(out.flush()?)
}

/// True on a process of several whose messages another one prints too.
static IS_SILENT: AtomicBool = AtomicBool::new(false);

/// From now on, messages to standard error are not printed, and errors are.
#[cfg(feature = "distributed")]
pub fn silence_notes() {
    IS_SILENT.store(true, Ordering::Relaxed);
}

/// Prints a message to standard error. A failure to print is ignored.
pub fn note(message: impl Display) {
    if IS_SILENT.load(Ordering::Relaxed) {
        return;
    }
    let message = message.to_string();
    let _ = writeln!(io::stderr(), "{}", escape_lines(message.trim_end()));
}

/// Prints a page, which is already laid out and escaped, to standard error.
pub fn note_page(page: &Page) {
    let text = page.to_string();
    let _ = writeln!(AutoStream::auto(io::stderr().lock()), "{}", text.trim_end());
}

/// Prints what was measured and chosen to standard error, if the policy tunes.
///
/// # Errors
/// Returns an error if BURN_KERNELS holds no policy.
pub fn note_tuned() -> anyhow::Result<()> {
    if policy::current()?.is_tuning() {
        note_page(&tune::report().page(screen::stderr()));
    }
    Ok(())
}

/// Prints an error message to standard error.
pub fn error(message: impl Display) {
    let message = message.to_string();
    let style = match screen::stderr().colours {
        true => Style::new().fg_color(Some(AnsiColor::Red.into())).bold(),
        false => Style::new(),
    };
    let _ = writeln!(
        AutoStream::auto(io::stderr().lock()),
        "{style}error:{style:#} {}",
        escape_lines(message.trim_end())
    );
}

/// The length, in bytes, to which panic messages and log lines are cut. Clients of a server can choose parts of them.
const LONGEST: usize = 8 << 10;

/// Prints the message of a panic. Further lines of its text are indented, so that they can't imitate messages of this
/// program.
pub fn panicked(message: &str, place: Option<impl Display>) {
    let message = shorten(message.trim_end(), LONGEST);
    let message = indent_lines(&message);
    match place {
        Some(place) => error(format_args!("{message}\n  (raised at {place})")),
        None => error(message),
    }
}

/// Standard error as the writer of a log. Each write is one event without colours. Its text is escaped, and further lines
/// are indented.
pub struct Log;

impl Write for Log {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(event);
        let line = escape_lines(&shorten(text.trim_end(), LONGEST)).into_owned();
        let line = match screen::stderr().colours {
            true => with_coloured_level(&line),
            false => line,
        };
        let out = io::stderr().lock();
        writeln!(AutoStream::auto(out), "{}", indent_lines(&line))?;
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

/// Colours the level of a log line, the word after its time.
fn with_coloured_level(line: &str) -> String {
    let levels = [("ERROR", AnsiColor::Red), ("WARN", AnsiColor::Yellow)];
    let (time, after) = line.split_once(' ').unwrap_or((line, ""));
    let after = after.trim_start();
    let level = levels.into_iter().find(|(word, _)| after.starts_with(word));
    let Some((word, colour)) = level else {
        return line.to_owned();
    };
    let style = Style::new().fg_color(Some(colour.into()));
    format!("{time} {style}{word:>5}{style:#}{}", &after[word.len()..])
}

/// Returns `true` if a command failed only because the reader of its output, such as `head`, has ended.
pub fn reader_went_away(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<io::Error>()
        .is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// Refuses a path of an option that can't be written, before any work is done.
///
/// # Errors
/// Returns an error that names the path if it leads to something other than a file, or if its folder does not exist.
pub fn refuse_unwritable(path: &Path, option: &str) -> anyhow::Result<()> {
    if path.is_dir() {
        bail!("{} is a folder; {option} names a file", escape_path(path));
    }
    kernels_io::check_target(path)?;
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    if !folder.is_dir() {
        bail!(
            "the folder {} of {option} does not exist",
            escape_path(folder)
        );
    }
    Ok(())
}

/// Joins the error and its causes into one line. A cause that an error already quotes is not repeated.
pub fn chain(error: &anyhow::Error) -> String {
    error.chain().fold(String::new(), |mut line, cause| {
        let cause = cause.to_string();
        if !line.ends_with(&cause) {
            if !line.is_empty() {
                line.push_str(": ");
            }
            line.push_str(&cause);
        }
        line
    })
}

/// Refuses an output that would replace another file of the command.
///
/// # Errors
/// Returns an error that names both options if they name one file.
pub fn refuse_one_file(
    (path, option): (&Path, &str),
    (other, its_option): (&Path, &str),
) -> anyhow::Result<()> {
    if place(path) == place(other) {
        bail!(
            "{option} and {its_option} are one file, {}",
            escape_path(path)
        );
    }
    Ok(())
}

/// Returns the one path of a place, also of a file that is yet to be written.
fn place(path: &Path) -> PathBuf {
    if let Ok(path) = path.canonicalize() {
        return path;
    }
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    match (path.parent().map(Path::canonicalize), path.file_name()) {
        (Some(Ok(folder)), Some(name)) => folder.join(name),
        _ => path,
    }
}

/// Refuses a new folder of `--out` that can't be written, before any work is done.
///
/// # Errors
/// Returns an error if something other than an empty folder is there.
pub fn refuse_occupied(out: &Path) -> anyhow::Result<()> {
    match out.read_dir() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error).with_context(|| format!("--out: {}", escape_path(out))),
        Ok(mut entries) => {
            let shown = escape_path(out);
            ensure!(
                entries.next().is_none(),
                "--out: {shown} is not empty; choose another folder, or remove it first"
            );
            Ok(())
        }
    }
}

/// Writes a file, complete or not at all.
///
/// # Errors
/// Returns an error that names the file if it can't be written.
pub fn write_file(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    Ok(kernels_io::write_whole(path, bytes)?)
}

/// Writes a value as JSON, as [`write_file`] does.
pub fn write_json(path: &Path, value: &impl Serialize) -> anyhow::Result<()> {
    let mut bytes = serde_json::to_vec_pretty(value)?;
    bytes.push(b'\n');
    write_file(path, &bytes)
}
