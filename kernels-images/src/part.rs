//! Messages with pictures, as records of data sets and requests to servers write them.

use crate::error::counted;
use crate::{Error, Source};
use serde_json::{Map, Value, json};
use std::path::Path;

/// A part of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// A text.
    Text(String),
    /// A picture.
    Image(Source),
}

/// The pictures that a record names beside its messages, each of which has one place in them.
#[derive(Debug)]
pub struct Images<'a> {
    folder: &'a Path,
    left: std::vec::IntoIter<Source>,
    given: usize,
}

/// The place of a picture in a text, as LLaMA-Factory writes it.
const MARK: &str = "<image>";

/// The fields of a record that name pictures.
const FIELDS: [&str; 2] = ["images", "image"];

/// The fields of a part that name its picture, in OpenAI's spelling, Qwen's and those of transformers.
const PLACES: [&str; 4] = ["image_url", "image", "url", "path"];

impl<'a> Images<'a> {
    /// Reads the field `images` of a record, or `image`: a place, or a list of places, each a text or an object with
    /// `path` or `url`. Paths are relative to `folder`, which is that of the data file.
    ///
    /// # Errors
    /// Returns an error that names the picture whose place is not supported.
    pub fn of_record(record: &Map<String, Value>, folder: &'a Path) -> Result<Self, Error> {
        let given = |name: &&str| record.get(*name).is_some_and(|value| !value.is_null());
        let mut names = FIELDS.into_iter().filter(given);
        let (name, other) = (names.next(), names.next());
        if other.is_some() {
            return Err(Error::Record(
                "the record has `images` and `image`; keep one".into(),
            ));
        }
        let list = name.map_or(&[][..], |name| match &record[name] {
            Value::Array(list) => list.as_slice(),
            one => std::slice::from_ref(one),
        });
        let read = |(at, value): (usize, &Value)| {
            let name = format!("picture {} of `{}`", at + 1, name.unwrap_or_default());
            place(value, &name).and_then(|place| Source::parse(place, folder))
        };
        let sources: Vec<Source> = list
            .iter()
            .enumerate()
            .map(read)
            .collect::<Result<_, _>>()?;
        Ok(Self {
            folder,
            given: sources.len(),
            left: sources.into_iter(),
        })
    }

    /// Returns a record without pictures beside its messages, whose parts can still have their own.
    pub fn none(folder: &'a Path) -> Self {
        Self {
            folder,
            left: Vec::new().into_iter(),
            given: 0,
        }
    }

    /// Reads the content of a message: a text, in which `<image>` stands for a picture if the record has any, or a list
    /// of parts, `text`, `image_url` or `image`. A part `image` without a place takes the next picture of the record.
    ///
    /// # Errors
    /// Returns an error that names the part if it is of another kind, has other fields, or has a place for a picture
    /// that the record doesn't name.
    pub fn parts(&mut self, content: &Value) -> Result<Vec<Part>, Error> {
        match content {
            Value::String(text) => self.in_text(text),
            Value::Array(list) => {
                let part =
                    |(at, part): (usize, &Value)| self.part(part, &format!("part {}", at + 1));
                list.iter().enumerate().map(part).collect()
            }
            _ => Err(Error::Record(
                "`content` must be a text or a list of parts".into(),
            )),
        }
    }

    /// Checks that each picture beside the messages had its place in them.
    ///
    /// # Errors
    /// Returns an error if there were fewer places.
    pub fn finish(self) -> Result<(), Error> {
        match self.left.len() {
            0 => Ok(()),
            left => Err(self.mismatch(&counted(self.given - left, "place"))),
        }
    }

    /// Reads a text with `<image>`. Without pictures in the record, that is a text like any other.
    fn in_text(&mut self, text: &str) -> Result<Vec<Part>, Error> {
        if self.given == 0 {
            return Ok(vec![Part::Text(text.into())]);
        }
        let mut parts = Vec::new();
        for (at, text) in text.split(MARK).enumerate() {
            if at > 0 {
                parts.push(self.next()?);
            }
            if !text.is_empty() {
                parts.push(Part::Text(text.into()));
            }
        }
        Ok(parts)
    }

    /// Returns the next picture.
    fn next(&mut self) -> Result<Part, Error> {
        match self.left.next() {
            Some(source) => Ok(Part::Image(source)),
            None => Err(self.mismatch("more places")),
        }
    }

    fn mismatch(&self, places: &str) -> Error {
        Error::Record(format!(
            "the record names {}, but its messages have {places} for pictures (`{MARK}`, or parts of the type `image` \
             without a place); each picture needs one",
            counted(self.given, "picture")
        ))
    }

    fn part(&mut self, part: &Value, name: &str) -> Result<Part, Error> {
        let Value::Object(fields) = part else {
            return Err(Error::Record(format!(
                "{name} of `content` must be an object"
            )));
        };
        let kind = fields
            .get("type")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let known: &[&str] = match kind {
            "text" => &["text"],
            "image_url" | "image" => &PLACES,
            _ => {
                return Err(Error::Record(format!(
                    "{name} of `content` has the type `{kind}`; supported are text, image_url and image"
                )));
            }
        };
        refuse(fields, &[&["type"], known].concat(), name)?;
        if kind == "text" {
            let text = fields.get("text").and_then(Value::as_str);
            let text = text.ok_or_else(|| {
                Error::Record(format!("{name} of `content`: `text` must be a text"))
            })?;
            return Ok(Part::Text(text.into()));
        }
        match given(fields, &PLACES) {
            [Some(value), None] => {
                let source = Source::parse(place(value, name)?, self.folder)?;
                Ok(Part::Image(source))
            }
            [None, _] if kind == "image" => self.next(),
            _ => Err(Error::Record(format!(
                "{name} of `content` must name one picture"
            ))),
        }
    }
}

impl Part {
    /// Returns the part as chat templates read it. They write a placeholder for a picture, whose place they don't need.
    pub fn for_template(&self) -> Value {
        match self {
            Self::Text(text) => json!({"type": "text", "text": text}),
            Self::Image(_) => json!({"type": "image"}),
        }
    }
}

/// Returns the place of a picture, a text or an object that has it as `url` or `path`.
fn place<'v>(value: &'v Value, name: &str) -> Result<&'v str, Error> {
    let found = match value {
        Value::Object(fields) => {
            // OpenAI's `auto` leaves the size to the model, as this crate does.
            let is_auto = fields
                .get("detail")
                .is_none_or(|detail| detail.is_null() || detail == "auto");
            refuse(
                fields,
                if is_auto {
                    &["url", "path", "detail"]
                } else {
                    &["url", "path"]
                },
                name,
            )?;
            match given(fields, &["url", "path"]) {
                [Some(place), None] => place.as_str(),
                _ => None,
            }
        }
        text => text.as_str(),
    };
    let problem = || {
        Error::Record(format!(
            "{name} is {}, and must be a path, a file: URL or a data: URL",
            shown(value)
        ))
    };
    found.ok_or_else(problem)
}

/// Refuses fields that would be lost.
fn refuse(fields: &Map<String, Value>, known: &[&str], name: &str) -> Result<(), Error> {
    let unknown = fields
        .iter()
        .find(|(field, value)| !known.contains(&field.as_str()) && !value.is_null());
    match unknown {
        None => Ok(()),
        Some((field, value)) => Err(Error::Record(format!(
            "{name}: `{field}`, which is {}, is not supported; remove it",
            shown(value)
        ))),
    }
}

/// Returns the first two of these fields that are there and not null.
fn given<'v>(fields: &'v Map<String, Value>, names: &[&str]) -> [Option<&'v Value>; 2] {
    let values = names.iter().filter_map(|name| fields.get(*name));
    let mut values = values.filter(|value| !value.is_null());
    [values.next(), values.next()]
}

fn shown(value: &Value) -> String {
    kernels_io::shorten(&value.to_string(), 80).into_owned()
}
