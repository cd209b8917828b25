//! The metadata of a GGUF file: typed values by key.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use gguf_rs_lib::format::metadata::{Metadata as Read, MetadataValue};

use crate::ModelError;

/// The metadata of a [`File`](super::File), in the order of their keys.
///
/// Each method for a type returns `None` if the key is absent, and an error that names file and key if its value is of
/// another type.
#[derive(Debug, Clone)]
pub struct Metadata {
    /// The file, which errors name.
    path: PathBuf,
    values: BTreeMap<String, Value>,
}

/// A value of a file's metadata.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Value {
    /// An integer of any width.
    Integer(i128),
    /// A single-precision number.
    F32(f32),
    /// A double-precision number.
    F64(f64),
    /// True or false.
    Flag(bool),
    /// Text.
    String(String),
    /// Several values of one type.
    List(Vec<Value>),
}

impl Metadata {
    pub(super) fn new(path: &Path, read: Read) -> Self {
        let values = read.data.into_iter();
        Self {
            path: path.into(),
            values: values.map(|(key, value)| (key, value.into())).collect(),
        }
    }

    /// Makes the metadata of a file that is to be written.
    pub(super) fn of(path: &Path, values: impl IntoIterator<Item = (String, Value)>) -> Self {
        Self {
            path: path.into(),
            values: values.into_iter().collect(),
        }
    }

    /// Returns all keys with their values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.values.iter().map(|(key, value)| (key.as_str(), value))
    }

    /// Returns the value of a key.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.values.get(key)
    }

    /// Returns a text.
    ///
    /// # Errors
    ///
    /// Returns [`ModelError::Field`] if the value is of another type.
    pub fn string(&self, key: &str) -> Result<Option<&str>, ModelError> {
        self.typed(key, "text", Value::string)
    }

    /// Returns a list of texts.
    ///
    /// # Errors
    ///
    /// Returns [`ModelError::Field`] if the value is of another type.
    pub fn strings(&self, key: &str) -> Result<Option<Vec<&str>>, ModelError> {
        self.typed(key, "a list of texts", |value| value.list(Value::string))
    }

    /// Returns an integer.
    ///
    /// # Errors
    ///
    /// Returns [`ModelError::Field`] if the value is of another type or has more than 64 bits with its sign.
    pub fn integer(&self, key: &str) -> Result<Option<i64>, ModelError> {
        self.typed(key, "an integer", Value::integer)
    }

    /// Returns a list of integers.
    ///
    /// # Errors
    ///
    /// Returns [`ModelError::Field`] if the value is of another type.
    pub fn integers(&self, key: &str) -> Result<Option<Vec<i64>>, ModelError> {
        self.typed(key, "a list of integers", |value| {
            value.list(Value::integer)
        })
    }

    /// Returns a number. One of single precision is returned as the shortest decimal that it is nearest to, because files
    /// hold numbers such as 1e-5 so: 0.00001 and not 0.0000099999997.
    ///
    /// # Errors
    ///
    /// Returns [`ModelError::Field`] if the value is of another type.
    pub fn number(&self, key: &str) -> Result<Option<f64>, ModelError> {
        self.typed(key, "a number", Value::number)
    }

    /// Returns a list of numbers, each as [`number`](Self::number) does.
    ///
    /// # Errors
    ///
    /// Returns [`ModelError::Field`] if the value is of another type.
    pub fn numbers(&self, key: &str) -> Result<Option<Vec<f64>>, ModelError> {
        self.typed(key, "a list of numbers", |value| value.list(Value::number))
    }

    /// Returns true or false.
    ///
    /// # Errors
    ///
    /// Returns [`ModelError::Field`] if the value is of another type.
    pub fn flag(&self, key: &str) -> Result<Option<bool>, ModelError> {
        self.typed(key, "true or false", |value| match value {
            Value::Flag(flag) => Some(*flag),
            _ => None,
        })
    }

    pub(super) fn remove(&mut self, key: &str) -> bool {
        self.values.remove(key).is_some()
    }

    /// Returns an error about the value of a key.
    pub(crate) fn error(&self, key: &str, problem: impl Into<String>) -> ModelError {
        ModelError::field(&self.path, key, problem)
    }

    fn typed<'a, T>(
        &'a self,
        key: &str,
        expected: &str,
        convert: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, ModelError> {
        let Some(value) = self.values.get(key) else {
            return Ok(None);
        };
        match convert(value) {
            None => Err(self.error(key, format!("expected {expected}, found {value}"))),
            found => Ok(found),
        }
    }
}

impl Value {
    fn string(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }

    fn integer(&self) -> Option<i64> {
        match self {
            Self::Integer(number) => i64::try_from(*number).ok(),
            _ => None,
        }
    }

    fn number(&self) -> Option<f64> {
        match self {
            Self::F32(number) if number.is_finite() => number.to_string().parse().ok(),
            Self::F64(number) if number.is_finite() => Some(*number),
            _ => None,
        }
    }

    fn list<'a, T>(&'a self, convert: impl Fn(&'a Self) -> Option<T>) -> Option<Vec<T>> {
        match self {
            Self::List(values) => values.iter().map(convert).collect(),
            _ => None,
        }
    }
}

/// Shows the value as an error message quotes it: a long text by its start, and a list by its length.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const LONGEST: usize = 60;
        match self {
            Self::Integer(number) => number.fmt(f),
            Self::F32(number) => number.fmt(f),
            Self::F64(number) => number.fmt(f),
            Self::Flag(flag) => flag.fmt(f),
            Self::String(text) if text.chars().count() > LONGEST => {
                let start: String = text.chars().take(LONGEST).collect();
                write!(f, "`{start}…`")
            }
            Self::String(text) => write!(f, "`{text}`"),
            Self::List(values) => write!(f, "a list of {}", values.len()),
        }
    }
}

impl From<MetadataValue> for Value {
    fn from(value: MetadataValue) -> Self {
        match value {
            MetadataValue::U8(number) => Self::Integer(number.into()),
            MetadataValue::I8(number) => Self::Integer(number.into()),
            MetadataValue::U16(number) => Self::Integer(number.into()),
            MetadataValue::I16(number) => Self::Integer(number.into()),
            MetadataValue::U32(number) => Self::Integer(number.into()),
            MetadataValue::I32(number) => Self::Integer(number.into()),
            MetadataValue::U64(number) => Self::Integer(number.into()),
            MetadataValue::I64(number) => Self::Integer(number.into()),
            MetadataValue::F32(number) => Self::F32(number),
            MetadataValue::F64(number) => Self::F64(number),
            MetadataValue::Bool(flag) => Self::Flag(flag),
            MetadataValue::String(text) => Self::String(text),
            MetadataValue::Array(array) => {
                Self::List(array.values.into_iter().map(Self::from).collect())
            }
        }
    }
}
