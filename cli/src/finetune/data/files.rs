//! Data files: a text, JSON lines, or a JSON list.

use super::record::Record;
use anyhow::{bail, ensure};
use kernels_io::{Limit, escape, escape_path};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// The number of problems that a message lists.
const LISTED: usize = 100;

/// A record and its place, for messages: `data.jsonl:3`.
pub type Placed = (String, Record);

/// Reads all records of files. A file whose name ends in `.jsonl` or `.json` holds JSON lines, or one JSON list; any other
/// is one text.
///
/// # Errors
/// Returns an error if a file can't be read, and one that lists everything that is wrong with records.
pub fn read(files: &[PathBuf]) -> anyhow::Result<Vec<Placed>> {
    const LIMIT: Limit = Limit::mib("training data", 16 << 10);
    let mut found = Found::default();
    for file in files {
        let text = kernels_io::read_text(file, LIMIT)?;
        ensure!(!text.trim().is_empty(), "{} is empty", escape_path(file));
        found.add(file, &text);
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

#[derive(Default)]
struct Found {
    records: Vec<Placed>,
    problems: Vec<String>,
}

impl Found {
    fn add(&mut self, file: &Path, text: &str) {
        let name = escape_path(file);
        let end = file.extension().and_then(|end| end.to_str());
        match end.map(str::to_ascii_lowercase).as_deref() {
            Some("json" | "jsonl") if text.trim_start().starts_with('[') => self.list(&name, text),
            Some("json" | "jsonl") => self.lines(&name, text),
            _ => self.records.push((name, Record::Text(text.to_owned()))),
        }
    }

    fn lines(&mut self, name: &str, text: &str) {
        for (at, line) in text.lines().enumerate() {
            let place = format!("{name}:{}", at + 1);
            if line.trim().is_empty() {
                continue;
            }
            match serde_json::from_str::<Value>(line) {
                Ok(value) => self.record(place, &value),
                Err(error) => self.problem(&place, &format!("not valid JSON: {error}")),
            }
        }
    }

    fn list(&mut self, name: &str, text: &str) {
        match serde_json::from_str::<Vec<Value>>(text) {
            Ok(values) => {
                for (at, value) in values.iter().enumerate() {
                    self.record(format!("{name}, entry {}", at + 1), value);
                }
            }
            Err(error) => self.problem(name, &format!("not valid JSON: {error}")),
        }
    }

    fn record(&mut self, place: String, value: &Value) {
        match Record::parse(value) {
            Ok(record) => self.records.push((place, record)),
            Err(problem) => self.problem(&place, &problem),
        }
    }

    fn problem(&mut self, place: &str, problem: &str) {
        self.problems.push(format!("{place}: {}", escape(problem)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str, text: &str) -> (tempfile::TempDir, Vec<PathBuf>) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        (folder, vec![path])
    }

    #[test]
    fn kinds_of_files_are_told_apart() {
        let count = |name: &str, text: &str| {
            let (_folder, files) = file(name, text);
            read(&files).map(|records| records.len()).unwrap()
        };
        assert_eq!(count("a.txt", "{\"text\": \"a\"}\nb"), 1);
        assert_eq!(
            count("a.jsonl", "{\"text\": \"a\"}\n\n{\"text\": \"b\"}\n"),
            2
        );
        assert_eq!(
            count(
                "a.JSON",
                " [{\"text\": \"a\"}, {\"text\": \"b\"}, {\"text\": \"c\"}]"
            ),
            3
        );
    }

    #[test]
    fn every_broken_line_is_told_by_its_number() {
        let (_folder, files) = file("a.jsonl", "{\"text\": \"a\"}\n{\n{\"text\": \"\"}\n[1]\n");
        let said = read(&files).unwrap_err().to_string();
        for expected in [
            "3 of the records",
            "a.jsonl:2: not valid",
            "a.jsonl:3: the text",
            "a.jsonl:4: expected",
        ] {
            assert!(said.contains(expected), "{said}");
        }
        let (_folder, files) = file("a.json", "[{\"text\": \"a\"}, 3]");
        let said = read(&files).unwrap_err().to_string();
        assert!(
            said.contains("a.json, entry 2: expected a JSON object"),
            "{said}"
        );
        let (_folder, files) = file("a.txt", " \n");
        assert!(read(&files).unwrap_err().to_string().contains("is empty"));
    }
}
