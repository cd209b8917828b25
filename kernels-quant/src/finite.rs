//! Numbers that have no code.

use std::fmt;

use crate::QuantError;

/// Refuses numbers of which one is infinite or NaN.
pub(crate) fn refuse_infinite(
    encoding: &impl fmt::Display,
    numbers: &[f32],
) -> Result<(), QuantError> {
    refuse_rounded(encoding, numbers, numbers)
}

/// Refuses numbers of which one is infinite or NaN as it was rounded.
pub(crate) fn refuse_rounded(
    encoding: &impl fmt::Display,
    numbers: &[f32],
    rounded: &[f32],
) -> Result<(), QuantError> {
    match rounded.iter().position(|number| !number.is_finite()) {
        None => Ok(()),
        Some(at) => Err(too_large(encoding, numbers, at)),
    }
}

/// Returns the error of a number.
pub(crate) fn too_large(encoding: &impl fmt::Display, numbers: &[f32], at: usize) -> QuantError {
    QuantError::Number {
        encoding: encoding.to_string(),
        at,
        number: numbers[at],
    }
}
