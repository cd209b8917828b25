//! Private readers for the fuzz targets. Each panics if it breaks its contract.

use super::credential;
use super::declaration::{Declaration, WORDS, from_words, to_words};
use super::wire::{self, Numbers};
use crate::ops::adam_w::AdamW;
use crate::ops::fused::FusedOp;
use crate::ops::fused::remote::{BackwardNumbers, Forward};
use crate::ops::glu::Glu;
use crate::ops::layer_norm::LayerNorm;
use crate::ops::moe::experts::Experts;
use crate::ops::moe::grouped_matmul::GroupedMatmul;
use crate::ops::moe::router::Router;
use crate::ops::rms_norm::RmsNorm;
use crate::ops::rope::Rope;
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
        3 => same::<BackwardNumbers<<RmsNorm as FusedOp>::Numbers>>(scalars),
        4 => same::<Forward<<Glu as FusedOp>::Numbers>>(scalars),
        5 => same::<Forward<<Rope as FusedOp>::Numbers>>(scalars),
        6 => same::<Forward<<AdamW as FusedOp>::Numbers>>(scalars),
        7 => same::<Forward<<Router as FusedOp>::Numbers>>(scalars),
        8 => same::<BackwardNumbers<<GroupedMatmul as FusedOp>::Numbers>>(scalars),
        9 => same::<Forward<<Experts as FusedOp>::Numbers>>(scalars),
        10 => same::<BackwardNumbers<<Experts as FusedOp>::Numbers>>(scalars),
        11 => same::<f64>(scalars),
        _ => same::<BackwardNumbers<<LayerNorm as FusedOp>::Numbers>>(scalars),
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
    let text = from_words(words).ok_or("the words are not a text")?;
    let again = from_words(&to_words(&text)).expect("what this side wrote is read");
    assert!(text.starts_with(&again));
    let declared = Declaration::from_words(words).ok_or("the words are not a declaration")?;
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
        Ok(text) if credential::token(text.as_bytes()).len() != text.len() => {
            Err("the token is ambiguous".to_owned())
        }
        _ => Ok(()),
    }
}
