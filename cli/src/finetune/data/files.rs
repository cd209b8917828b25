//! Data files: a text, JSON lines, JSON, or Parquet.

use super::json::{self, Ordered};
use super::preferences::Kind as Answers;
use super::record::Record;
use anyhow::{anyhow, bail, ensure};
use flate2::read::MultiGzDecoder;
use kernels_io::{Limit, escape, escape_path};
use minijinja::value::ValueKind;
use serde::de::IgnoredAny;
use serde_json::{Map, Value};
use std::cell::OnceCell;
use std::io::Read;
use std::path::{Path, PathBuf};

/// The number of problems that a message lists.
const LISTED: usize = 100;

/// A record and its place, for messages: `data.jsonl:3`.
pub type Placed = (String, Record);

/// Reads all records of files. The end of a file's name says what it holds. `answers` says which records of answers a loss takes,
/// if it takes such.
///
/// # Errors
/// Returns an error if a file can't be read or is of another kind, and one that lists everything that is wrong with records.
pub fn read(files: &[PathBuf], answers: Option<Answers>) -> anyhow::Result<Vec<Placed>> {
    let mut found = Found {
        answers,
        ..Found::default()
    };
    for file in files {
        let kind = kind(file)?;
        let text = match kind {
            Kind::Parquet => rows(file)?,
            _ => text(file)?,
        };
        let (name, before) = (escape_path(file), found.count());
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

/// The kind of content of a data file.
#[derive(Clone, Copy)]
enum Kind {
    Text,
    Lines,
    Json,
    Parquet,
}

/// Returns the kind of a file by the end of its name.
fn kind(file: &Path) -> anyhow::Result<Kind> {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let name = name.trim_start_matches('.').to_ascii_lowercase();
    let Some((_, ends)) = name.split_once('.') else {
        return Ok(Kind::Text);
    };
    let mut ends = ends.strip_suffix(".gz").unwrap_or(ends).rsplit('.');
    let advice = match ends.next() {
        Some("json") => return Ok(Kind::Json),
        Some("jsonl" | "ndjson" | "jsonlines" | "ldjson") => return Ok(Kind::Lines),
        Some("parquet") if is_gzip(file) => {
            "the columns of a Parquet file are compressed inside of it; unpack it"
        }
        Some("parquet") => return Ok(Kind::Parquet),
        Some("txt" | "text" | "md" | "markdown" | "rst" | "tex") => match ends.next() {
            Some("jsonl" | "json" | "ndjson") => {
                "it may hold JSON, which is read from a name that ends in .jsonl or .json, and would be learned as plain \
                 text; rename it"
            }
            _ => return Ok(Kind::Text),
        },
        Some("gz" | "tgz" | "zst" | "xz" | "bz2" | "lz4" | "zip" | "7z" | "tar") => {
            "it may be compressed, which is read from names such as data.jsonl.gz; unpack it, and name the file that comes out"
        }
        Some("csv" | "tsv" | "xls" | "xlsx" | "arrow" | "feather" | "orc") => {
            "tables are not read; write it as JSON lines, for example with pandas: \
             `frame.to_json(\"data.jsonl\", orient=\"records\", lines=True)`"
        }
        _ => {
            "unknown file extension; JSON lines are read from .jsonl, one JSON value from .json, rows from .parquet, and a \
             text, all of which is learned, from .txt or .md; rename it"
        }
    };
    bail!("{}: {advice}", escape_path(file))
}

fn is_gzip(file: &Path) -> bool {
    let end = file.extension();
    end.is_some_and(|end| end.eq_ignore_ascii_case("gz"))
}

/// The first bytes of files without text, and the names of their kinds.
const FOREIGN: [(&[u8], &str); 10] = [
    (b"\xff\xfe", UTF16),
    (b"\xfe\xff", UTF16),
    (b"\x1f\x8b", "compressed by gzip; unpack it"),
    (b"\x28\xb5\x2f\xfd", "compressed by zstd; unpack it"),
    (b"\xfd7zXZ", "compressed by xz; unpack it"),
    (b"BZh", "compressed by bzip2; unpack it"),
    (b"PK\x03\x04", "a zip archive; unpack it"),
    (
        b"PAR1",
        "a Parquet file; give it a name that ends in .parquet",
    ),
    (b"ARROW1", "an Arrow file; write it as JSON lines"),
    (
        b"version https://git-lfs.github.com/spec/",
        "a Git LFS pointer instead of the file itself; fetch it with `git lfs pull`",
    ),
];

const UTF16: &str =
    "text in UTF-16, and not in UTF-8; convert it, for example with `iconv -f UTF-16 -t UTF-8`";

/// The largest size of a data file.
const LIMIT: Limit = Limit::mib("training data", 16 << 10);

/// Returns the rows of a Parquet file as JSON lines.
#[cfg(feature = "parquet")]
fn rows(file: &Path) -> anyhow::Result<String> {
    let rows = super::parquet::rows(file, LIMIT)?;
    ensure!(!rows.is_empty(), "{} has no rows", escape_path(file));
    Ok(rows)
}

#[cfg(not(feature = "parquet"))]
fn rows(file: &Path) -> anyhow::Result<String> {
    bail!(
        "{}: Parquet files are read by a build with `--features parquet`; or write it as JSON lines, for example with \
         pandas: `frame.to_json(\"data.jsonl\", orient=\"records\", lines=True)`",
        escape_path(file)
    )
}

/// Returns the text of a file, without a byte order mark.
fn text(file: &Path) -> anyhow::Result<String> {
    let name = escape_path(file);
    let mut bytes = kernels_io::read(file, LIMIT)?;
    if is_gzip(file) {
        bytes = unpacked(&bytes, LIMIT).map_err(|why| anyhow!("{name}: {why}"))?;
    }
    let foreign = FOREIGN.iter().find(|(first, _)| bytes.starts_with(first));
    if let Some((_, what)) = foreign {
        bail!("{name} is {what}");
    }
    // Text in UTF-16 without a mark begins with half a letter.
    ensure!(
        !bytes.iter().take(2).any(|byte| *byte == 0),
        "{name} is {UTF16}"
    );
    let text = String::from_utf8(bytes).map_err(|error| {
        let valid = error.utf8_error().valid_up_to();
        let line = 1 + lines_in(&error.as_bytes()[..valid]);
        anyhow!("{name}:{line}: not valid UTF-8; convert it, for example with `iconv -f LATIN1 -t UTF-8`")
    })?;
    let text = match text.strip_prefix(MARK) {
        Some(rest) => rest.to_owned(),
        None => text,
    };
    ensure!(!text.trim().is_empty(), "{name} is empty");
    Ok(text)
}

/// Returns what gzip compressed, of one member or several.
fn unpacked(bytes: &[u8], limit: Limit) -> anyhow::Result<Vec<u8>> {
    let mut unpacked = Vec::new();
    let mut reader = MultiGzDecoder::new(bytes).take(limit.bytes + 1);
    if let Err(error) = reader.read_to_end(&mut unpacked) {
        bail!("not a valid gzip file: {error}");
    }
    ensure!(
        unpacked.len() as u64 <= limit.bytes,
        "unpacked, it is larger than the limit of {} bytes for {}",
        limit.bytes,
        limit.what
    );
    Ok(unpacked)
}

/// The byte order mark.
const MARK: char = '\u{feff}';

fn lines_in(bytes: &[u8]) -> usize {
    bytes.iter().filter(|byte| **byte == b'\n').count()
}

#[derive(Default)]
struct Found {
    answers: Option<Answers>,
    records: Vec<Placed>,
    problems: Vec<String>,
}

impl Found {
    /// Returns the number of records that were read, with those that can't be trained on.
    fn count(&self) -> usize {
        self.records.len() + self.problems.len()
    }

    fn add(&mut self, name: &str, kind: Kind, text: String) {
        match kind {
            Kind::Text if self.answers == Some(Answers::Prompts) => {
                self.problem(name, "a text has no prompts; give JSON lines with `prompt`");
            }
            Kind::Text if self.answers.is_some() => {
                self.problem(name, "a text has no answers; give JSON lines with `chosen` and `rejected`, or `label`");
            }
            Kind::Text if is_json(&text) => self.problem(
                name,
                "it holds JSON, which is read from a name that ends in .jsonl or .json, and would be learned as plain \
                 text; rename it, or write what is to be learned as it is into the field `text` of a record",
            ),
            Kind::Text => self.records.push((name.to_owned(), Record::Text(text))),
            Kind::Parquet => self.lines(name, &text),
            Kind::Lines if !text.trim_start().starts_with('[') => self.lines(name, &text),
            Kind::Lines | Kind::Json => self.whole(name, &text),
        }
    }

    fn lines(&mut self, name: &str, text: &str) {
        for (at, line) in text.lines().enumerate() {
            let place = format!("{name}:{}", at + 1);
            // Files that were joined have their marks inside.
            let line = line.trim_start_matches(MARK);
            if line.trim().is_empty() {
                continue;
            }
            match json::parse(line) {
                Ok(value) => self.record(place, &value, || json::parse(line).unwrap_or_default()),
                Err(error) => self.problem(&place, &json::problem(&error)),
            }
        }
    }

    /// Reads a file that is one JSON value: a list of records, an object with such a list, or a record.
    fn whole(&mut self, name: &str, text: &str) {
        let entries = match json::parse(text) {
            Ok(Value::Array(values)) => Ok(Some((None, values))),
            Ok(Value::Object(fields)) => wrapped(fields)
                .map(Some)
                .map_err(|problem| (name.to_owned(), problem)),
            Ok(_) => Err((name.to_owned(), "expected a list of records".to_owned())),
            // JSON lines under the name of JSON.
            Err(_) if first_line(text).is_some_and(|line| json::parse::<Value>(line).is_ok()) => {
                Ok(None)
            }
            Err(error) => Err((format!("{name}:{}", error.line()), json::problem(&error))),
        };
        match entries {
            Ok(Some((list, values))) => {
                let ordered = OnceCell::<Ordered>::new();
                for (at, value) in values.iter().enumerate() {
                    let entry = || {
                        let whole = || json::parse(text).unwrap_or_default();
                        let mut whole: Ordered = ordered.get_or_init(whole).clone();
                        if let Some(list) = &list {
                            whole = whole.get_attr(list).unwrap_or_default();
                        }
                        match whole.kind() {
                            ValueKind::Seq => whole.get_item_by_index(at).unwrap_or_default(),
                            _ => whole,
                        }
                    };
                    self.record(format!("{name}, entry {}", at + 1), value, entry);
                }
            }
            Ok(None) => self.lines(name, text),
            Err((place, problem)) => self.problem(&place, &problem),
        }
    }

    /// Adds a record. `ordered` returns it with the order of its fields.
    fn record(&mut self, place: String, value: &Value, ordered: impl FnOnce() -> Ordered) {
        let records = match self.answers {
            Some(kind) => Record::preferences(value, kind, ordered),
            None => Record::parse(value, ordered).map(|record| vec![record]),
        };
        match records {
            Ok(records) => {
                let placed = records.into_iter().map(|record| (place.clone(), record));
                self.records.extend(placed);
            }
            Err(problem) => self.problem(&place, &problem),
        }
    }

    fn problem(&mut self, place: &str, problem: &str) {
        self.problems.push(format!("{place}: {}", escape(problem)));
    }
}

/// Returns `true` for JSON lines, each of an object, and for a list or an object of JSON.
fn is_json(text: &str) -> bool {
    let is_value = |text: &str| json::parse::<IgnoredAny>(text).is_ok();
    let is_object = |line: &str| line.trim_start().starts_with('{') && is_value(line);
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    lines.all(is_object) || text.trim_start().starts_with(['{', '[']) && is_value(text)
}

fn first_line(text: &str) -> Option<&str> {
    text.lines().find(|line| !line.trim().is_empty())
}

/// The name of a list in an object, and its records.
type Wrapped = (Option<String>, Vec<Value>);

/// Returns the records of an object: itself, or the one list of objects in it.
fn wrapped(mut fields: Map<String, Value>) -> Result<Wrapped, String> {
    if Record::FIELDS.iter().any(|name| fields.contains_key(*name)) {
        return Ok((None, vec![Value::Object(fields)]));
    }
    let is_list = |value: &Value| {
        let list = value.as_array();
        list.is_some_and(|list| list.first().is_some_and(Value::is_object))
    };
    let lists = fields.iter().filter(|(_, value)| is_list(value));
    let names: Vec<String> = lists.map(|(name, _)| name.clone()).collect();
    match &names[..] {
        [] => Err("expected a list of records, or an object with one, such as `data`".into()),
        [name] => match fields.remove(name) {
            Some(Value::Array(list)) => Ok((Some(name.clone()), list)),
            _ => unreachable!("a list has this name"),
        },
        several => Err(format!(
            "the lists `{}` are each of records; write the one to learn into a file of its own",
            several.join("`, `")
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn file(name: &str, text: impl AsRef<[u8]>) -> (tempfile::TempDir, Vec<PathBuf>) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        (folder, vec![path])
    }

    #[test]
    fn kinds_of_files_are_told_apart() {
        let count = |name: &str, text: &str| {
            let (_folder, files) = file(name, text);
            read(&files, None).map(|records| records.len()).unwrap()
        };
        assert_eq!(count("corpus", "a"), 1);
        assert_eq!(count("a.b.md", "a"), 1);
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
        let one = "{\"text\": \"a\"}";
        for (name, text, records) in [
            ("a.json", format!("{one}\r\n{one}"), 2),
            ("a.ndjson", format!("{one}\n{one}"), 2),
            ("a.json", one.replace(' ', "\n"), 1),
            (
                "a.json",
                format!("{{\"version\": 1, \"data\": [{one}, {one}]}}"),
                2,
            ),
            ("a.json", format!("{{\n\"train\":\n[{one}]}}\n"), 1),
            ("a.jsonl", format!("\u{feff}{one}\r\n\u{feff}{one}"), 2),
            ("a.json", format!("\u{feff}[{one}]"), 1),
            (
                "a.jsonl",
                format!("{{\"text\": \"a\", \"score\": NaN}}\n{one}"),
                2,
            ),
        ] {
            assert_eq!(count(name, &text), records, "{text}");
        }
        // A list of Markdown, and a line of JSON in a text.
        assert_eq!(count("a.md", "[1] a\n[2] b\n"), 1);
        for (name, text) in [
            ("a.txt", format!("{one}\n\n{one}\n")),
            ("a.txt", one.to_owned()),
            ("a.md", format!("[\n{one},\n{one}\n]\n")),
            ("corpus", one.replace(' ', "\n")),
        ] {
            let (_folder, files) = file(name, text);
            let why = read(&files, None).unwrap_err().to_string();
            assert!(
                why.contains("it holds JSON") && why.contains("rename it"),
                "{why}"
            );
        }
        let (_folder, files) = file("a.txt", "\u{feff}a");
        assert_eq!(read(&files, None).unwrap()[0].1, Record::Text("a".into()));
    }

    #[test]
    fn compressed_files_are_unpacked_up_to_the_limit() {
        let packed = |text: &[u8]| {
            let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            packed.write_all(text).unwrap();
            packed.finish().unwrap()
        };
        let one = packed(b"{\"text\": \"a\"}\n");
        // Files that were joined are several members.
        let (_folder, files) = file("a.jsonl.gz", [&one[..], &one].concat());
        assert_eq!(read(&files, None).unwrap().len(), 2);
        let (_folder, files) = file("A.TXT.GZ", packed(b"a"));
        assert_eq!(read(&files, None).unwrap()[0].1, Record::Text("a".into()));
        let (_folder, files) = file("a.jsonl.gz", &one[..one.len() - 1]);
        let said = read(&files, None).unwrap_err().to_string();
        assert!(said.contains("not a valid gzip file"), "{said}");
        let zeros = packed(&vec![0; (1 << 20) + 1]);
        let limit = Limit::mib("training data", 1);
        let said = unpacked(&zeros, limit).unwrap_err().to_string();
        assert!(said.contains("limit of 1048576 bytes"), "{said}");
    }

    #[test]
    fn files_of_other_kinds_are_refused_with_what_to_do() {
        let one = "{\"text\": \"a\"}\n";
        let utf16: Vec<u8> = one.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let marked = [&b"\xff\xfe"[..], &utf16].concat();
        let latin = [one.as_bytes(), b"{\"text\": \"\xe9\"}"].concat();
        for (name, bytes, words) in [
            ("a.csv", &b"text\na"[..], ["a.csv", "JSON lines"]),
            ("a.jsonl.xz", b"\xfd7zXZ", ["a.jsonl.xz", "unpack"]),
            ("a.jsonl.txt", one.as_bytes(), [".jsonl", "rename"]),
            (
                "a.jsonl.gz",
                b"\x1f\x8b",
                ["a.jsonl.gz", "not a valid gzip file"],
            ),
            (
                "a.jsonl.gz",
                one.as_bytes(),
                ["a.jsonl.gz", "not a valid gzip file"],
            ),
            ("a.parquet.gz", b"\x1f\x8b", ["a.parquet.gz", "unpack"]),
            ("a.gz", b"\x1f\x8b", ["a.gz", "data.jsonl.gz"]),
            ("a.toml", b"a = 1", ["unknown file extension", ".txt"]),
            ("a.jsonl", b"\x1f\x8b\x08", ["gzip", "unpack"]),
            ("a.txt", b"PAR1", ["Parquet", ".parquet"]),
            #[cfg(not(feature = "parquet"))]
            ("a.parquet", b"PAR1", ["--features parquet", "to_json"]),
            #[cfg(feature = "parquet")]
            (
                "a.parquet",
                b"PAR1",
                ["a.parquet", "not a valid Parquet file"],
            ),
            (
                "a.jsonl",
                b"version https://git-lfs.github.com/spec/v1",
                ["Git LFS", "pull"],
            ),
            ("a.jsonl", &marked, ["UTF-16", "iconv"]),
            ("a.jsonl", &utf16, ["UTF-16", "iconv"]),
            ("a.jsonl", &latin, ["a.jsonl:2", "UTF-8"]),
            (
                "a.jsonl",
                b"\n{\"text\": \"\\ud83d\"}",
                ["a.jsonl:2", "surrogate"],
            ),
            ("a.json", b"[{},\n{]", ["a.json:2", "column 2"]),
            (
                "a.json",
                b"{\"train\": [{}], \"test\": [{}]}",
                ["`test`, `train`", "of its own"],
            ),
            ("a.json", b"{\"train\": {}}", ["a.json", "such as `data`"]),
            ("a.json", b"7", ["a.json", "a list of records"]),
            ("a.json", b"[]", ["a.json", "holds no record"]),
            ("a.txt", b"\xef\xbb\xbf \n", ["a.txt", "is empty"]),
        ] {
            let (_folder, files) = file(name, bytes);
            let said = read(&files, None).unwrap_err().to_string();
            for word in words {
                assert!(said.contains(word), "{name}: {said}");
            }
        }
    }

    #[test]
    fn a_text_has_no_answers_and_no_prompts() {
        let (_folder, files) = file("a.txt", "a");
        for (kind, expected) in [
            (Answers::Pairs, "a text has no answers"),
            (Answers::Prompts, "a text has no prompts"),
        ] {
            let said = read(&files, Some(kind)).unwrap_err().to_string();
            assert!(said.contains(expected), "{said}");
        }
    }

    #[test]
    fn every_broken_line_is_told_by_its_number() {
        let (_folder, files) = file("a.jsonl", "{\"text\": \"a\"}\n{\n{\"text\": \"\"}\n[1]\n");
        let said = read(&files, None).unwrap_err().to_string();
        for expected in [
            "3 of the records",
            "a.jsonl:2: not valid",
            "a.jsonl:3: the text",
            "a.jsonl:4: expected",
        ] {
            assert!(said.contains(expected), "{said}");
        }
        let (_folder, files) = file("a.json", "[{\"text\": \"a\"}, 3]");
        let said = read(&files, None).unwrap_err().to_string();
        assert!(
            said.contains("a.json, entry 2: expected a JSON object"),
            "{said}"
        );
        let (_folder, files) = file("a.txt", " \n");
        assert!(
            read(&files, None)
                .unwrap_err()
                .to_string()
                .contains("is empty")
        );
    }
}
