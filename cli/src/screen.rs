//! The width and the colours of standard output and standard error.

use anstream::stream::RawStream;
use anstream::{AutoStream, ColorChoice};
use kernels_io::Look;

/// The arguments of every command that prints tables.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Width {
    /// Print each row of a table in one line of any length, with full paths.
    #[arg(long)]
    wide: bool,
}

impl Width {
    /// Returns the look of standard output.
    pub fn look(self) -> Look {
        let look = stdout();
        match self.wide {
            true => Look {
                width: None,
                ..look
            },
            false => look,
        }
    }
}

/// Returns the look of standard output: as wide as COLUMNS or the terminal, with colours if it shows them.
pub fn stdout() -> Look {
    let stream = std::io::stdout();
    of(&stream, terminal(&stream))
}

/// Returns the look of standard error.
pub fn stderr() -> Look {
    let stream = std::io::stderr();
    of(&stream, terminal(&stream))
}

fn of(stream: &impl RawStream, terminal: Option<usize>) -> Look {
    Look {
        width: Some(asked().or(terminal).unwrap_or(Look::USUAL)),
        // This also honours NO_COLOR, CLICOLOR and TERM.
        colours: AutoStream::choice(stream) != ColorChoice::Never,
    }
}

/// Returns `true` for a terminal that takes escape sequences: TERM names one, and not `dumb`.
pub fn moves(stream: &impl std::io::IsTerminal) -> bool {
    let takes = std::env::var_os("TERM").map_or(cfg!(windows), |term| term != "dumb");
    takes && stream.is_terminal()
}

/// Returns the number of columns in COLUMNS.
fn asked() -> Option<usize> {
    let columns = std::env::var("COLUMNS").ok()?.trim().parse().ok()?;
    (columns > 0).then_some(columns)
}

/// Returns the number of columns of a terminal, or `None` for a file.
#[cfg(unix)]
fn terminal(stream: impl std::os::fd::AsFd) -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(stream).ok()?;
    (size.ws_col > 0).then_some(size.ws_col.into())
}

/// Returns `None`, because only COLUMNS gives the width on this system.
#[cfg(not(unix))]
fn terminal(_: &impl RawStream) -> Option<usize> {
    None
}
