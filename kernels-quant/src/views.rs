//! Bytes of files, seen as numbers. Their places have no alignment.

use half::{bf16, f16};

use crate::Dtype;

/// Words of 32 bits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Words<'a>(&'a [[u8; 4]]);

impl<'a> Words<'a> {
    /// `bytes` are whole words, which the caller has checked.
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes.as_chunks().0)
    }

    pub(crate) fn get(self, at: usize) -> u32 {
        u32::from_le_bytes(self.0[at])
    }

    /// Returns a line of `length` words.
    pub(crate) fn line(self, at: usize, length: usize) -> &'a [[u8; 4]] {
        &self.0[at * length..][..length]
    }

    pub(crate) fn bytes(self) -> &'a [u8] {
        self.0.as_flattened()
    }

    /// Returns the words as signed numbers.
    pub(crate) fn signed(self) -> impl Iterator<Item = i32> + 'a {
        self.0.iter().map(|&word| i32::from_le_bytes(word))
    }
}

/// Floats of a usual type.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Floats<'a> {
    F16(&'a [[u8; 2]]),
    BF16(&'a [[u8; 2]]),
    F32(&'a [[u8; 4]]),
}

impl<'a> Floats<'a> {
    /// `bytes` are whole numbers of a type of floats, which the caller has checked.
    pub(crate) fn new(dtype: Dtype, bytes: &'a [u8]) -> Self {
        match dtype {
            Dtype::F16 => Self::F16(bytes.as_chunks().0),
            Dtype::BF16 => Self::BF16(bytes.as_chunks().0),
            _ => Self::F32(bytes.as_chunks().0),
        }
    }

    /// Returns a number, exactly.
    #[inline]
    pub(crate) fn get(self, at: usize) -> f32 {
        match self {
            Self::F16(numbers) => f16::from_le_bytes(numbers[at]).to_f32(),
            Self::BF16(numbers) => bf16::from_le_bytes(numbers[at]).to_f32(),
            Self::F32(numbers) => f32::from_le_bytes(numbers[at]),
        }
    }
}
