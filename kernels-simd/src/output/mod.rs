//! Outputs that are not initialised before a kernel writes them, so that memory is written once, and
//! that can't become tensors before all of their elements are written.
//!
//! An [`Output`] hands out its memory as [`Unwritten`] parts, front to back. A part hands out [`Row`]s,
//! which are consumed by the methods that write them completely. Each part counts the elements written to it and
//! adds them to its output's count, and [`Output::into_parts`] compares the count with the size. A kernel that leaves
//! an element out, for any operands, therefore panics instead of returning the previous contents of the memory.
//! Elements are written by iterators of values; an iterator that ends too early also panics.
//! Code outside this file can't count elements that it did not write, except with
//! [`Unwritten::assume_written`], which is for products that write through raw pointers.

mod columns;
mod row;

pub use columns::Columns;
pub use row::{Pairs, Row};

use row::too_long;
use std::cell::Cell;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The buffer of a result: contiguous, and not written at first.
pub struct Output<T> {
    /// The elements. The length of the vector is zero, its capacity at least the size of the shape.
    values: Vec<T>,
    len: usize,
    sizes: Vec<usize>,
    /// The number of elements that were handed out.
    given: usize,
    /// The number of elements that the parts wrote.
    written: AtomicUsize,
}

impl<T: Copy> Output<T> {
    /// Makes the output of a tensor of these sizes.
    ///
    /// # Panics
    /// Panics if it has more elements than memory can hold.
    pub fn new(sizes: impl Into<Vec<usize>>) -> Self {
        let sizes = sizes.into();
        let len = sizes
            .iter()
            .try_fold(1_usize, |len, size| len.checked_mul(*size))
            .unwrap_or_else(|| panic!("a result of shape {sizes:?} has more elements than fit"));
        let mut values = Vec::new();
        if values.try_reserve_exact(len).is_err() {
            panic!("a result of shape {sizes:?} does not fit into memory");
        }
        Self {
            values,
            len,
            sizes,
            given: 0,
            written: AtomicUsize::new(0),
        }
    }

    /// Returns an output without elements, for kernels that don't need it.
    pub fn none() -> Self {
        Self::new([0])
    }

    /// Returns the number of elements of the whole output.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns all elements that were not handed out yet.
    pub fn rest(&mut self) -> Unwritten<'_, T> {
        let places = &mut self.values.spare_capacity_mut()[self.given..self.len];
        self.given = self.len;
        Unwritten {
            places,
            written: Cell::new(0),
            total: &self.written,
        }
    }

    /// Returns the elements.
    ///
    /// # Panics
    /// Panics if some were not written.
    pub fn into_values(self) -> Vec<T> {
        self.into_parts().0
    }

    /// Returns the elements and the sizes of the tensor.
    ///
    /// # Panics
    /// Panics if some elements were not written.
    pub fn into_parts(mut self) -> (Vec<T>, Vec<usize>) {
        let written = *self.written.get_mut();
        assert!(
            written == self.len,
            "a kernel wrote {written} of the {} elements of its result, {:?}",
            self.len,
            self.sizes
        );
        // SAFETY: parts are disjoint, and each counts once the elements that it wrote. If `len` elements were
        // written, these are all elements. The capacity is at least `len`.
        unsafe { self.values.set_len(self.len) };
        (self.values, self.sizes)
    }
}

/// A part of an output that belongs to one thread, to be written front to back.
pub struct Unwritten<'a, T> {
    /// The elements that are left.
    places: &'a mut [MaybeUninit<T>],
    written: Cell<usize>,
    total: &'a AtomicUsize,
}

impl<'a, T: Copy> Unwritten<'a, T> {
    /// Returns the number of elements that are left.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// # Panics
    /// Panics if fewer than `len` elements are left.
    #[inline(always)]
    fn take(&mut self, len: usize) -> &'a mut [MaybeUninit<T>] {
        if len > self.places.len() {
            too_long(len, self.places.len());
        }
        let (first, rest) = std::mem::take(&mut self.places).split_at_mut(len);
        self.places = rest;
        first
    }

    /// Returns the next `len` elements as a separate part.
    ///
    /// # Panics
    /// Panics if fewer are left.
    pub fn part(&mut self, len: usize) -> Self {
        Self {
            places: self.take(len),
            written: Cell::new(0),
            total: self.total,
        }
    }

    /// Returns the next `len` elements as a row.
    ///
    /// # Panics
    /// Panics if fewer are left.
    #[inline(always)]
    pub fn row(&mut self, len: usize) -> Row<'_, T> {
        Row {
            places: self.take(len),
            written: &self.written,
        }
    }

    /// Writes the next element.
    ///
    /// # Panics
    /// Panics if none is left.
    #[inline(always)]
    pub fn push(&mut self, value: T) {
        self.row(1).fill(value);
    }

    /// Writes `value` to all elements that are left, and returns them for further changes.
    pub fn filled(mut self, value: T) -> &'a mut [T] {
        let places = self.take(self.places.len());
        places.fill(MaybeUninit::new(value));
        self.written.set(self.written.get() + places.len());
        // SAFETY: `fill` wrote every place.
        unsafe { places.assume_init_mut() }
    }

    /// Returns the elements that are left, for a caller that writes them through raw pointers.
    pub fn places(&mut self) -> &mut [MaybeUninit<T>] {
        self.places
    }

    /// Counts all elements that are left as written, and returns them for further changes.
    ///
    /// # Safety
    /// The caller must have written every element of [`places`](Self::places).
    pub unsafe fn assume_written(mut self) -> &'a mut [T] {
        let places = self.take(self.places.len());
        self.written.set(self.written.get() + places.len());
        // SAFETY: the caller has written every place.
        unsafe { places.assume_init_mut() }
    }
}

impl<T> Drop for Unwritten<'_, T> {
    fn drop(&mut self) {
        // The join of the threads orders this before `into_values`.
        self.total.fetch_add(self.written.get(), Ordering::Relaxed);
    }
}

/// A kernel's own row, separate from its outputs, which can be written repeatedly and read.
pub struct Scratch<T> {
    values: Vec<T>,
    written: Cell<usize>,
}

impl<T: Copy> Scratch<T> {
    pub fn new() -> Self {
        Self {
            values: Vec::new(),
            written: Cell::new(0),
        }
    }

    /// Returns the row of `len` elements for writing. The elements hold `zero` or previous values.
    #[inline(always)]
    pub fn row(&mut self, len: usize, zero: T) -> Row<'_, T> {
        self.values.resize(len, zero);
        let places = std::ptr::from_mut(&mut self.values[..]) as *mut [MaybeUninit<T>];
        Row {
            // SAFETY: the layouts are the same, and a `Row` only writes values, so the elements
            // stay initialised.
            places: unsafe { &mut *places },
            written: &self.written,
        }
    }

    /// Returns the values that were written.
    pub fn values(&self) -> &[T] {
        &self.values
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    fn says(call: impl FnOnce()) -> String {
        *catch_unwind(AssertUnwindSafe(call))
            .unwrap_err()
            .downcast::<String>()
            .unwrap()
    }

    #[test]
    fn a_written_output_is_the_tensor() {
        for n in [0_usize, 1, 7] {
            let mut output = Output::<f32>::new([n, 2]);
            let expected: Vec<f32> = (0..2 * n).map(|i| i as f32).collect();
            let mut rest = output.rest();
            let written = rest.row(2 * n).write((0..2 * n).map(|i| i as f32));
            assert_eq!(written, expected);
            drop(rest);
            assert_eq!(output.into_parts(), (expected, vec![n, 2]));
        }
    }

    #[test]
    fn every_way_to_write_writes_all() {
        let mut output = Output::<i32>::new([22]);
        let mut rest = output.rest();
        rest.push(0);
        rest.row(2).copy(&[1, 2]);
        let (first, second) = rest.row(4).split_at(2);
        first.write_with(second, [(3, 5), (4, 6)].into_iter());
        rest.row(4).write_pairs([(7, 8), (9, 10)].into_iter());
        let mut part = rest.part(3);
        part.row(1).fill(11);
        part.filled(0).copy_from_slice(&[12, 13]);
        rest.row(5).write(14..);
        for (place, value) in rest.places().iter_mut().zip(19..) {
            place.write(value);
        }
        // SAFETY: the loop wrote all elements that were left.
        unsafe { rest.assume_written() };
        assert_eq!(output.into_values(), (0..22).collect::<Vec<_>>());
    }

    #[test]
    fn nothing_unwritten_is_finished() {
        let unfinished = |write: fn(&mut Unwritten<'_, f32>)| {
            says(|| {
                let mut output = Output::<f32>::new([2, 2]);
                let mut rest = output.rest();
                write(&mut rest);
                drop(rest);
                output.into_values();
            })
        };
        let whole = "a kernel wrote 3 of the 4 elements of its result";
        assert!(unfinished(|rest| rest.row(3).fill(1.0)).starts_with(whole));
        let none = "a kernel wrote 0 of the 4 elements";
        assert!(unfinished(|_| ()).starts_with(none));
        assert!(unfinished(|rest| drop(rest.part(4))).starts_with(none));
        assert!(unfinished(|rest| std::mem::forget(rest.part(4))).starts_with(none));
        assert!(unfinished(|rest| drop(rest.row(4))).starts_with(none));
        assert_eq!(
            unfinished(|rest| _ = rest.row(4).write([1.0; 3].into_iter())),
            "a kernel has 3 values for 4 elements of its result"
        );
        assert_eq!(
            unfinished(|rest| rest.row(5).fill(1.0)),
            "a kernel writes 5 elements of its result where 4 are left"
        );
        assert_eq!(
            unfinished(|rest| rest.row(3).write_pairs([(1.0, 1.0); 2].into_iter())),
            "a kernel has 0 values for 1 elements of its result"
        );
        assert_eq!(
            unfinished(|rest| {
                let (first, second) = rest.row(3).split_at(1);
                first.write_with(second, std::iter::repeat((1.0, 1.0)));
            }),
            "a kernel has 2 values for 1 elements of its result"
        );
        assert_eq!(
            unfinished(|rest| rest.row(4).copy(&[1.0; 5])),
            "a kernel has 5 values for 4 elements of its result"
        );
    }

    /// Checks that the elements that a failed row wrote don't make up for those it left out.
    #[test]
    fn a_failed_row_is_not_counted() {
        let mut output = Output::<u8>::new([4]);
        let mut rest = output.rest();
        let failed = catch_unwind(AssertUnwindSafe(|| {
            rest.row(2).write([1].into_iter());
        }));
        assert!(failed.is_err());
        rest.row(2).fill(1);
        drop(rest);
        assert!(says(|| drop(output.into_values())).contains("wrote 2 of the 4"));
    }

    #[test]
    fn memory_is_handed_out_once() {
        let mut output = Output::<u8>::new([4]);
        assert_eq!(output.rest().len(), 4);
        assert_eq!(output.rest().len(), 0);
    }

    #[test]
    fn a_shape_that_overflows_is_no_output() {
        let said = says(|| drop(Output::<u8>::new([usize::MAX, 2])));
        assert!(said.contains("more elements than fit"), "{said}");
        let said = says(|| drop(Output::<u64>::new([1 << 30, 1 << 30])));
        assert_eq!(
            said,
            "a result of shape [1073741824, 1073741824] does not fit into memory"
        );
    }
}
