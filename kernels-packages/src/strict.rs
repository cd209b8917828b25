//! JSON whose fields must all be known.

use serde::de::{Error as _, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Number, Value};
use std::fmt;

/// JSON in which no object has a field twice.
struct Unique(Value);

impl<'de> Deserialize<'de> for Unique {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Json).map(Self)
    }
}

struct Json;

impl<'de> Visitor<'de> for Json {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        let number = Number::from_f64(value).ok_or_else(|| E::custom("a number is too large"))?;
        Ok(number.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(Unique(item)) = items.next_element()? {
            list.push(item);
        }
        Ok(list.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some((name, Unique(value))) = fields.next_entry::<String, _>()? {
            if map.insert(name.clone(), value).is_some() {
                return Err(A::Error::custom(format!(
                    "the field `{name}` is there twice"
                )));
            }
        }
        Ok(map.into())
    }
}

/// Reads JSON.
///
/// # Errors
/// Returns an error if the text is not JSON, or if an object has a field twice.
pub(crate) fn parse(json: &[u8]) -> Result<Value, String> {
    let Unique(value) = serde_json::from_slice(json).map_err(|error| error.to_string())?;
    Ok(value)
}

/// The fields of an object, each of which is taken once.
pub(crate) struct Fields<'a> {
    /// The place of the object in the file, as messages have it.
    place: String,
    map: &'a Map<String, Value>,
}

impl<'a> Fields<'a> {
    /// Takes an object whose fields must be among those that are known.
    pub(crate) fn of(value: &'a Value, place: &str, known: &[&str]) -> Result<Self, String> {
        let Some(map) = value.as_object() else {
            return Err(format!("{place}: an object is expected"));
        };
        if let Some(name) = map.keys().find(|name| !known.contains(&name.as_str())) {
            return Err(format!("{place}: {}", unknown("field", name, known)));
        }
        let place = place.to_owned();
        Ok(Self { place, map })
    }

    /// Returns a field, which may be absent.
    pub(crate) fn optional(&self, name: &str) -> Option<&'a Value> {
        self.map.get(name)
    }

    /// Returns a field, which must be there.
    pub(crate) fn required(&self, name: &str) -> Result<&'a Value, String> {
        self.optional(name)
            .ok_or_else(|| format!("{}: the field `{name}` is missing", self.place))
    }

    /// Returns the place of a field.
    pub(crate) fn place(&self, name: &str) -> String {
        format!("{}.{name}", self.place)
    }

    /// Returns a field of text, which must be there.
    pub(crate) fn text(&self, name: &str) -> Result<&'a str, String> {
        let value = self.required(name)?.as_str();
        value.ok_or_else(|| format!("{}: text is expected", self.place(name)))
    }

    /// Returns a field of a whole number that is not negative, which must be there.
    pub(crate) fn count(&self, name: &str) -> Result<u64, String> {
        let value = self.required(name)?.as_u64();
        value.ok_or_else(|| {
            format!(
                "{}: a whole number that is not negative is expected",
                self.place(name)
            )
        })
    }

    /// Returns a list, which must be there and have at most so many items.
    pub(crate) fn list(&self, name: &str, most: usize) -> Result<&'a [Value], String> {
        let Some(list) = self.required(name)?.as_array() else {
            return Err(format!("{}: a list is expected", self.place(name)));
        };
        match list.len() <= most {
            true => Ok(list),
            false => Err(format!(
                "{}: {} items are more than the {most} that are supported",
                self.place(name),
                list.len()
            )),
        }
    }
}

/// Returns the message about an unknown word, with the nearest known one.
pub(crate) fn unknown(what: &str, word: &str, known: &[&str]) -> String {
    let near = known
        .iter()
        .map(|known| {
            (
                strsim::osa_distance(&word[..word.floor_char_boundary(60)], known),
                *known,
            )
        })
        .min()
        .filter(|(distance, known)| distance * 3 <= known.len().max(3))
        .map_or_else(String::new, |(_, known)| {
            format!(", did you mean `{known}`?")
        });
    format!(
        "unknown {what} `{}`{near}; known: {}",
        crate::metadata::short(word),
        known.join(", ")
    )
}
