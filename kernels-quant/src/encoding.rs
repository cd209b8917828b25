//! The list of encodings, and what each declares.

use std::fmt;
use std::ops::Range;

use crate::encodings::{Awq, Bnb4Bit, BnbInt8, Fp8Blocks, Gptq, Mxfp4, Packed, Unpacked, gguf};
use crate::parts::Parts;
use crate::{Codes, QuantError};

/// The declaration of an encoding.
pub(crate) trait Declared: fmt::Display {
    /// Returns the names of all parts, the first of which every weight has and other tensors don't.
    fn part_names(&self) -> &'static [&'static str];

    /// Returns the name of the part with the codes of elements, of which `decoder` reads only the type and the shape.
    fn codes(&self) -> &'static str;

    /// Checks the settings and the parts of a weight `[rows, columns]`, neither of which is 0. Whatever the parts hold, the
    /// decoder never fails.
    fn decoder<'a>(
        &self,
        shape: [usize; 2],
        parts: &mut Parts<'a>,
    ) -> Result<Box<dyn DecodeRows + 'a>, QuantError>;

    /// Returns the error of a shape that does not fit.
    fn bad_shape(&self, shape: [usize; 2], problem: impl Into<String>) -> QuantError
    where
        Self: Sized,
    {
        QuantError::Shape {
            encoding: self.to_string(),
            shape,
            problem: problem.into(),
        }
    }

    /// Returns the error of a setting.
    fn bad_setting(&self, problem: impl Into<String>) -> QuantError
    where
        Self: Sized,
    {
        QuantError::Setting {
            encoding: self.to_string(),
            problem: problem.into(),
        }
    }
}

/// The checked parts of a weight.
pub(crate) trait DecodeRows: fmt::Debug + Send + Sync {
    /// Decodes rows that the weight has. `out` has their number of elements.
    fn decode(&self, rows: Range<usize>, out: &mut [f32]);

    /// Returns the codes, if products decode this encoding in registers.
    fn codes(&self) -> Option<Codes<'_>> {
        None
    }
}

macro_rules! encodings {
    ($($name:ident($type:ty): $doc:literal,)*) => {
        /// A way to store a matrix of quantised numbers.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Encoding {
            $(#[doc = $doc] $name($type),)*
        }

        impl Encoding {
            pub(crate) fn declared(&self) -> &dyn Declared {
                match self {
                    $(Self::$name(declared) => declared,)*
                }
            }
        }

        $(impl From<$type> for Encoding {
            fn from(declared: $type) -> Self {
                Self::$name(declared)
            }
        })*
    };
}

encodings! {
    Gguf(gguf::Block): "Blocks of GGUF files.",
    Bnb4Bit(Bnb4Bit): "bitsandbytes in 4 bits.",
    BnbInt8(BnbInt8): "bitsandbytes in 8 bits.",
    Gptq(Gptq): "GPTQ.",
    Awq(Awq): "AWQ.",
    Packed(Packed): "compressed-tensors, packed into words.",
    Unpacked(Unpacked): "compressed-tensors, one byte each.",
    Fp8Blocks(Fp8Blocks): "FP8 with a scale for each rectangle.",
    Mxfp4(Mxfp4): "MXFP4 of gpt-oss.",
}

impl Encoding {
    /// Returns the names that parts may have. A checkpoint has them after the name of the layer and a dot, those of
    /// [`Mxfp4`] after the name of the parameter and `_`. Every weight has the first, which layers of floats don't have.
    pub fn part_names(&self) -> &'static [&'static str] {
        self.declared().part_names()
    }

    /// Returns the name of the part that holds a code for each element, and most of the bytes.
    pub fn codes(&self) -> &'static str {
        self.declared().codes()
    }
}

impl fmt::Display for Encoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.declared().fmt(f)
    }
}
