//! One tensor of a checkpoint, read in pieces: whole rows, converted to the dtype and the order of a parameter.
//!
//! Only one piece is in memory as it is stored.

use safetensors::Dtype;

use super::decode::{Wanted, decode_into};
use super::file::{Change, StoredTensor, TensorFile};
use super::fp8;
use super::shards::Shards;
use super::storage::Storage;
use crate::ModelError;
use crate::layout::Part;

/// The number of elements of a piece, or of one row if that has more.
const PIECE: usize = 1 << 18;

/// The side of the square tiles in which a matrix is transposed. Reads and writes of one tile stay in the cache.
const TILE: usize = 32;

/// A tensor whose type, shape and place were checked.
pub(super) struct Source<'a> {
    file: &'a TensorFile,
    info: &'a StoredTensor,
    columns: usize,
    /// The factors of a matrix of 8 bits. Other tensors have none.
    factors: Vec<f32>,
}

impl<'a> Source<'a> {
    /// # Panics
    ///
    /// Panics if the part is not in the checkpoint. The caller has looked it up.
    pub(super) fn open(shards: &'a Shards, part: &Part) -> Result<Self, ModelError> {
        let stored = shards.find(&part.name);
        let (file, info) = stored.expect("every part was looked up before anything is read");
        let columns = match (info.change, part.shape.as_slice()) {
            // Each element of a bias is a row.
            (Change::PairedRows(_), [_]) => 1,
            (_, shape) => shape.last().copied().unwrap_or(1),
        };
        let factors = match info.storage {
            Storage::Plain(Dtype::F8_E4M3) => factors(shards, part)?,
            _ => Vec::new(),
        };
        Ok(Self {
            file,
            info,
            columns,
            factors,
        })
    }

    /// Reads the whole tensor.
    pub(super) fn read<T: Wanted>(&self, values: &mut [T]) -> Result<(), ModelError> {
        let step = (PIECE / self.columns).max(1);
        if self.info.change == Change::None {
            let pieces = values.chunks_mut(step * self.columns);
            for (at, piece) in pieces.enumerate() {
                self.rows(at * step, piece)?;
            }
            return Ok(());
        }
        let mut read = vec![T::from_elem(0.0); values.len()];
        self.rows(0, &mut read)?;
        let rows = values.len() / self.columns;
        for (at, row) in read.chunks(self.columns).enumerate() {
            let place = self.place(at, rows) * self.columns;
            values[place..place + row.len()].copy_from_slice(row);
        }
        Ok(())
    }

    /// Reads `rows` rows from the row `first` on as the transpose of the matrix that they are.
    pub(super) fn read_transposed<T: Wanted>(
        &self,
        first: usize,
        rows: usize,
        values: &mut [T],
    ) -> Result<(), ModelError> {
        let step = (PIECE / self.columns).max(1).next_multiple_of(TILE);
        let mut piece = vec![T::from_elem(0.0); step.min(rows) * self.columns];
        for begin in (0..rows).step_by(step) {
            let end = rows.min(begin + step);
            let piece = &mut piece[..(end - begin) * self.columns];
            self.rows(first + begin, piece)?;
            let places: Vec<usize> = (begin..end).map(|row| self.place(row, rows)).collect();
            transpose(piece, self.columns, &places, rows, values);
        }
        Ok(())
    }

    /// Reads rows in the order of the file, as many as `values` has room for.
    fn rows<T: Wanted>(&self, first: usize, values: &mut [T]) -> Result<(), ModelError> {
        let storage = self.info.storage;
        let begin = self.info.begin + storage.bytes_of(first * self.columns) as u64;
        let length = storage.bytes_of(values.len());
        let bytes = self.file.read_range(begin, length)?;
        if storage == Storage::Plain(Dtype::F8_E4M3) {
            fp8::decode_into(&bytes, &self.factors, first, self.columns, values);
        } else if self.info.change == Change::PlusOne {
            let mut stored = vec![0.0_f32; values.len()];
            decode_into(&bytes, storage, &mut stored);
            let weights = stored
                .iter()
                .map(|weight| T::nearest((weight - 1.0).into()));
            values
                .iter_mut()
                .zip(weights)
                .for_each(|(to, from)| *to = from);
        } else {
            decode_into(&bytes, storage, values);
        }
        Ok(())
    }

    /// Returns the place of a row of the file among so many rows.
    fn place(&self, row: usize, rows: usize) -> usize {
        let Change::PairedRows(heads) = self.info.change else {
            return row;
        };
        let head = rows / heads;
        let (first, pair, half) = (row / head * head, row % head / 2, row % 2);
        first + half * head / 2 + pair
    }
}

/// Reads the factors of a matrix of 8 bits.
fn factors(shards: &Shards, part: &Part) -> Result<Vec<f32>, ModelError> {
    let name = format!("{}{}", part.name, fp8::SCALES);
    let (file, info) = shards
        .find(&name)
        .expect("the factors were looked up before");
    let bytes = file.read(info)?;
    let mut factors = vec![0.0; bytes.len() / 4];
    decode_into(&bytes, info.storage, &mut factors);
    Ok(factors)
}

/// Writes rows to columns of `values`, which has `height` elements in each of its rows. `places` are the columns.
fn transpose<T: Copy>(
    rows: &[T],
    columns: usize,
    places: &[usize],
    height: usize,
    values: &mut [T],
) {
    for row_tile in (0..places.len()).step_by(TILE) {
        for column_tile in (0..columns).step_by(TILE) {
            for column in column_tile..columns.min(column_tile + TILE) {
                for row in row_tile..places.len().min(row_tile + TILE) {
                    values[column * height + places[row]] = rows[row * columns + column];
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transposes_matrices_larger_than_a_tile() {
        let (height, columns) = (TILE + 3, 2 * TILE + 1);
        let rows: Vec<usize> = (0..height * columns).collect();
        let places: Vec<usize> = (0..height).rev().collect();
        let mut values = vec![0; rows.len()];
        transpose(&rows, columns, &places, height, &mut values);
        for row in 0..height {
            for column in 0..columns {
                let place = column * height + height - 1 - row;
                assert_eq!(values[place], row * columns + column);
            }
        }
    }
}
