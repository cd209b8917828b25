//! Encoding of tensors, by all threads.

use super::kind::Kind;
use anyhow::anyhow;
use kernels_io::escape;
use kernels_quant::gguf::Block;
use kernels_quant::{Dtype, QuantError, decode_floats, encode_bfloats, encode_halves};
use rayon::prelude::*;

/// The number of elements that a thread takes at once.
const PIECE: usize = 1 << 16;

/// A matrix of floats, as a file holds it.
#[derive(Clone, Copy)]
pub struct Floats<'a> {
    /// The name, for errors.
    pub name: &'a str,
    pub dtype: Dtype,
    pub bytes: &'a [u8],
    /// The length of rows, not 0.
    pub columns: usize,
}

impl Floats<'_> {
    /// Encodes pieces of the matrix by `encode`, which gets the numbers and its own part of `out`. A piece is a
    /// multiple of `unit` elements, and takes `out_unit` elements of `out` for each unit, except the last.
    ///
    /// # Errors
    /// Returns the first error, with the name of the tensor, the row and the column.
    pub fn encode<T: Send>(
        self,
        out: &mut [T],
        [unit, out_unit]: [usize; 2],
        encode: impl Fn(&[f32], &mut [T]) -> Result<(), QuantError> + Sync,
    ) -> anyhow::Result<()> {
        let units = (PIECE / unit).max(1);
        let size = self.dtype.size();
        let pieces = self.bytes.par_chunks(units * unit * size);
        let pieces = pieces.zip(out.par_chunks_mut(units * out_unit)).enumerate();
        let failed = pieces.find_map_first(|(at, (bytes, out))| {
            let mut numbers = vec![0.0; bytes.len() / size];
            decode_floats(self.dtype, bytes, &mut numbers);
            let error = encode(&numbers, out).err()?;
            Some((at * units * unit, error))
        });
        failed.map_or(Ok(()), |(first, error)| Err(self.error(first, error)))
    }

    /// Encodes the matrix as `kind`.
    ///
    /// # Errors
    /// Returns an error if a number has no code.
    ///
    /// # Panics
    /// Panics if rows are not whole blocks of the kind, or if tensors never get the kind.
    pub fn in_kind(self, kind: Kind) -> anyhow::Result<Vec<u8>> {
        let elements = self.bytes.len() / self.dtype.size();
        let (unit, size) = match kind {
            Kind::Block(block) => (block.elements(), block.bytes()),
            Kind::Float(dtype) => (1, dtype.size()),
            other => unreachable!("no tensor gets {other}"),
        };
        assert!(self.columns.is_multiple_of(unit), "rows of whole blocks");
        let mut out = vec![0; elements / unit * size];
        self.encode(&mut out, [unit, size], |numbers, out| match kind {
            Kind::Block(block) => block.encode(numbers, out),
            Kind::Float(Dtype::F16) => encode_halves(numbers, out),
            Kind::Float(Dtype::BF16) => encode_bfloats(numbers, out),
            _ => {
                let places = out.as_chunks_mut().0.iter_mut();
                for (number, place) in numbers.iter().zip(places) {
                    *place = number.to_le_bytes();
                }
                Ok(())
            }
        })?;
        Ok(out)
    }

    /// Encodes the matrix as blocks, by the importance of each column.
    ///
    /// # Errors
    /// Returns an error if a number has no code.
    ///
    /// # Panics
    /// Panics if rows are not whole blocks, or if there is not a number for each column.
    pub fn by_importance(self, block: Block, importance: &[f32]) -> anyhow::Result<Vec<u8>> {
        assert_eq!(importance.len(), self.columns, "a number for each column");
        let rows = self.bytes.len() / self.dtype.size() / self.columns;
        let size = self.columns / block.elements() * block.bytes();
        let mut out = vec![0; rows * size];
        self.encode(&mut out, [self.columns, size], |numbers, out| {
            block.encode_weighted(numbers, importance, out)
        })?;
        Ok(out)
    }

    /// Returns an error that names the tensor and the place.
    pub fn error(self, first: usize, error: QuantError) -> anyhow::Error {
        let name = escape(self.name);
        match error {
            QuantError::Number {
                encoding,
                at,
                number,
            } => {
                let (row, column) = ((first + at) / self.columns, (first + at) % self.columns);
                anyhow!(
                    "tensor `{name}`: row {row}, column {column} is {number}, which {encoding} cannot hold"
                )
            }
            other => anyhow!("tensor `{name}`: {other}"),
        }
    }
}
