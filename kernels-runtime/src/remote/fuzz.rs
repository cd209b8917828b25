//! Private readers for the fuzz targets. Each panics if it breaks its contract.

use super::credential;
use super::hello::{Declaration, WORDS, from_words, to_words};
use super::wire::{self, Numbers};
use crate::ops::moe::{experts, router};
use crate::ops::{adam_w, glu, layer_norm, rms_norm};
use crate::semantics::{ExpertLayout, GluKey, LayerNormKey, RmsNormKey, RopeKey};
use burn::backend::ir::ScalarIr;

/// Reads the numbers of operation `of` as handlers do. If they are read, checks that clients would write the same
/// scalars.
///
/// # Errors
/// Returns an error if they are not numbers of that operation.
pub fn message(of: u8, scalars: &[ScalarIr]) -> Result<(), String> {
    match of % 13 {
        0 => same::<()>(scalars),
        1 => same::<(usize, usize)>(scalars),
        2 => same::<(String, String, Vec<usize>)>(scalars),
        3 => same::<((RmsNormKey, rms_norm::Settings), bool)>(scalars),
        4 => same::<(GluKey, glu::Settings)>(scalars),
        5 => same::<RopeKey>(scalars),
        6 => same::<adam_w::Settings>(scalars),
        7 => same::<router::remote::Numbers>(scalars),
        8 => same::<(ExpertLayout, bool, Vec<bool>)>(scalars),
        9 => same::<(experts::Settings, Vec<usize>, bool)>(scalars),
        10 => same::<(experts::Settings, experts::Wanted)>(scalars),
        11 => same::<f64>(scalars),
        _ => same::<((LayerNormKey, layer_norm::Settings), layer_norm::Wanted)>(scalars),
    }
}

fn same<N: Numbers>(scalars: &[ScalarIr]) -> Result<(), String> {
    let numbers: N = wire::read(scalars).map_err(|error| error.to_string())?;
    assert_eq!(wire::write(&numbers), scalars);
    Ok(())
}

/// Reads numbers that are encoded, but not yet scalars.
///
/// # Errors
/// Returns an error as [`message`] does.
pub fn encoded(of: u8, bytes: &[u8]) -> Result<(), String> {
    message(of, &wire::packed(bytes))
}

/// Reads a server's declaration of a device, and checks that it is the same after writing and reading it again.
///
/// # Errors
/// Returns an error if the words are not a declaration.
pub fn declaration(words: &[i32]) -> Result<(), String> {
    let text = from_words(words).ok_or("the words are no text")?;
    let again = from_words(&to_words(&text)).expect("what this side wrote is read");
    assert!(text.starts_with(&again));
    let declared = Declaration::from_words(words).ok_or("the words are no declaration")?;
    let written = declared.to_words();
    assert_eq!(written.len(), WORDS);
    // A text that is longer than all words is cut off and is then not a declaration.
    if let Some(again) = Declaration::from_words(&written) {
        assert_eq!(again, declared);
    }
    Ok(())
}

/// Checks that a token is found in the credential that is made from it.
///
/// # Errors
/// Returns an error if servers refuse the token because it looks like a credential.
pub fn token(token: &[u8], connection: u64) -> Result<(), String> {
    credential::check(token, connection);
    match std::str::from_utf8(token) {
        Ok(text) if credential::is_ambiguous(text) => Err("the token is ambiguous".to_owned()),
        _ => Ok(()),
    }
}
