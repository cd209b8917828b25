//! Conversations in a terminal.

use super::{command, errors, with};
use crate::terminal;
use std::fs;
use std::io::{Read, Write};
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// A conversation in a terminal of the tests.
struct InTerminal {
    child: Child,
    control: fs::File,
    shown: Arc<Mutex<Vec<u8>>>,
    reader: JoinHandle<()>,
}

impl InTerminal {
    fn start(term: &str) -> Self {
        let [control, screen] = terminal::open(80);
        let mut command = command();
        command
            .args(with(&["--chat", "--max-new-tokens=2"]))
            .env("TERM", term);
        command.stdin(screen.try_clone().unwrap()).stdout(screen);
        let child = command.stderr(Stdio::piped()).spawn().unwrap();
        let (mut screen, shown) = (control.try_clone().unwrap(), Arc::default());
        let all: Arc<Mutex<Vec<u8>>> = Arc::clone(&shown);
        let reader = std::thread::spawn(move || {
            let mut part = [0; 4096];
            // Linux returns an error once the other end is closed.
            while let Ok(count @ 1..) = screen.read(&mut part) {
                all.lock().unwrap().extend(&part[..count]);
            }
        });
        Self {
            child,
            control,
            shown,
            reader,
        }
    }

    fn shown(&self) -> String {
        String::from_utf8_lossy(&self.shown.lock().unwrap()).into_owned()
    }

    /// Types this once the program has shown a text so many times.
    fn type_after(&mut self, text: &str, times: usize, keys: impl AsRef<[u8]>) {
        let begin = std::time::Instant::now();
        while self.shown().matches(text).count() < times {
            assert!(begin.elapsed().as_secs() < 120, "{:?}", self.shown());
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        self.control.write_all(keys.as_ref()).unwrap();
    }

    /// Waits for the end. Returns the exit code, standard error, and what the terminal showed.
    fn end(self) -> (Option<i32>, String, String) {
        let output = self.child.wait_with_output().unwrap();
        self.reader.join().unwrap();
        let shown = String::from_utf8_lossy(&self.shown.lock().unwrap()).into_owned();
        (output.status.code(), errors(&output), shown)
    }
}

/// The sequence with which the program asks for marks around pastes.
const PASTES: &str = "\x1b[?2004h";

/// Returns how often it has asked at a prompt, counted from 1: there, and behind each line before.
fn prompt(number: usize) -> usize {
    2 * number - 1
}

#[test]
fn a_terminal_edits_and_recalls_messages_and_takes_a_paste_for_one() {
    let mut talk = InTerminal::start("xterm");
    // The arrow goes back over the last letter, and what was typed ahead stays.
    talk.type_after(PASTES, prompt(1), "/whtt\x1b[D\x7fa\r/two\r");
    talk.type_after(PASTES, prompt(3), "\x1b[A\x1b[A\r");
    talk.type_after(
        PASTES,
        prompt(4),
        "\x1b[200~/home is where\rthe heart is\n\ttoday\x1b[201~",
    );
    talk.type_after("today", 1, "\r");
    // The program may answer still.
    talk.type_after(PASTES, prompt(4) + 1, "\x1b[200~the\rend\x1b[201~\r");
    talk.type_after(PASTES, prompt(6), "\x04");
    let (code, said, _) = talk.end();
    let lines: Vec<&str> = said.lines().skip(1).collect();
    let unknown = |name| format!("unknown command `/{name}`; commands are /reset and /exit");
    let expected = [
        unknown("what"),
        unknown("two"),
        unknown("what"),
        "the answer ends at --max-new-tokens".to_owned(),
        "the answer ends at --max-new-tokens".to_owned(),
    ];
    assert_eq!(lines, expected);
    assert_eq!(code, Some(0));

    let mut talk = InTerminal::start("xterm");
    talk.type_after(PASTES, prompt(1), b"caf\xe9 \r");
    talk.type_after(PASTES, prompt(2), "half\x03");
    let (code, said, shown) = talk.end();
    assert!(shown.ends_with("\x1b[?2004l"), "{shown:?}");
    assert_eq!(code, Some(130), "{said}");
    assert!(said.contains("interrupted by Ctrl-C"), "{said}");
    let expected = "the message is left out: it is not valid UTF-8";
    assert!(said.contains(expected), "{said}");
}

#[test]
fn a_terminal_without_escape_sequences_gets_none() {
    let mut talk = InTerminal::start("dumb");
    talk.type_after("", 0, "/what\nHello!\n/exit\n");
    let (code, said, shown) = talk.end();
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("> unknown command `/what`"), "{said}");
    assert!(
        said.contains("the answer ends at --max-new-tokens"),
        "{said}"
    );
    assert!(
        !shown.contains('\x1b') && !said.contains('\x1b'),
        "{shown:?}"
    );
}
