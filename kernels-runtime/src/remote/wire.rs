//! The encoding of an operation's numbers as the scalars of Burn's custom operations.
//!
//! All numbers of an operation are one value: its key, settings and flags, or nothing. It is sent as MessagePack with
//! fields by name, in scalars of eight bytes, after the [schema](SCHEMA) and the number of bytes. Integers and floats
//! are exact. The value that is read is written again and compared with the received scalars. A server of another build
//! can therefore refuse unknown numbers, and never takes one number for another.

use burn::backend::ir::ScalarIr;
use kernels_io::{escape, shorten};
use rmp_serde::{Deserializer, decode};
use serde::Serialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use std::fmt;

/// The version of the encoding, which increases when the order or meaning of the numbers changes.
pub(crate) const SCHEMA: u64 = 4;

/// The maximum bytes of an echo of unknown numbers, and of a whole message about them.
const ECHO: (usize, usize) = (200, 4 << 10);

/// The maximum nesting of an operation's numbers.
const DEPTH: usize = 16;

/// The reason why a handler refuses a request. A client chose parts of the text, so its length is limited.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// The message is not one that this build sends.
    #[error("{}; client and server must be of one release", escape(.0))]
    Message(String),
    /// The request was understood, but can't be met.
    #[error("{}", escape(.0))]
    Request(String),
}

impl Malformed {
    /// Creates the error of a message that this build does not send.
    pub fn new(what: impl fmt::Display) -> Self {
        Self::Message(short(what))
    }

    /// Creates the error of a request that can't be met.
    pub fn request(why: impl fmt::Display) -> Self {
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

/// The numbers of an operation, as one value that can be sent.
pub trait Numbers: Serialize + DeserializeOwned + 'static {}

impl<N: Serialize + DeserializeOwned + 'static> Numbers for N {}

pub(crate) fn write(numbers: &impl Serialize) -> Vec<ScalarIr> {
    packed(&rmp_serde::to_vec_named(numbers).expect("numbers and names are MessagePack"))
}

/// Returns the scalars of a value that is already encoded as MessagePack.
pub(crate) fn packed(bytes: &[u8]) -> Vec<ScalarIr> {
    let words = bytes.chunks(8).map(|chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(word)
    });
    let start = [SCHEMA, bytes.len() as u64].into_iter();
    start.chain(words).map(ScalarIr::UInt).collect()
}

/// Reads the output of [`write`], and refuses it if any part of it would be lost.
pub(crate) fn read<N: Numbers>(scalars: &[ScalarIr]) -> Result<N, Malformed> {
    let bytes = unpacked(scalars)?;
    let unknown = |why: &str| {
        let why = shorten(why, ECHO.0);
        Malformed::new(format_args!(
            "the numbers of an operation are not those of this build: {why}"
        ))
    };
    // Lists state their length. Memory for them is allocated only after all data is known to be present.
    let whole = decode::<IgnoredAny>(&bytes);
    let numbers = whole.and_then(|_| decode::<N>(&bytes));
    let numbers = numbers.map_err(|error| unknown(&error.to_string()))?;
    if write(&numbers) == scalars {
        Ok(numbers)
    } else {
        Err(unknown("some are not known, or written in another way"))
    }
}

fn decode<N: DeserializeOwned>(bytes: &[u8]) -> Result<N, decode::Error> {
    let mut deserializer = Deserializer::from_read_ref(bytes);
    deserializer.set_max_depth(DEPTH);
    N::deserialize(&mut deserializer)
}

fn unpacked(scalars: &[ScalarIr]) -> Result<Vec<u8>, Malformed> {
    let word = |scalar: &ScalarIr| match scalar {
        ScalarIr::UInt(word) => Ok(*word),
        other => Err(Malformed::new(format_args!("{other:?} is not a count"))),
    };
    let too_few = || Malformed::new("an operation came with too few numbers");
    let (schema, scalars) = scalars.split_first().ok_or_else(too_few)?;
    match word(schema)? {
        SCHEMA => {}
        other => {
            return Err(Malformed::new(format_args!(
                "the other side speaks schema {other} of the kernels' operations, this one {SCHEMA}"
            )));
        }
    }
    let (length, scalars) = scalars.split_first().ok_or_else(too_few)?;
    let length = usize::try_from(word(length)?).map_err(Malformed::new)?;
    match scalars.len().checked_sub(length.div_ceil(8)) {
        None => return Err(too_few()),
        Some(0) => {}
        Some(more) => {
            return Err(Malformed::new(format_args!(
                "an operation came with {more} numbers too many"
            )));
        }
    }
    let mut bytes = Vec::with_capacity(8 * scalars.len());
    for scalar in scalars {
        bytes.extend(word(scalar)?.to_le_bytes());
    }
    bytes.truncate(length);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::semantics::{
        GluKey, LayerNormKey, LinearKey, MoeExpertsKey, QkNormRopeKey, RmsNormKey, RopeKey,
        RouterKey,
    };
    use serde_json::json;

    fn travelled<N: Numbers>(numbers: &N) -> N {
        read(&write(numbers)).unwrap()
    }

    #[test]
    fn what_is_written_is_read() {
        let nan = f64::from_bits(0xfff8_0000_dead_beef);
        let floats = [1e-6, f64::MIN_POSITIVE, 0.1, -0.0, f64::INFINITY, 2.0, nan];
        let text = "ß, 17 bytes or so".to_owned();
        let numbers = (
            RmsNormKey::GEMMA,
            usize::MAX,
            floats.map(Some),
            (None::<f64>, Some(7_usize)),
            (text, String::new(), vec![vec![true], vec![]]),
        );
        let again = travelled(&numbers);
        assert_eq!(format!("{again:?}"), format!("{numbers:?}"));
        let bits = |floats: [Option<f64>; 7]| floats.map(|float| float.unwrap().to_bits());
        assert_eq!(bits(again.2), floats.map(f64::to_bits));
        travelled(&());
    }

    #[test]
    fn every_kind_of_key_travels() {
        fn travels<K: Numbers + PartialEq + fmt::Debug>(key: K) {
            assert_eq!(travelled(&key), key);
        }
        travels(RmsNormKey::LLAMA);
        travels(LayerNormKey::COHERE);
        travels(LinearKey::BURN);
        travels(QkNormRopeKey::OLMO2);
        travels(GluKey::SWIGLU);
        travels(RopeKey::LLAMA);
        travels(MoeExpertsKey::GPT_OSS);
        travels(RouterKey::DEEPSEEK_V3);
    }

    #[test]
    fn another_schema_is_refused() {
        let mut scalars = write(&1);
        let other = SCHEMA - 1;
        scalars[0] = ScalarIr::UInt(other);
        // With another schema, nothing more is known.
        scalars[1] = ScalarIr::Float(1.0);
        let message = read::<usize>(&scalars).unwrap_err().to_string();
        assert!(
            message.contains(&format!("speaks schema {other} ")),
            "{message}"
        );
        assert!(message.contains("must be of one release"), "{message}");
    }

    #[test]
    fn a_key_with_more_than_is_known_is_refused() {
        let known = serde_json::to_value(RopeKey::LLAMA).unwrap();
        let mut newer = known.clone();
        newer["tilt"] = json!("left");
        let mut other = known;
        other["style"] = json!("quarter");
        for key in [newer, other, json!({}), json!({"style": "half"}), json!(1)] {
            let said = read::<RopeKey>(&write(&key)).unwrap_err().to_string();
            assert!(said.contains("are not those of this build: "), "{said}");
        }
        let said = read::<ScalarKind>(&write(&"shade")).unwrap_err();
        assert!(said.to_string().contains("shade"), "{said}");
    }

    #[derive(Debug, serde::Serialize, serde::Deserialize)]
    enum ScalarKind {
        Light,
    }

    #[test]
    fn what_is_written_in_another_way_is_refused() {
        assert!(read::<f64>(&write(&1.0_f32)).is_err());
        assert!(read::<f64>(&write(&1)).is_err());
        assert!(read::<usize>(&write(&-1)).is_err());
        assert!(read::<Option<bool>>(&write(&())).is_ok());
        let long_form = packed(&[0xcd, 0, 7]);
        assert!(read::<usize>(&long_form).is_err());
        let two = packed(&[7, 7]);
        assert!(read::<usize>(&two).is_err());
        let mut padded = packed(&[7]);
        padded[2] = ScalarIr::UInt(0x0107);
        assert!(read::<usize>(&padded).is_err());
    }

    #[test]
    fn lengths_and_depths_beyond_reason_are_refused() {
        let longest = [0xdd, 0xff, 0xff, 0xff, 0xff];
        assert!(read::<Vec<u64>>(&packed(&longest)).is_err());
        assert!(read::<RmsNormKey>(&packed(&[0x91; 1 << 20])).is_err());
        let mut cut = write(&"more than eight bytes");
        cut.pop();
        for length in [0, 1, u64::MAX] {
            cut[1] = ScalarIr::UInt(length);
            assert!(read::<String>(&cut).is_err(), "{length}");
        }
    }

    #[test]
    fn what_is_echoed_is_short() {
        let key = "\n".repeat(1 << 20);
        let said = read::<ScalarKind>(&write(&key)).unwrap_err().to_string();
        assert!(
            said.len() < 1000 && said.contains("unknown variant"),
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
        let mut scalars = write(&1);
        scalars.push(ScalarIr::UInt(1));
        let said = read::<usize>(&scalars).unwrap_err().to_string();
        assert!(said.contains("1 numbers too many"), "{said}");
    }
}
