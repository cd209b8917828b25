//! The types of the elements of parts.

use std::fmt;

/// The type of the elements of a part, in the byte order of files: the least significant byte first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Dtype {
    U8,
    I8,
    /// A sign, 4 bits of exponent and 3 of fraction, without infinities: `float8_e4m3fn`.
    F8E4M3,
    F16,
    BF16,
    I32,
    F32,
    I64,
}

impl Dtype {
    /// Returns the number of bytes of an element.
    pub fn size(self) -> usize {
        match self {
            Self::U8 | Self::I8 | Self::F8E4M3 => 1,
            Self::F16 | Self::BF16 => 2,
            Self::I32 | Self::F32 => 4,
            Self::I64 => 8,
        }
    }
}

/// Writes the names of safetensors files.
impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::U8 => "U8",
            Self::I8 => "I8",
            Self::F8E4M3 => "F8_E4M3",
            Self::F16 => "F16",
            Self::BF16 => "BF16",
            Self::I32 => "I32",
            Self::F32 => "F32",
            Self::I64 => "I64",
        })
    }
}
