//! Tests of the width and the colours of tables.

use crate::common::{self, command, stdout};
use std::process::Command;

const PROGRAM: &str = env!("CARGO_BIN_EXE_kernels");

/// The commands with tables that need no model.
const COMMANDS: [&[&str]; 6] = [
    &["list"],
    &["plan"],
    &["plan", "--bin", PROGRAM],
    &["inspect", PROGRAM],
    &["semantics"],
    &["doctor"],
];

fn output(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", common::errors(&output));
    String::from_utf8(output.stdout).unwrap()
}

fn widest(text: &str) -> usize {
    text.lines().map(|line| line.chars().count()).max().unwrap()
}

#[test]
fn tables_fit_the_columns_that_are_asked_for_and_else_100() {
    for args in COMMANDS {
        // Messages may contain longer paths of this machine.
        let text = |command: &mut Command| {
            let lines = output(command.args(args));
            let lines = lines.lines().filter(|line| !line.contains(PROGRAM));
            lines.collect::<Vec<_>>().join("\n")
        };
        for columns in [80, 120] {
            let text = text(command().env("COLUMNS", columns.to_string()));
            assert!(widest(&text) <= columns, "{args:?}:\n{text}");
        }
        let usual = text(&mut command());
        assert!(widest(&usual) <= 100, "{args:?}:\n{usual}");
        assert_eq!(usual, text(command().env("COLUMNS", "100")), "{args:?}");
        assert_eq!(usual, text(command().env("COLUMNS", "wide")), "{args:?}");
    }
}

#[test]
fn wide_tables_have_a_line_for_each_row_with_full_names() {
    let listed = common::json(["list", "--json"]);
    let sites = listed["sites"].as_array().unwrap();
    for args in [
        &["list"][..],
        &["plan"],
        &["plan", "--bin", PROGRAM],
        &["inspect", PROGRAM],
    ] {
        let text = stdout(args.iter().chain(&["--wide"]));
        for site in sites {
            let (name, kernel) = (
                site["name"].as_str().unwrap(),
                site["kernel"].as_str().unwrap(),
            );
            let is_row = |line: &str| line.starts_with(name) && line.contains(kernel);
            assert!(text.lines().any(is_row), "{args:?} {name}:\n{text}");
        }
    }
    let narrow = stdout(["list"]);
    assert!(narrow.contains("LlamaMlp::forward"), "{narrow}");
}

#[test]
fn a_file_gets_no_colours() {
    for args in COMMANDS {
        assert!(!stdout(args).contains('\x1b'), "{args:?}");
    }
    let forced = output(command().env("CLICOLOR_FORCE", "1").arg("list"));
    assert!(forced.contains("\x1b[32myes\x1b[0m"), "{forced:?}");
    let off = output(
        command()
            .env("CLICOLOR_FORCE", "1")
            .env("NO_COLOR", "1")
            .arg("list"),
    );
    assert!(!off.contains('\x1b'), "{off:?}");
}

#[test]
fn paths_are_coloured_by_what_runs() {
    let plan = |policy: &str| {
        output(
            command()
                .env("CLICOLOR_FORCE", "1")
                .args(["plan", "--wide", "--kernels", policy]),
        )
    };
    assert!(plan("all").contains("\x1b[32mfused cpu-simd\x1b[0m"));
    let reference = plan("none");
    assert!(reference.contains("\x1b[33mreference: switched off by the policy\x1b[0m"));
    assert!(!reference.contains("\x1b[32m"));
}

#[cfg(unix)]
mod in_terminals {
    use super::*;
    use crate::terminal::open;
    use std::io::Read;

    /// Returns the output in a terminal with so many columns.
    fn in_terminal(columns: u16, command: &mut Command) -> String {
        let [mut control, screen] = open(columns);
        let mut child = command.stdout(screen).spawn().unwrap();
        // The terminal's other end must be closed, or the reader keeps waiting.
        command.stdout(std::process::Stdio::null());
        let mut bytes = Vec::new();
        // Linux returns an error once the other end is closed.
        let _ = control.read_to_end(&mut bytes);
        assert!(child.wait().unwrap().success());
        String::from_utf8(bytes).unwrap()
    }

    /// Returns the text without escape codes for colours.
    fn plain(text: &str) -> String {
        let mut parts = text.split("\x1b[");
        let first = parts.next().unwrap().to_owned();
        let rest = parts.map(|part| part.split_once('m').unwrap().1);
        first + &rest.collect::<String>()
    }

    #[test]
    fn a_terminal_decides_the_width_and_has_colours() {
        for columns in [72, 140] {
            let text = in_terminal(columns, command().env("TERM", "xterm").arg("list"));
            assert!(text.contains("\x1b[32m"), "{text:?}");
            let width = widest(&plain(&text));
            assert!(width <= columns.into(), "{width} of {columns}: {text}");
            assert!(
                width > usize::from(columns) - 20,
                "{width} of {columns}: {text}"
            );
        }
        let mut command = command();
        command
            .env("TERM", "xterm")
            .env("NO_COLOR", "1")
            .arg("list");
        assert!(!in_terminal(80, &mut command).contains('\x1b'));
    }
}
