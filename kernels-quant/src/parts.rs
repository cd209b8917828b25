//! The parts of a weight, taken one by one with what is expected of each.

use std::collections::BTreeMap;

use crate::views::{Floats, Words};
use crate::{Dtype, QuantError};

/// A tensor of a file that belongs to a weight.
#[derive(Debug, Clone, Copy)]
pub struct Part<'a> {
    dtype: Dtype,
    shape: &'a [usize],
    /// `None` if they were not read.
    bytes: Option<&'a [u8]>,
}

impl<'a> Part<'a> {
    /// Returns a part. [`QuantizedWeight::new`](crate::QuantizedWeight::new) checks it.
    pub fn new(dtype: Dtype, shape: &'a [usize], bytes: &'a [u8]) -> Self {
        Self {
            dtype,
            shape,
            bytes: Some(bytes),
        }
    }

    /// Returns a part with as many bytes as its type and shape say, which were not read.
    pub(crate) fn unread(dtype: Dtype, shape: &'a [usize]) -> Self {
        Self {
            dtype,
            shape,
            bytes: None,
        }
    }

    /// Returns the number of bytes that the type and the shape say. Returns `None` if no memory has so many.
    fn length(&self) -> Option<usize> {
        let elements = self
            .shape
            .iter()
            .try_fold(1_usize, |size, &side| size.checked_mul(side));
        elements?.checked_mul(self.dtype.size())
    }

    fn is_whole(&self) -> bool {
        let length = self.length();
        length.is_some() && self.bytes.is_none_or(|bytes| length == Some(bytes.len()))
    }
}

/// A tensor of a file that is to be written for a weight.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartSpec {
    /// Its name after the name of the layer and a dot.
    pub name: &'static str,
    /// The type of its elements.
    pub dtype: Dtype,
    /// Its shape.
    pub shape: Vec<usize>,
}

impl PartSpec {
    /// Returns the number of its bytes.
    pub fn bytes(&self) -> usize {
        self.shape.iter().product::<usize>() * self.dtype.size()
    }
}

/// The parts of a weight that were not yet taken. Each has as many bytes as its type and shape say.
pub(crate) struct Parts<'a> {
    encoding: String,
    rest: BTreeMap<String, Part<'a>>,
    /// True if scales that are infinite or NaN are refused.
    strict: bool,
}

impl<'a> Parts<'a> {
    pub(crate) fn new<'n>(
        encoding: String,
        strict: bool,
        parts: impl IntoIterator<Item = (&'n str, Part<'a>)>,
    ) -> Result<Self, QuantError> {
        let mut rest = BTreeMap::new();
        for (name, part) in parts {
            if !part.is_whole() {
                return Err(QuantError::Bytes {
                    part: name.into(),
                    dtype: part.dtype,
                    shape: part.shape.into(),
                    found: part.bytes.map_or(0, <[u8]>::len),
                });
            }
            if rest.insert(name.to_owned(), part).is_some() {
                return Err(QuantError::Twice { part: name.into() });
            }
        }
        Ok(Self {
            encoding,
            rest,
            strict,
        })
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.rest.contains_key(name)
    }

    /// Takes a part of one of some types, whose shape is not prescribed.
    pub(crate) fn take_any(
        &mut self,
        name: &str,
        dtypes: &[Dtype],
    ) -> Result<(Dtype, &'a [u8]), QuantError> {
        let part = self.rest.remove(name).ok_or_else(|| QuantError::Missing {
            encoding: self.encoding.clone(),
            part: name.into(),
        })?;
        if !dtypes.contains(&part.dtype) {
            return Err(QuantError::Dtype {
                part: name.into(),
                expected: dtypes.into(),
                found: part.dtype,
            });
        }
        // Those of codes that were not read, which nothing decodes.
        Ok((part.dtype, part.bytes.unwrap_or(&[])))
    }

    fn take(
        &mut self,
        name: &str,
        dtypes: &[Dtype],
        shape: &[usize],
    ) -> Result<(Dtype, &'a [u8]), QuantError> {
        let found = self.rest.get(name).map(|part| part.shape);
        let taken = self.take_any(name, dtypes)?;
        match found {
            Some(found) if found != shape => Err(QuantError::PartShape {
                part: name.into(),
                expected: shape.into(),
                found: found.into(),
            }),
            _ => Ok(taken),
        }
    }

    /// Takes a part of elements of one byte.
    pub(crate) fn bytes(
        &mut self,
        name: &str,
        dtype: Dtype,
        shape: &[usize],
    ) -> Result<&'a [u8], QuantError> {
        Ok(self.take(name, &[dtype], shape)?.1)
    }

    /// Takes a part of words of 32 bits.
    pub(crate) fn words(&mut self, name: &str, shape: &[usize]) -> Result<Words<'a>, QuantError> {
        let (_, bytes) = self.take(name, &[Dtype::I32], shape)?;
        Ok(Words::new(bytes))
    }

    /// Takes a part of floats of a usual type.
    pub(crate) fn floats(&mut self, name: &str, shape: &[usize]) -> Result<Floats<'a>, QuantError> {
        let floats = [Dtype::F16, Dtype::BF16, Dtype::F32];
        self.numbers(name, &floats, shape)
    }

    /// Takes a part of floats in single precision.
    pub(crate) fn singles(
        &mut self,
        name: &str,
        shape: &[usize],
    ) -> Result<Floats<'a>, QuantError> {
        self.numbers(name, &[Dtype::F32], shape)
    }

    fn numbers(
        &mut self,
        name: &str,
        dtypes: &[Dtype],
        shape: &[usize],
    ) -> Result<Floats<'a>, QuantError> {
        let (dtype, bytes) = self.take(name, dtypes, shape)?;
        let floats = Floats::new(dtype, bytes);
        let count = if self.strict {
            bytes.len() / dtype.size()
        } else {
            0
        };
        let mut checked = (0..count).map(|at| (at, floats.get(at)));
        match checked.find(|(_, number)| !number.is_finite()) {
            None => Ok(floats),
            Some((at, number)) => Err(QuantError::content(
                name,
                format!("number {at} is {number}; expected finite numbers"),
            )),
        }
    }

    /// Takes powers of two, one byte each, of which 255 is NaN.
    pub(crate) fn powers(&mut self, name: &str, shape: &[usize]) -> Result<&'a [u8], QuantError> {
        let powers = self.bytes(name, Dtype::U8, shape)?;
        match powers.iter().position(|&power| self.strict && power == 255) {
            None => Ok(powers),
            Some(at) => Err(QuantError::content(
                name,
                format!("number {at} is 255, which is NaN; expected powers of two"),
            )),
        }
    }

    /// Returns the number of bytes of a part, or 0 if the weight lacks it.
    pub(crate) fn length(&self, name: &str) -> usize {
        let part = self.rest.get(name);
        part.and_then(Part::length).unwrap_or(0)
    }

    /// Returns the shape of a part, if there is one of this name.
    pub(crate) fn shape(&self, name: &str) -> Option<&'a [usize]> {
        self.rest.get(name).map(|part| part.shape)
    }

    /// Refuses parts that nothing has taken.
    pub(crate) fn finish(self) -> Result<(), QuantError> {
        match self.rest.into_keys().next() {
            Some(part) => Err(QuantError::Unexpected {
                encoding: self.encoding,
                part,
            }),
            None => Ok(()),
        }
    }
}
