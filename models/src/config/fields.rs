//! Typed access to the fields of a JSON object, with errors that name the file and the field.

use std::path::Path;

use serde_json::{Map, Value, json};

use crate::ModelError;

/// The largest accepted size. Products of two sizes then fit in a `u64`. A typing error of a few digits is an error
/// here, before terabytes are allocated.
pub(crate) const MAX_SIZE: u64 = i32::MAX as u64;

/// A JSON object of a file. A field that is `null` counts as absent, as in `transformers`.
#[derive(Clone, Copy)]
pub(crate) struct Fields<'a> {
    origin: &'a Path,
    /// Names of the objects around those of `prefix`, each followed by a dot.
    outer: &'a str,
    /// Names of the enclosing objects, each followed by a dot.
    prefix: &'a str,
    object: &'a Map<String, Value>,
}

impl<'a> Fields<'a> {
    pub(crate) fn new(origin: &'a Path, prefix: &'a str, object: &'a Map<String, Value>) -> Self {
        Self {
            origin,
            outer: "",
            prefix,
            object,
        }
    }

    /// Returns the fields of an object inside of this one. `prefix` is its name, followed by a dot.
    pub(crate) fn inside(&self, prefix: &'a str, object: &'a Map<String, Value>) -> Self {
        Self {
            outer: self.prefix,
            ..Self::new(self.origin, prefix, object)
        }
    }

    pub(crate) fn origin(&self) -> &'a Path {
        self.origin
    }

    pub(crate) fn error(&self, name: &str, problem: impl Into<String>) -> ModelError {
        let name = format!("{}{}{name}", self.outer, self.prefix);
        ModelError::field(self.origin, name, problem)
    }

    pub(crate) fn value(&self, name: &str) -> Option<&'a Value> {
        self.object.get(name).filter(|value| !value.is_null())
    }

    /// Returns `true` for the fields of the same object.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        std::ptr::eq(self.object, other.object)
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &'a String> {
        self.object.keys()
    }

    /// Reads a field with `convert`, which returns `None` for a value of the wrong type.
    fn typed<T>(
        &self,
        name: &str,
        expected: &str,
        convert: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, ModelError> {
        let Some(value) = self.value(name) else {
            return Ok(None);
        };
        let converted = convert(value);
        if converted.is_none() {
            return Err(self.error(name, format!("expected {expected}, found {}", brief(value))));
        }
        Ok(converted)
    }

    /// Reads a size: an integer of at least 1.
    pub(crate) fn size(&self, name: &str) -> Result<Option<usize>, ModelError> {
        let expected = format!("an integer from 1 to {MAX_SIZE}");
        self.typed(name, &expected, |value| {
            let size = value
                .as_u64()
                .filter(|size| (1..=MAX_SIZE).contains(size))?;
            usize::try_from(size).ok()
        })
    }

    /// Reads an index or a count: an integer of at least 0.
    pub(crate) fn index(&self, name: &str) -> Result<Option<usize>, ModelError> {
        self.typed(name, "an integer from 0", |value| {
            usize::try_from(value.as_u64()?).ok()
        })
    }

    /// Reads a list of indices: integers of at least 0.
    pub(crate) fn indices(&self, name: &str) -> Result<Option<Vec<usize>>, ModelError> {
        self.typed(name, "a list of integers from 0", |value| {
            let index = |value: &Value| usize::try_from(value.as_u64()?).ok();
            value.as_array()?.iter().map(index).collect()
        })
    }

    /// Reads a finite number.
    pub(crate) fn number(&self, name: &str) -> Result<Option<f64>, ModelError> {
        self.typed(name, "a finite number", |value| {
            value.as_f64().filter(|x| x.is_finite())
        })
    }

    /// Reads a finite number above 0.
    pub(crate) fn positive(&self, name: &str) -> Result<Option<f64>, ModelError> {
        self.typed(name, "a number above 0", |value| {
            value.as_f64().filter(|x| x.is_finite() && *x > 0.0)
        })
    }

    /// Reads a list of finite numbers.
    pub(crate) fn numbers(&self, name: &str) -> Result<Option<Vec<f64>>, ModelError> {
        self.typed(name, "a list of numbers", |value| {
            let number = |value: &Value| value.as_f64().filter(|x| x.is_finite());
            value.as_array()?.iter().map(number).collect()
        })
    }

    /// Reads a size that may be a list with the same size in each of its `entries`.
    pub(crate) fn common_size(
        &self,
        name: &str,
        entries: usize,
    ) -> Result<Option<usize>, ModelError> {
        let Some(list) = self.value(name).and_then(Value::as_array) else {
            return self.size(name);
        };
        let [first, others @ ..] = list.as_slice() else {
            return Err(self.error(name, "has no entry"));
        };
        if list.len() != entries || others.iter().any(|other| other != first) {
            let problem = format!(
                "{} is not supported: {entries} layers must have the same size",
                brief(&Value::Array(list.clone()))
            );
            return Err(self.error(name, problem));
        }
        let size = first.as_u64().filter(|size| (1..=MAX_SIZE).contains(size));
        let size = size.and_then(|size| usize::try_from(size).ok());
        size.map(Some).ok_or_else(|| {
            let problem = format!(
                "expected integers from 1 to {MAX_SIZE}, found {}",
                brief(first)
            );
            self.error(name, problem)
        })
    }

    /// Reads a list of finite numbers above 0.
    pub(crate) fn positives(&self, name: &str) -> Result<Option<Vec<f64>>, ModelError> {
        self.typed(name, "a list of numbers above 0", |value| {
            let positive = |value: &Value| value.as_f64().filter(|x| x.is_finite() && *x > 0.0);
            value.as_array()?.iter().map(positive).collect()
        })
    }

    pub(crate) fn boolean(&self, name: &str) -> Result<Option<bool>, ModelError> {
        self.typed(name, "true or false", Value::as_bool)
    }

    pub(crate) fn string(&self, name: &str) -> Result<Option<&'a str>, ModelError> {
        self.typed(name, "a string", Value::as_str)
    }

    pub(crate) fn strings(&self, name: &str) -> Result<Option<Vec<&'a str>>, ModelError> {
        self.typed(name, "a list of strings", |value| {
            value.as_array()?.iter().map(Value::as_str).collect()
        })
    }

    pub(crate) fn object(&self, name: &str) -> Result<Option<&'a Map<String, Value>>, ModelError> {
        self.typed(name, "an object", Value::as_object)
    }

    /// Returns the value of a field that the model needs, or an error if it is absent.
    pub(crate) fn required<T>(&self, name: &str, value: Option<T>) -> Result<T, ModelError> {
        value.ok_or_else(|| self.error(name, "missing, and it has no default that would be safe"))
    }
}

/// Returns a value as text for an error message, at most 60 characters long.
pub(crate) fn brief(value: &Value) -> String {
    const LONGEST: usize = 60;
    let text = value.to_string();
    if text.chars().count() <= LONGEST {
        return text;
    }
    let start: String = text.chars().take(LONGEST).collect();
    format!("{start}…")
}

/// Returns an integer if the number is one, because `transformers` accepts nothing else.
pub(crate) fn integer(number: f64) -> Value {
    let whole = number as u64;
    if whole as f64 == number {
        json!(whole)
    } else {
        json!(number)
    }
}
