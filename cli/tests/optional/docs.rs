//! The commands and policies of the documentation are ones that the program takes.

use crate::common::{command, errors, kernels};
use burn_kernels::live::Sampling;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// Commands and devices of features that a build may lack.
const OF_FEATURES: [(&str, bool); 5] = [
    ("finetune", cfg!(feature = "text")),
    ("generate", cfg!(feature = "text")),
    ("merge", cfg!(feature = "text")),
    ("packages", cfg!(feature = "packages")),
    ("serve", cfg!(feature = "remote")),
];

/// The programs that `cargo run` may start: those that members which it builds by default name for it.
fn programs() -> Vec<String> {
    let output = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--no-deps",
            "--offline",
            "--format-version",
            "1",
        ])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo's metadata");
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let default_members = list(&metadata["workspace_default_members"]);
    list(&metadata["packages"])
        .iter()
        .filter(|package| default_members.contains(&package["id"]))
        .filter_map(|package| package["default_run"].as_str().map(str::to_owned))
        .collect()
}

#[test]
fn cargo_run_means_the_program() {
    assert_eq!(programs(), ["kernels"]);
}

fn pages() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let book = fs::read_dir(root.join("docs")).expect("docs is there");
    let mut pages: Vec<PathBuf> = book.map(|entry| entry.expect("an entry").path()).collect();
    pages.push(root.join("README.md"));
    pages.retain(|path| path.extension().is_some_and(|end| end == "md"));
    pages
}

/// The code blocks of a language, line by line.
fn blocks(page: &Path, language: &str) -> Vec<String> {
    let text = fs::read_to_string(page).expect("a page");
    let mut blocks = Vec::new();
    let mut current = None::<String>;
    for line in text.lines() {
        match (&mut current, line.strip_prefix("```")) {
            (None, Some(info)) if info == language => current = Some(String::new()),
            (None, Some(_)) => current = Some("\0".to_owned()),
            (Some(_), Some(_)) => {
                blocks.extend(current.take().filter(|block| !block.starts_with('\0')));
            }
            (Some(block), None) => {
                block.push_str(line);
                block.push('\n');
            }
            (None, None) => {}
        }
    }
    blocks
}

/// A line of a shell: what it sets, and the arguments of `kernels`, if it runs that.
struct Line {
    sets: BTreeMap<String, String>,
    arguments: Option<Vec<String>>,
}

impl Line {
    fn parse(line: &str) -> Self {
        let line = line.split(" #").next().unwrap_or_default();
        let mut words = line.split_whitespace().peekable();
        let mut sets = BTreeMap::new();
        while let Some((name, value)) = words.peek().and_then(|word| word.split_once('=')) {
            if !name.chars().all(|c| c.is_ascii_uppercase() || c == '_') {
                break;
            }
            sets.insert(name.to_owned(), value.trim_matches('\'').to_owned());
            words.next();
        }
        let words: Vec<String> = words.map(str::to_owned).collect();
        let arguments = match words.first().map(String::as_str) {
            Some("kernels") => Some(words[1..].to_vec()),
            // Programs of other packages are named by `-p`.
            Some("cargo") if words[1] == "run" && !words.iter().any(|word| word == "-p") => {
                let from = words.iter().position(|word| word == "--");
                from.map(|from| words[from + 1..].to_vec())
            }
            _ => None,
        };
        Self { sets, arguments }
    }
}

fn lines() -> Vec<(String, Line)> {
    let blocks = pages().into_iter().flat_map(|page| blocks(&page, "sh"));
    let texts = blocks.flat_map(|block| block.lines().map(str::to_owned).collect::<Vec<_>>());
    texts
        .map(|text| {
            let line = Line::parse(&text);
            (text, line)
        })
        .collect()
}

/// Commands that have commands of their own.
const PARENTS: [&str; 2] = ["bench", "packages"];

/// The help of the command that the arguments begin with; nothing for one that this build lacks.
fn help(arguments: &[String]) -> Option<String> {
    let command = arguments[0].as_str();
    if OF_FEATURES.contains(&(command, false)) {
        return None;
    }
    let words = if PARENTS.contains(&command) { 2 } else { 1 };
    let words = arguments.iter().take(words).map(String::as_str);
    let output = kernels(words.chain(["--help"]));
    assert!(output.status.success(), "{command}: {}", errors(&output));
    Some(String::from_utf8(output.stdout).expect("text"))
}

/// The options of a command line that the command's help does not have. What stands behind `--` is another program's.
fn unknown(arguments: &[String], help: &str) -> Vec<String> {
    let own = arguments.iter().take_while(|argument| *argument != "--");
    let options = own.filter(|argument| argument.starts_with("--"));
    let names = options.map(|option| option.split('=').next().unwrap_or_default().to_owned());
    let words: Vec<&str> = help
        .split(|c: char| c.is_whitespace() || matches!(c, ',' | '=' | '['))
        .collect();
    names
        .filter(|name| !words.contains(&name.as_str()))
        .collect()
}

#[test]
fn commands_of_the_documentation_are_commands_of_the_program() {
    let mut seen = 0;
    for (text, line) in lines() {
        let Some(arguments) = line.arguments else {
            continue;
        };
        assert!(!arguments.is_empty(), "{text}");
        let Some(help) = help(&arguments) else {
            continue;
        };
        assert_eq!(unknown(&arguments, &help), [""; 0], "{text}");
        seen += 1;
    }
    assert!(seen > 15, "{seen}");
}

#[test]
fn an_option_that_is_none_is_found() {
    let help = help(&["plan".to_owned()]).expect("it is built in");
    let line =
        Line::parse("BURN_KERNELS='all,-x' kernels plan --bin=a --dtpe f32 -- --else # --not");
    assert_eq!(line.sets["BURN_KERNELS"], "all,-x");
    assert_eq!(unknown(&line.arguments.unwrap(), &help), ["--dtpe"]);
    let other = Line::parse("cargo run --release -p cann-emulator --bin install -- target/cann");
    assert!(other.arguments.is_none());
}

/// The program takes the policy at its start.
fn accept(policy: &str, text: &str) {
    let output = command()
        .env("BURN_KERNELS", policy)
        .arg("list")
        .output()
        .expect("the program starts");
    assert!(output.status.success(), "{text}: {}", errors(&output));
}

#[test]
fn policies_of_the_documentation_are_policies() {
    let mut seen = 0;
    for (text, line) in lines() {
        if let Some(policy) = line.sets.get("BURN_KERNELS") {
            // Files are not there.
            if !policy.starts_with('@') && !policy.contains("tune:") {
                accept(policy, &text);
                seen += 1;
            }
        }
        if let Some(sampling) = line.sets.get("BURN_KERNELS_VERIFY") {
            sampling
                .parse::<Sampling>()
                .unwrap_or_else(|error| panic!("{text}: {error}"));
            seen += 1;
        }
    }
    let folder = TempDir::new().expect("a folder");
    for page in pages() {
        for block in blocks(&page, "toml") {
            if !block.contains("[dependencies]") {
                let file = folder.path().join("kernels.toml");
                fs::write(&file, &block).expect("written");
                accept(&format!("@{}", file.display()), &block);
                seen += 1;
            }
        }
    }
    assert!(seen > 8, "{seen}");
}
