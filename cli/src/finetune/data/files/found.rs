//! The records in the text of a data file.

use super::super::json::{self, Ordered};
use super::super::preferences::Kind as Answers;
use super::super::record::Record;
use super::Placed;
use super::kind::Kind;
use super::text::MARK;
use kernels_io::escape;
use minijinja::value::ValueKind;
use serde::de::IgnoredAny;
use serde_json::{Map, Value};
use std::cell::OnceCell;
use std::path::PathBuf;

/// The records of all files, and the problems of others.
#[derive(Default)]
pub(super) struct Found {
    pub(super) answers: Option<Answers>,
    /// The folder of the file.
    pub(super) folder: PathBuf,
    pub(super) records: Vec<Placed>,
    pub(super) problems: Vec<String>,
}

impl Found {
    /// Returns the number of records that were read, with those that can't be trained on.
    pub(super) fn count(&self) -> usize {
        self.records.len() + self.problems.len()
    }

    /// Adds the records of a file.
    pub(super) fn add(&mut self, name: &str, kind: Kind, text: String) {
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
            // A file may hold JSON lines and have the name of JSON.
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
            None => Record::parse(value, &self.folder, ordered).map(|record| vec![record]),
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
