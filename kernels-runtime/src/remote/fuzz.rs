//! Private readers for the fuzz targets. Each panics if it breaks its promise.

use super::credential;
use super::hello::{Declaration, WORDS, from_words, to_words};
use super::wire::{Malformed, Reader, Writer};
use crate::semantics::{GluKey, MoeExpertsKey, RmsNormKey, RopeKey, RouterKey};
use burn::backend::ir::ScalarIr;

/// Reads the numbers of an operation as handlers do, in the order that `program` says. What was read is
/// written as clients do and then reads back to the same.
///
/// # Errors
/// They are no numbers of such an operation.
pub fn message(program: &[u8], scalars: &[ScalarIr]) -> Result<(), String> {
    let read = |scalars: &[ScalarIr]| {
        let mut reader = Reader::new(scalars)?;
        let mut steps = program.iter();
        let written = steps.try_fold(Writer::new(), |writer, step| {
            one(*step, &mut reader, writer)
        })?;
        reader.finish()?;
        Ok::<_, Malformed>(written.finish())
    };
    let written = read(scalars).map_err(|error| error.to_string())?;
    let again = read(&written).expect("what this side wrote is read");
    assert_eq!(format!("{written:?}"), format!("{again:?}"));
    Ok(())
}

fn one(step: u8, reader: &mut Reader<'_>, writer: Writer) -> Result<Writer, Malformed> {
    Ok(match step % 12 {
        0 => writer.number(reader.number()?),
        1 => writer.float(reader.float()?),
        2 => writer.flag(reader.flag()?),
        3 => writer.optional_float(reader.optional_float()?),
        4 => writer.optional_number(reader.optional_number()?),
        5 => writer.text(&reader.text()?),
        6 => {
            let count = reader.number()?;
            writer.number(count).numbers(reader.numbers(count)?)
        }
        7 => writer.key(&reader.key::<RmsNormKey>()?),
        8 => writer.key(&reader.key::<GluKey>()?),
        9 => writer.key(&reader.key::<RopeKey>()?),
        10 => writer.key(&reader.key::<MoeExpertsKey>()?),
        _ => writer.key(&reader.key::<RouterKey>()?),
    })
}

/// Reads a server's declaration of a device, which writes and reads back to the same.
///
/// # Errors
/// The words are none.
pub fn declaration(words: &[i32]) -> Result<(), String> {
    let text = from_words(words).ok_or("the words are no text")?;
    let again = from_words(&to_words(&text)).expect("what this side wrote is read");
    assert!(text.starts_with(&again));
    let declared = Declaration::from_words(words).ok_or("the words are no declaration")?;
    let written = declared.to_words();
    assert_eq!(written.len(), WORDS);
    // A text longer than all words is cut off, and then is none.
    if let Some(again) = Declaration::from_words(&written) {
        assert_eq!(again, declared);
    }
    Ok(())
}

/// A token is found in the credential that is made of it.
///
/// # Errors
/// Servers refuse such a token: it looks like a credential.
pub fn token(token: &[u8], connection: u64) -> Result<(), String> {
    credential::check(token, connection);
    match std::str::from_utf8(token) {
        Ok(text) if credential::is_ambiguous(text) => Err("the token is ambiguous".to_owned()),
        _ => Ok(()),
    }
}
