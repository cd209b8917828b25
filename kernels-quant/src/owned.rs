//! A matrix in quantised form that owns its parts.

use std::fmt;
use std::sync::Arc;

use crate::{Bnb4Bit, Dtype, Encoding, Part, QuantError, QuantizedWeight, nf4};

/// A matrix `[rows, columns]` in quantised form, with the memory of its parts. Clones share it.
#[derive(Clone)]
pub struct OwnedWeight {
    encoding: Encoding,
    shape: [usize; 2],
    parts: Arc<[OwnedPart]>,
}

/// Writes no bytes, of which there are millions.
impl fmt::Debug for OwnedWeight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = f.debug_struct("OwnedWeight");
        text.field("encoding", &self.encoding);
        text.field("shape", &self.shape).finish_non_exhaustive()
    }
}

/// A part with its memory.
#[derive(Clone)]
pub struct OwnedPart {
    /// The name, after that of the layer.
    pub name: String,
    /// The type of the elements.
    pub dtype: Dtype,
    /// The shape.
    pub shape: Vec<usize>,
    /// The elements, in the byte order of files.
    pub bytes: Vec<u8>,
}

impl OwnedPart {
    fn view(&self) -> (&str, Part<'_>) {
        let part = Part::new(self.dtype, &self.shape, &self.bytes);
        (&self.name, part)
    }
}

impl OwnedWeight {
    /// Checks the parts of a weight as [`QuantizedWeight::new`] does.
    ///
    /// # Errors
    ///
    /// Returns an error as [`QuantizedWeight::new`] does.
    pub fn new(
        encoding: impl Into<Encoding>,
        shape: [usize; 2],
        parts: Vec<OwnedPart>,
    ) -> Result<Self, QuantError> {
        let encoding = encoding.into();
        QuantizedWeight::new(encoding, shape, parts.iter().map(OwnedPart::view))?;
        Ok(Self {
            encoding,
            shape,
            parts: parts.into(),
        })
    }

    /// Quantises a matrix `[rows, columns]`, in row-major order, in NF4 with double quantisation, as [`nf4`] does.
    ///
    /// # Panics
    ///
    /// Panics if the shape is empty, if there is another number of numbers, or if one is infinite or NaN.
    pub fn nf4(shape: [usize; 2], numbers: &[f32]) -> Self {
        assert!(
            !numbers.is_empty() && shape[0].checked_mul(shape[1]) == Some(numbers.len()),
            "a matrix of shape {shape:?} does not have {} numbers",
            numbers.len()
        );
        let mut codes = vec![0; numbers.len().div_ceil(2)];
        let mut absmax = vec![0.0; numbers.len().div_ceil(nf4::BLOCK)];
        nf4::encode(numbers, &mut codes, &mut absmax).unwrap_or_else(|error| panic!("{error}"));
        let bytes = nf4::finish(shape, Dtype::F32, codes, &absmax);
        let specs = nf4::parts(shape, Dtype::F32).into_iter();
        let parts = specs.zip(bytes).map(|(spec, bytes)| OwnedPart {
            name: spec.name.into(),
            dtype: spec.dtype,
            shape: spec.shape,
            bytes,
        });
        Self::new(Bnb4Bit::Nf4, shape, parts.collect()).expect("the parts are made for the shape")
    }

    /// Returns the weight, whose parts are those of this one.
    pub fn view(&self) -> QuantizedWeight<'_> {
        QuantizedWeight::new(
            self.encoding,
            self.shape,
            self.parts.iter().map(OwnedPart::view),
        )
        .expect("the same parts were checked before, and nothing changes them")
    }

    /// Returns the encoding.
    pub fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// Returns the shape, rows and columns.
    pub fn shape(&self) -> [usize; 2] {
        self.shape
    }

    /// Returns the parts.
    pub fn parts(&self) -> &[OwnedPart] {
        &self.parts
    }

    /// Returns the bytes of all parts.
    pub fn bytes(&self) -> usize {
        self.parts.iter().map(|part| part.bytes.len()).sum()
    }
}
