//! Messages from standard input: lines of a file or pipe, or of a terminal.

use super::interrupt::{Interrupt, Interrupted};
use crate::screen;
use anyhow::Context;
use rustyline::config::Config;
use rustyline::error::ReadlineError;
use rustyline::history::MemHistory;
use std::io::{self, BufRead, IsTerminal, Read, Write};

/// The largest message, in bytes.
const LONGEST: usize = 16 << 20;

const TOO_LONG: &str = "it has more than 16 MiB";

/// The user's next wish.
#[derive(Debug)]
pub enum Next {
    /// A message or a command, without the space around it.
    Text(String),
    /// A message that can't be used, and the reason. It is left out.
    Unusable(&'static str),
    /// The end of the input.
    End,
}

/// The source of messages.
///
/// In a terminal, arrows edit a message and recall earlier ones, and a paste is one message, whatever its lines are. A
/// terminal that takes no escape sequences gives a line at a time, as a file does.
pub struct Lines<'a> {
    editor: Option<rustyline::Editor<(), MemHistory>>,
    interrupt: &'a Interrupt,
}

impl<'a> Lines<'a> {
    /// Opens standard input.
    ///
    /// # Errors
    /// Returns an error if the terminal can't be used.
    pub fn open(interrupt: &'a Interrupt) -> anyhow::Result<Self> {
        let edits = io::stdin().is_terminal() && screen::moves(&io::stdout());
        let editor = || {
            let config = Config::builder().auto_add_history(true).build();
            rustyline::Editor::with_history(config, MemHistory::new())
        };
        Ok(Self {
            editor: edits.then(editor).transpose()?,
            interrupt,
        })
    }

    /// Waits for the next message. Ctrl-C ends the program meanwhile.
    ///
    /// # Errors
    /// Returns an error if the input can't be read as text, and [`Interrupted`] after Ctrl-C in an edited line.
    pub fn read(&mut self) -> anyhow::Result<Next> {
        self.interrupt.wait(true);
        let read = match &mut self.editor {
            Some(editor) => edited(editor),
            None => plain(),
        };
        self.interrupt.wait(false);
        self.interrupt.take();
        read
    }
}

impl Drop for Lines<'_> {
    fn drop(&mut self) {
        if self.editor.is_some() {
            mark_pastes(false);
        }
    }
}

/// Has the terminal put marks around pastes, or no longer. The editor switches this off behind each line, but during an
/// answer too, a paste of several lines shall be the next message.
fn mark_pastes(on: bool) {
    let sequence = if on { "\x1b[?2004h" } else { "\x1b[?2004l" };
    // A failure to print is ignored.
    let mut out = io::stdout();
    let _ = out
        .write_all(sequence.as_bytes())
        .and_then(|()| out.flush());
}

/// Reads a typed or pasted text until Enter.
fn edited(editor: &mut rustyline::Editor<(), MemHistory>) -> anyhow::Result<Next> {
    let read = editor.readline("> ");
    mark_pastes(true);
    match read {
        Ok(text) if text.len() > LONGEST => Ok(Next::Unusable(TOO_LONG)),
        Ok(text) => Ok(Next::Text(text.trim().to_owned())),
        Err(ReadlineError::Eof) => Ok(Next::End),
        Err(ReadlineError::Interrupted) => Err(Interrupted("the conversation ends").into()),
        Err(ReadlineError::Io(error)) if error.kind() == io::ErrorKind::InvalidData => {
            Ok(Next::Unusable("it is not valid UTF-8"))
        }
        Err(error) => Err(anyhow::Error::from(error).context(UNREADABLE)),
    }
}

/// Reads a line.
fn plain() -> anyhow::Result<Next> {
    let mut input = io::stdin().lock();
    if input.is_terminal() {
        // A failure to print is ignored.
        let _ = io::stderr().write_all(b"> ");
    }
    let mut line = Vec::new();
    let read = input
        .by_ref()
        .take(LONGEST as u64 + 1)
        .read_until(b'\n', &mut line);
    if read.context(UNREADABLE)? == 0 {
        return Ok(Next::End);
    }
    if line.len() > LONGEST {
        if line.last() != Some(&b'\n') {
            input.skip_until(b'\n').context(UNREADABLE)?;
        }
        return Ok(Next::Unusable(TOO_LONG));
    }
    let line = String::from_utf8(line).context(UNREADABLE)?;
    Ok(Next::Text(line.trim().to_owned()))
}

const UNREADABLE: &str = "standard input can't be read as text";
