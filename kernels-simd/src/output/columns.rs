use super::{Row, Unwritten};
use std::cell::Cell;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Some columns of a matrix of results, which belong to one thread. Rows are written from the first to the last.
pub struct Columns<'a, T> {
    /// The first column of the next row.
    next: *mut MaybeUninit<T>,
    /// The rows that are left.
    rows: usize,
    /// The distance between rows.
    stride: usize,
    start: usize,
    width: usize,
    written: Cell<usize>,
    total: &'a AtomicUsize,
    places: PhantomData<&'a mut [MaybeUninit<T>]>,
}

// SAFETY: columns are a mutable borrow of places that no other part has, which `&mut [T]` would be if they were adjacent.
unsafe impl<T: Send> Send for Columns<'_, T> {}

impl<'a, T: Copy> Unwritten<'a, T> {
    /// Divides the elements that are left, rows of `length` elements, into parts of `width` columns. The last part may
    /// be narrower.
    ///
    /// # Panics
    /// Panics if the elements are not whole rows, or if rows or parts have no elements.
    pub fn columns(mut self, length: usize, width: usize) -> Vec<Columns<'a, T>> {
        assert!(
            length > 0 && width > 0 && self.len().is_multiple_of(length),
            "a result of {} elements has no rows of {length} in parts of {width}",
            self.len()
        );
        let rows = self.len() / length;
        let total = self.total;
        let places = self.take(self.len());
        let first = places.as_mut_ptr();
        let starts = (0..length).step_by(width);
        starts
            .map(|start| Columns {
                next: first.wrapping_add(start),
                rows,
                stride: length,
                start,
                width: width.min(length - start),
                written: Cell::new(0),
                total,
                places: PhantomData,
            })
            .collect()
    }
}

impl<T: Copy> Columns<'_, T> {
    /// Returns the first column.
    pub fn start(&self) -> usize {
        self.start
    }

    /// Returns the number of columns.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Returns the number of rows that are left.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the columns of the next `count` rows as a separate part.
    ///
    /// # Panics
    /// Panics if fewer are left.
    pub fn part(&mut self, count: usize) -> Self {
        let left = self.rows.checked_sub(count);
        let left = left.unwrap_or_else(|| panic!("{count} of {} rows that are left", self.rows));
        let part = Self {
            rows: count,
            written: Cell::new(0),
            ..*self
        };
        self.next = self.next.wrapping_add(count * self.stride);
        self.rows = left;
        part
    }

    /// Returns the columns of the next row, or `None` after the last.
    #[inline(always)]
    pub fn row(&mut self) -> Option<Row<'_, T>> {
        self.rows = self.rows.checked_sub(1)?;
        let first = self.next;
        self.next = first.wrapping_add(self.stride);
        // SAFETY: `columns` took all places of all rows from one exclusive borrow. Each part has columns of its own, and
        // each of its rows is handed out once, here or to another part, so nothing else refers to these places.
        let places = unsafe { std::slice::from_raw_parts_mut(first, self.width) };
        Some(Row {
            places,
            written: &self.written,
        })
    }
}

impl<T> Drop for Columns<'_, T> {
    fn drop(&mut self) {
        // The join of the threads orders this before `into_values`.
        self.total.fetch_add(self.written.get(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use crate::Output;

    #[test]
    fn parts_are_the_columns_of_every_row() {
        for (rows, length, width) in [(1, 1, 1), (3, 7, 2), (4, 6, 3), (2, 5, 9), (0, 3, 2)] {
            let mut out = Output::new([rows, length]);
            std::thread::scope(|scope| {
                for mut part in out.rest().columns(length, width) {
                    scope.spawn(move || {
                        let (start, width, mut number) = (part.start(), part.width(), 0);
                        while let Some(row) = part.row() {
                            row.write((start..start + width).map(|at| number * length + at));
                            number += 1;
                        }
                        assert_eq!(number, rows);
                    });
                }
            });
            let expected: Vec<usize> = (0..rows * length).collect();
            assert_eq!(out.into_values(), expected);
        }
    }

    #[test]
    fn parts_of_rows_are_written_by_themselves() {
        let mut out = Output::new([5, 4]);
        let columns = out.rest().columns(4, 2);
        let mut parts = Vec::new();
        for mut columns in columns {
            parts.push(columns.part(2));
            assert_eq!(columns.rows(), 3);
            parts.push(columns.part(0));
            parts.push(columns);
        }
        std::thread::scope(|scope| {
            for (number, mut part) in parts.into_iter().enumerate() {
                scope.spawn(move || {
                    while let Some(row) = part.row() {
                        row.fill(number);
                    }
                });
            }
        });
        let expected = [
            [0, 0, 3, 3],
            [0, 0, 3, 3],
            [2, 2, 5, 5],
            [2, 2, 5, 5],
            [2, 2, 5, 5],
        ];
        assert_eq!(out.into_values(), expected.as_flattened());
    }

    #[test]
    #[should_panic(expected = "3 of 2 rows that are left")]
    fn more_rows_than_there_are_are_refused() {
        let mut out = Output::<f32>::new([2, 4]);
        drop(out.rest().columns(4, 2)[0].part(3));
    }

    #[test]
    #[should_panic(expected = "a kernel wrote 5 of the 6 elements")]
    fn a_row_that_is_left_out_is_missed() {
        let mut out = Output::new([2, 3]);
        for (number, mut part) in out.rest().columns(3, 1).into_iter().enumerate() {
            for _ in 0..if number == 1 { 1 } else { 2 } {
                part.row().expect("there are two").fill(1.0_f32);
            }
        }
        out.into_values();
    }

    #[test]
    #[should_panic(expected = "a result of 5 elements has no rows of 2")]
    fn incomplete_rows_are_refused() {
        let mut out = Output::<f32>::new([5]);
        out.rest().columns(2, 1);
    }
}
