//! A matrix in quantised form.

use std::ops::Range;

use crate::encoding::DecodeRows;
use crate::parts::Parts;
use crate::{Codes, Dtype, Encoding, Part, QuantError};

/// A matrix `[rows, columns]` in quantised form, whose parts are complete and go together.
#[derive(Debug)]
pub struct QuantizedWeight<'a> {
    encoding: Encoding,
    shape: [usize; 2],
    rows: Box<dyn DecodeRows + 'a>,
}

impl<'a> QuantizedWeight<'a> {
    /// Checks the parts of a weight: their names, types, shapes and lengths, and indices and settings inside of them.
    ///
    /// # Errors
    ///
    /// Returns an error if the shape is empty or the encoding has no such shapes, if a part is missing or of another form
    /// than the encoding and the shape prescribe, or if one is left over.
    pub fn new<'n>(
        encoding: impl Into<Encoding>,
        shape: [usize; 2],
        parts: impl IntoIterator<Item = (&'n str, Part<'a>)>,
    ) -> Result<Self, QuantError> {
        Self::of(encoding.into(), shape, false, parts)
    }

    /// Checks the parts of a weight as [`new`](Self::new) does, but the bytes of [`codes`](Encoding::codes), of which a file's
    /// header has the type and the shape. Also refuses scales that are infinite or NaN.
    ///
    /// # Errors
    ///
    /// Returns an error as [`new`](Self::new) does.
    pub fn check<'n>(
        encoding: impl Into<Encoding>,
        shape: [usize; 2],
        codes: Option<(Dtype, &'a [usize])>,
        others: impl IntoIterator<Item = (&'n str, Part<'a>)>,
    ) -> Result<(), QuantError> {
        let encoding = encoding.into();
        let codes = codes.map(|(dtype, shape)| (encoding.codes(), Part::unread(dtype, shape)));
        Self::of(encoding, shape, true, codes.into_iter().chain(others)).map(drop)
    }

    fn of<'n>(
        encoding: Encoding,
        shape: [usize; 2],
        strict: bool,
        parts: impl IntoIterator<Item = (&'n str, Part<'a>)>,
    ) -> Result<Self, QuantError> {
        let bad = |problem: &str| QuantError::Shape {
            encoding: encoding.to_string(),
            shape,
            problem: problem.into(),
        };
        // So few that no number of bits or bytes overflows.
        let elements = shape[0].checked_mul(shape[1]);
        match elements.filter(|&elements| elements <= usize::MAX >> 4) {
            Some(0) => return Err(bad("it has no elements")),
            Some(_) => {}
            None => return Err(bad("it has more elements than memory can hold")),
        }
        let mut parts = Parts::new(encoding.to_string(), strict, parts)?;
        let rows = encoding.declared().decoder(shape, &mut parts)?;
        parts.finish()?;
        Ok(Self {
            encoding,
            shape,
            rows,
        })
    }

    /// Returns the encoding.
    pub fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// Returns the shape, rows and columns.
    pub fn shape(&self) -> [usize; 2] {
        self.shape
    }

    /// Returns the codes and scales of an encoding that products decode in registers. Returns `None` for others, which
    /// [`decode_rows`](Self::decode_rows) decodes.
    pub fn codes(&self) -> Option<Codes<'_>> {
        self.rows.codes()
    }

    /// Decodes rows to `out`, in row-major order.
    ///
    /// # Panics
    ///
    /// Panics if the weight has fewer rows, or if `out` has another number of elements than the rows.
    pub fn decode_rows(&self, rows: Range<usize>, out: &mut [f32]) {
        let [height, columns] = self.shape;
        assert!(
            rows.start <= rows.end && rows.end <= height,
            "rows {rows:?} of a weight with {height}"
        );
        assert_eq!(
            out.len(),
            rows.len() * columns,
            "`out` must have one element for each of the {} rows of {columns}",
            rows.len()
        );
        if !rows.is_empty() {
            self.rows.decode(rows, out);
        }
    }
}
