//! Floats that are not quantised.

use half::{bf16, f16};

use crate::finite::refuse_rounded;
use crate::views::Floats;
use crate::{Dtype, QuantError};

/// Converts numbers of a half type or of single precision, exactly.
///
/// # Panics
///
/// Panics if `dtype` is another type, or if `bytes` does not hold as many numbers as `out`.
pub fn decode_floats(dtype: Dtype, bytes: &[u8], out: &mut [f32]) {
    assert!(
        matches!(dtype, Dtype::F16 | Dtype::BF16 | Dtype::F32),
        "{dtype} is not a type of floats that are converted exactly"
    );
    assert_eq!(
        bytes.len(),
        out.len() * dtype.size(),
        "`bytes` must hold a number for each place of `out`"
    );
    let floats = Floats::new(dtype, bytes);
    for (at, place) in out.iter_mut().enumerate() {
        *place = floats.get(at);
    }
}

/// Rounds numbers to half precision, ties to even.
///
/// # Errors
///
/// Returns [`QuantError::Number`] if a number is NaN, or infinite in half precision.
///
/// # Panics
///
/// Panics if `bytes` does not hold two bytes for each number.
pub fn encode_halves(numbers: &[f32], bytes: &mut [u8]) -> Result<(), QuantError> {
    assert_eq!(bytes.len(), 2 * numbers.len(), "two bytes for each number");
    let halves = numbers.iter().map(|&x| f16::from_f32(x));
    let places = bytes.as_chunks_mut().0.iter_mut();
    for (half, place) in halves.clone().zip(places) {
        *place = half.to_le_bytes();
    }
    let rounded: Vec<f32> = halves.map(f16::to_f32).collect();
    refuse_rounded(&Dtype::F16, numbers, &rounded)
}

/// Rounds numbers to the half type of the range of single precision, ties to even.
///
/// # Errors
///
/// Returns [`QuantError::Number`] if a number is NaN, or infinite in this type.
///
/// # Panics
///
/// Panics if `bytes` does not hold two bytes for each number.
pub fn encode_bfloats(numbers: &[f32], bytes: &mut [u8]) -> Result<(), QuantError> {
    assert_eq!(bytes.len(), 2 * numbers.len(), "two bytes for each number");
    let halves = numbers.iter().map(|&x| bf16::from_f32(x));
    let places = bytes.as_chunks_mut().0.iter_mut();
    for (half, place) in halves.clone().zip(places) {
        *place = half.to_le_bytes();
    }
    let rounded: Vec<f32> = halves.map(bf16::to_f32).collect();
    refuse_rounded(&Dtype::BF16, numbers, &rounded)
}
