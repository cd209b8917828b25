//! How the numbers and keys of an operation travel: as the scalars of Burn's custom operations.
//!
//! Every list starts with the [schema](SCHEMA). Integers and floats are exact; a key travels as its
//! JSON, fields by name, and is compared with what was read when it arrives. So a server of another
//! build can refuse what it doesn't know, and cannot take one number for another.

use burn::backend::ir::ScalarIr;
use kernels_io::{escape, shorten};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt;

/// Raised when the order or meaning of what is sent changes.
pub(crate) const SCHEMA: u64 = 1;

/// The bytes of an echoed key, and of all that is said of a message.
const ECHO: (usize, usize) = (200, 4 << 10);

/// Why a handler does not do what it is asked for. A client chose parts of it, so it is never long.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Malformed {
    /// What arrived is not what this build sends.
    #[error("{}; client and server must be of one release", escape(.0))]
    Message(String),
    /// It was understood, and can't be done.
    #[error("{}", escape(.0))]
    Request(String),
}

impl Malformed {
    pub(crate) fn new(what: impl fmt::Display) -> Self {
        Self::Message(short(what))
    }

    pub(crate) fn request(why: impl fmt::Display) -> Self {
        Self::Request(short(why))
    }
}

fn short(what: impl fmt::Display) -> String {
    let (_, most) = ECHO;
    shorten(&what.to_string(), most).into_owned()
}

impl From<crate::ops::Mismatch> for Malformed {
    fn from(mismatch: crate::ops::Mismatch) -> Self {
        Self::request(mismatch)
    }
}

/// Writes scalars.
#[derive(Debug)]
pub(crate) struct Writer(Vec<ScalarIr>);

impl Writer {
    pub(crate) fn new() -> Self {
        Self(vec![ScalarIr::UInt(SCHEMA)])
    }

    pub(crate) fn number(mut self, number: usize) -> Self {
        self.0.push(ScalarIr::UInt(number as u64));
        self
    }

    pub(crate) fn numbers(self, numbers: impl IntoIterator<Item = usize>) -> Self {
        numbers.into_iter().fold(self, Self::number)
    }

    pub(crate) fn float(mut self, float: f64) -> Self {
        self.0.push(ScalarIr::Float(float));
        self
    }

    pub(crate) fn flag(mut self, flag: bool) -> Self {
        self.0.push(ScalarIr::Bool(flag));
        self
    }

    pub(crate) fn optional_float(self, float: Option<f64>) -> Self {
        match float {
            Some(float) => self.flag(true).float(float),
            None => self.flag(false),
        }
    }

    pub(crate) fn optional_number(self, number: Option<usize>) -> Self {
        match number {
            Some(number) => self.flag(true).number(number),
            None => self.flag(false),
        }
    }

    /// Eight bytes a scalar, after their number.
    pub(crate) fn text(mut self, text: &str) -> Self {
        self.0.push(ScalarIr::UInt(text.len() as u64));
        let words = text.as_bytes().chunks(8).map(|chunk| {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            ScalarIr::UInt(u64::from_le_bytes(word))
        });
        self.0.extend(words);
        self
    }

    pub(crate) fn key(self, key: &impl Serialize) -> Self {
        self.text(&serde_json::to_string(key).expect("keys are enumerations"))
    }

    pub(crate) fn finish(self) -> Vec<ScalarIr> {
        self.0
    }
}

/// Reads what [`Writer`] wrote.
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    left: &'a [ScalarIr],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(scalars: &'a [ScalarIr]) -> Result<Self, Malformed> {
        let mut reader = Self { left: scalars };
        match reader.number()? as u64 {
            SCHEMA => Ok(reader),
            other => Err(Malformed::new(format_args!(
                "the other side speaks schema {other} of the kernels' operations, this one {SCHEMA}"
            ))),
        }
    }

    fn next(&mut self) -> Result<ScalarIr, Malformed> {
        let (first, left) = self
            .left
            .split_first()
            .ok_or_else(|| Malformed::new("an operation came with too few numbers"))?;
        self.left = left;
        Ok(*first)
    }

    pub(crate) fn number(&mut self) -> Result<usize, Malformed> {
        match self.next()? {
            ScalarIr::UInt(number) => usize::try_from(number).map_err(Malformed::new),
            other => Err(Malformed::new(format_args!("{other:?} is not a count"))),
        }
    }

    pub(crate) fn numbers(&mut self, count: usize) -> Result<Vec<usize>, Malformed> {
        (0..count).map(|_| self.number()).collect()
    }

    pub(crate) fn float(&mut self) -> Result<f64, Malformed> {
        match self.next()? {
            ScalarIr::Float(float) => Ok(float),
            other => Err(Malformed::new(format_args!("{other:?} is not a float"))),
        }
    }

    pub(crate) fn flag(&mut self) -> Result<bool, Malformed> {
        match self.next()? {
            ScalarIr::Bool(flag) => Ok(flag),
            other => Err(Malformed::new(format_args!("{other:?} is not a flag"))),
        }
    }

    pub(crate) fn optional_float(&mut self) -> Result<Option<f64>, Malformed> {
        Ok(if self.flag()? {
            Some(self.float()?)
        } else {
            None
        })
    }

    pub(crate) fn optional_number(&mut self) -> Result<Option<usize>, Malformed> {
        Ok(if self.flag()? {
            Some(self.number()?)
        } else {
            None
        })
    }

    pub(crate) fn text(&mut self) -> Result<String, Malformed> {
        let length = self.number()?;
        let words = length.div_ceil(8);
        if words > self.left.len() {
            return Err(Malformed::new("a text is cut off"));
        }
        let mut bytes = Vec::with_capacity(words * 8);
        for _ in 0..words {
            bytes.extend((self.number()? as u64).to_le_bytes());
        }
        bytes.truncate(length);
        String::from_utf8(bytes).map_err(Malformed::new)
    }

    /// A key, refused if any part of it would be lost.
    pub(crate) fn key<K: Serialize + DeserializeOwned>(&mut self) -> Result<K, Malformed> {
        let text = self.text()?;
        let unknown = || {
            let text = shorten(&text, ECHO.0);
            Malformed::new(format_args!("the semantics {text} are not known here"))
        };
        let key: K = serde_json::from_str(&text).map_err(|_| unknown())?;
        let again = serde_json::to_string(&key).expect("keys are enumerations");
        if again == text {
            Ok(key)
        } else {
            Err(unknown())
        }
    }

    /// That nothing is left over.
    pub(crate) fn finish(&self) -> Result<(), Malformed> {
        match self.left {
            [] => Ok(()),
            more => Err(Malformed::new(format_args!(
                "an operation came with {} numbers too many",
                more.len()
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::semantics::{GluKey, MoeExpertsKey, RmsNormKey, RopeKey, RouterKey};

    #[test]
    fn what_is_written_is_read() {
        let floats = [1e-6, f64::MIN_POSITIVE, 0.1, -0.0, f64::INFINITY];
        let mut writer = Writer::new().key(&RmsNormKey::GEMMA).number(usize::MAX);
        for float in floats {
            writer = writer.optional_float(Some(float));
        }
        let scalars = writer
            .optional_float(None)
            .optional_number(Some(7))
            .text("ß, 17 bytes or so")
            .text("")
            .finish();
        let mut reader = Reader::new(&scalars).unwrap();
        assert_eq!(reader.key(), Ok(RmsNormKey::GEMMA));
        assert_eq!(reader.number(), Ok(usize::MAX));
        for float in floats {
            let read = reader.optional_float().unwrap().unwrap();
            assert_eq!(read.to_bits(), float.to_bits());
        }
        assert_eq!(reader.optional_float(), Ok(None));
        assert_eq!(reader.optional_number(), Ok(Some(7)));
        assert_eq!(reader.text().unwrap(), "ß, 17 bytes or so");
        assert_eq!(reader.text().unwrap(), "");
        assert_eq!(reader.finish(), Ok(()));
        assert!(reader.number().is_err());
    }

    #[test]
    fn every_kind_of_key_travels() {
        fn travels<K: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(key: K) {
            let scalars = Writer::new().key(&key).finish();
            assert_eq!(Reader::new(&scalars).unwrap().key(), Ok(key));
        }
        travels(RmsNormKey::LLAMA);
        travels(GluKey::SWIGLU);
        travels(RopeKey::LLAMA);
        travels(MoeExpertsKey::GPT_OSS);
        travels(RouterKey::DEEPSEEK_V3);
    }

    #[test]
    fn another_schema_is_refused() {
        let scalars = [ScalarIr::UInt(SCHEMA + 1)];
        let message = Reader::new(&scalars).unwrap_err().to_string();
        assert!(message.contains("must be of one release"), "{message}");
    }

    #[test]
    fn a_key_with_more_than_is_known_is_refused() {
        let known = serde_json::to_string(&RmsNormKey::LLAMA).unwrap();
        let newer = known.replace('}', r#","tilt":"left"}"#);
        for text in [newer.as_str(), "{}", r#"{"offset":"zero"}"#] {
            let scalars = Writer::new().text(text).finish();
            let read = Reader::new(&scalars).unwrap().key::<RmsNormKey>();
            assert!(read.is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_echoed_is_short() {
        let key = "\n".repeat(1 << 20);
        let scalars = Writer::new().text(&key).finish();
        let read = Reader::new(&scalars).unwrap().key::<RmsNormKey>();
        let said = read.unwrap_err().to_string();
        assert!(
            said.len() < 1000 && said.contains("1048576 bytes"),
            "{said}"
        );
        let said = Malformed::request(key).to_string();
        assert!(
            said.len() < 9000 && said.contains("1048576 bytes"),
            "{said}"
        );
    }

    #[test]
    fn numbers_left_over_are_refused() {
        let scalars = Writer::new().number(1).finish();
        assert!(Reader::new(&scalars).unwrap().finish().is_err());
    }
}
