//! One tensor of a checkpoint, read in pieces: whole rows, converted to the dtype and the order of a parameter.
//!
//! Only one piece is in memory as it is stored, or one weight in quantised form, if several tensors hold it together.

use kernels_quant::QuantizedWeight;

use super::decode::{Wanted, decode_into};
use super::file::{Change, StoredTensor, TensorFile};
use super::matrices::{self, Parts};
use super::shards::Shards;
use super::storage::Storage;
use crate::ModelError;
use crate::parameters::layout::Part;

/// The number of elements of a piece, or of one row if that has more.
const PIECE: usize = 1 << 18;

/// The side of the square tiles in which a matrix is transposed. Reads and writes of one tile stay in the cache.
const TILE: usize = 32;

/// A tensor whose type, shape and place were checked.
pub(super) struct Source<'a> {
    numbers: Numbers<'a>,
    change: Change,
    columns: usize,
}

/// The place of a tensor's numbers.
enum Numbers<'a> {
    InFile {
        file: &'a TensorFile,
        info: &'a StoredTensor,
        name: &'a str,
    },
    InParts {
        parts: &'a Parts,
        weight: QuantizedWeight<'a>,
    },
}

impl<'a> Source<'a> {
    /// Returns a tensor that a file holds alone.
    ///
    /// # Panics
    ///
    /// Panics if the part is not in the checkpoint. The caller has looked it up.
    pub(super) fn open(shards: &'a Shards, part: &'a Part) -> Self {
        let stored = shards.find(&part.name);
        let (file, info) = stored.expect("every part was looked up before anything is read");
        let columns = match (info.change, part.shape.as_slice()) {
            // Each element of a bias is a row.
            (Change::PairedRows(_), [_]) => 1,
            (_, shape) => shape.last().copied().unwrap_or(1),
        };
        Self {
            numbers: Numbers::InFile {
                file,
                info,
                name: &part.name,
            },
            change: info.change,
            columns,
        }
    }

    /// Returns a weight in quantised form.
    pub(super) fn of(parts: &'a Parts) -> Result<Self, ModelError> {
        let weight = parts.weight()?;
        let [_, columns] = weight.shape();
        Ok(Self {
            numbers: Numbers::InParts { parts, weight },
            change: Change::None,
            columns,
        })
    }

    /// Checks that so many rows decode to finite numbers. Nothing is kept.
    pub(super) fn check(&self, rows: usize) -> Result<(), ModelError> {
        let step = (PIECE / self.columns).max(1);
        let mut piece = vec![0.0_f32; step.min(rows) * self.columns];
        for begin in (0..rows).step_by(step) {
            let count = step.min(rows - begin);
            self.rows(begin, &mut piece[..count * self.columns])?;
        }
        Ok(())
    }

    /// Reads the whole tensor.
    pub(super) fn read<T: Wanted>(&self, values: &mut [T]) -> Result<(), ModelError> {
        let step = (PIECE / self.columns).max(1);
        if self.change == Change::None {
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
        let mut floats = Vec::new();
        match &self.numbers {
            Numbers::InFile { file, info, .. } => {
                let storage = info.storage;
                let begin = info.begin + storage.bytes_of(first * self.columns) as u64;
                let bytes = file.read_range(begin, storage.bytes_of(values.len()))?;
                if let (Storage::Plain(_), false) = (storage, self.change == Change::PlusOne) {
                    decode_into(&bytes, storage, values);
                    return Ok(());
                }
                floats.resize(values.len(), 0.0);
                decode_into(&bytes, storage, &mut floats);
                if let Storage::Blocks(_) = storage {
                    self.check_finite(first, &floats)?;
                }
            }
            Numbers::InParts { weight, .. } => {
                floats.resize(values.len(), 0.0);
                weight.decode_rows(first..first + values.len() / self.columns, &mut floats);
                self.check_finite(first, &floats)?;
            }
        }
        let minus = match self.change {
            Change::PlusOne => 1.0,
            _ => 0.0,
        };
        for (value, float) in values.iter_mut().zip(floats) {
            *value = T::nearest((float - minus).into());
        }
        Ok(())
    }

    /// Refuses decoded numbers of which one is infinite or NaN.
    pub(super) fn check_finite(&self, first: usize, decoded: &[f32]) -> Result<(), ModelError> {
        let Some(at) = decoded.iter().position(|number| !number.is_finite()) else {
            return Ok(());
        };
        let (row, column) = (first + at / self.columns, at % self.columns);
        let problem = format!(
            "row {row}, column {column} is {}: its scale or its code is not a finite number",
            decoded[at]
        );
        Err(match &self.numbers {
            Numbers::InFile { file, name, .. } => matrices::error(file.path(), name, problem),
            Numbers::InParts { parts, .. } => parts.error(problem),
        })
    }

    /// Returns the place of a row of the file among so many rows.
    pub(super) fn place(&self, row: usize, rows: usize) -> usize {
        let Change::PairedRows(heads) = self.change else {
            return row;
        };
        let head = rows / heads;
        let (first, pair, half) = (row / head * head, row % head / 2, row % 2);
        first + half * head / 2 + pair
    }
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
