//! `preprocessor_config.json` and the fields of `config.json` that pictures need.

use kernels_io::{Limit, is_there, read_text};
use serde_json::{Map, Value};
use std::path::Path;

use crate::Error;

/// The largest configuration. Those of models can have thousands of names of layers.
const LIMIT: Limit = Limit::mib("a configuration", 16);

/// The fields of a JSON object, and the path that errors name them by.
#[derive(Clone, Copy)]
pub(crate) struct Fields<'a> {
    object: &'a Map<String, Value>,
    /// The names of the objects around it, each with a dot.
    path: &'a str,
}

/// Reads a file that holds a JSON object. The name of the file is for errors.
pub(crate) fn read(file: &Path) -> Result<(String, Map<String, Value>), Error> {
    let text = read_text(file, LIMIT)?;
    let name = file.to_string_lossy().into_owned();
    let object = parse(&name, &text)?;
    Ok((name, object))
}

pub(crate) fn parse(name: &str, text: &str) -> Result<Map<String, Value>, Error> {
    serde_json::from_str(text)
        .map_err(|error| Error::setting(name)(format!("expected a JSON object: {error}")))
}

/// Reads the settings of a folder's image processor: an object of `processor_config.json`, as transformers 5 saves it,
/// or else `preprocessor_config.json`.
pub(crate) fn of_folder(folder: &Path) -> Result<(String, Map<String, Value>), Error> {
    const OBJECT: &str = "image_processor";
    let whole = folder.join("processor_config.json");
    if is_there(&whole) {
        let (name, mut object) = read(&whole)?;
        match object.remove(OBJECT) {
            Some(Value::Object(settings)) => return Ok((name, settings)),
            Some(Value::Null) | None => {}
            Some(_) => return Err(Error::setting(&name)(format!("{OBJECT} must be an object"))),
        }
    }
    read(&folder.join("preprocessor_config.json"))
}

impl<'a> Fields<'a> {
    pub(crate) fn new(object: &'a Map<String, Value>) -> Self {
        Self { object, path: "" }
    }

    /// Returns the fields of an object inside, if it is there. `path` is its name with a dot.
    pub(crate) fn object(self, path: &'a str) -> Result<Option<Self>, String> {
        let name = path.trim_end_matches('.');
        match self.given(name) {
            None => Ok(None),
            Some(Value::Object(object)) => Ok(Some(Self { object, path })),
            Some(_) => Err(self.problem(name, "an object")),
        }
    }

    /// Returns a value that is there and not null.
    pub(crate) fn given(self, name: &str) -> Option<&'a Value> {
        self.object.get(name).filter(|value| !value.is_null())
    }

    pub(crate) fn text(self, name: &str) -> Result<Option<&'a str>, String> {
        let read = |value: &'a Value| value.as_str().ok_or_else(|| self.problem(name, "a text"));
        self.given(name).map(read).transpose()
    }

    pub(crate) fn flag(self, name: &str, default: bool) -> Result<bool, String> {
        let read = |value: &Value| {
            value
                .as_bool()
                .ok_or_else(|| self.problem(name, "true or false"))
        };
        self.given(name).map_or(Ok(default), read)
    }

    /// Returns a whole number from `least` to `most`. Python writes some as floats.
    pub(crate) fn whole(self, name: &str, [least, most]: [u64; 2]) -> Result<Option<u64>, String> {
        let Some(value) = self.given(name) else {
            return Ok(None);
        };
        let float = |value: &Value| {
            value
                .as_f64()
                .filter(|number| number.fract() == 0.0 && *number >= 0.0)
        };
        let number = value
            .as_u64()
            .or_else(|| float(value).map(|number| number as u64));
        match number.filter(|number| (least..=most).contains(number)) {
            Some(number) => Ok(Some(number)),
            None => Err(self.problem(name, &format!("a whole number from {least} to {most}"))),
        }
    }

    /// Returns a finite number.
    pub(crate) fn number(self, name: &str) -> Result<Option<f64>, String> {
        let Some(value) = self.given(name) else {
            return Ok(None);
        };
        let number = value.as_f64().filter(|number| number.is_finite());
        number
            .map(Some)
            .ok_or_else(|| self.problem(name, "a number"))
    }

    /// Returns three numbers, of red, green and blue. One number is for all.
    pub(crate) fn colours(self, name: &str) -> Result<Option<[f64; 3]>, String> {
        let Some(value) = self.given(name) else {
            return Ok(None);
        };
        let three = match value {
            Value::Array(list) => {
                let list: Option<Vec<f64>> = list.iter().map(Value::as_f64).collect();
                list.and_then(|list| <[f64; 3]>::try_from(list).ok())
            }
            one => one.as_f64().map(|one| [one; 3]),
        };
        three
            .map(Some)
            .ok_or_else(|| self.problem(name, "three numbers"))
    }

    pub(crate) fn problem(self, name: &str, expected: &str) -> String {
        let found = self
            .object
            .get(name)
            .map_or_else(|| "missing".into(), Value::to_string);
        let found = kernels_io::shorten(&found, 80);
        format!("{}{name} is {found}, and must be {expected}", self.path)
    }
}
