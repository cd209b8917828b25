//! Rows of a result, and the ways to write them completely.

use crate::lanes::{Blocks, LANES, Padded, Read, Whole};
use std::cell::Cell;
use std::mem::MaybeUninit;

/// Values of two rows, or of the places of pairs in one row, in blocks.
pub trait Pairs<T> {
    /// Returns the values of a block of pairs. Implementations are `#[inline(always)]`.
    fn at<R: Read>(&self, at: usize) -> [[T; LANES]; 2];
}

/// Elements that are written together or not at all.
#[must_use = "a row that is not written can't be finished"]
pub struct Row<'r, T> {
    pub(super) places: &'r mut [MaybeUninit<T>],
    pub(super) written: &'r Cell<usize>,
}

impl<'r, T: Copy> Row<'r, T> {
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Splits the row into the first `len` elements and the others.
    ///
    /// # Panics
    /// Panics if the row is shorter.
    #[inline(always)]
    pub fn split_at(self, len: usize) -> (Self, Self) {
        if len > self.places.len() {
            too_long(len, self.places.len());
        }
        let written = self.written;
        let (first, second) = self.places.split_at_mut(len);
        (
            Self {
                places: first,
                written,
            },
            Self {
                places: second,
                written,
            },
        )
    }

    /// Writes the values and returns the written row.
    ///
    /// # Panics
    /// Panics if there are fewer values than elements.
    #[inline(always)]
    pub fn write(self, values: impl Iterator<Item = T>) -> &'r [T] {
        let mut count = 0;
        for (place, value) in self.places.iter_mut().zip(values) {
            place.write(value);
            count += 1;
        }
        complete(count, self.places.len());
        self.written.set(self.written.get() + count);
        // SAFETY: as many values were written as there are places.
        unsafe { self.places.assume_init_ref() }
    }

    /// Writes the row in blocks and returns it.
    ///
    /// The values of a block are computed before any is written, so that the compiler need not know whether inputs overlap
    /// the row.
    #[inline(always)]
    pub fn write_blocks(self, values: &impl Blocks<T>) -> &'r [T] {
        let len = self.places.len();
        let (blocks, rest) = self.places.as_chunks_mut::<LANES>();
        let whole = blocks.len();
        for (at, block) in blocks.iter_mut().enumerate() {
            block.write_copy_of_slice(&values.at::<Whole>(at));
        }
        if !rest.is_empty() {
            let values = values.at::<Padded>(whole);
            rest.write_copy_of_slice(&values[..rest.len()]);
        }
        self.written.set(self.written.get() + len);
        // SAFETY: the blocks and the rest are all places, and all were written.
        unsafe { self.places.assume_init_ref() }
    }

    /// Writes this row and another one, as [`write_blocks`](Self::write_blocks) does.
    ///
    /// # Panics
    /// Panics if the rows have different lengths.
    #[inline(always)]
    pub fn write_blocks_with(self, other: Self, values: &impl Pairs<T>) {
        let len = self.places.len();
        complete(other.places.len(), len);
        let (blocks, rest) = self.places.as_chunks_mut::<LANES>();
        let (other_blocks, other_rest) = other.places.as_chunks_mut::<LANES>();
        for at in 0..blocks.len() {
            let [first, second] = values.at::<Whole>(at);
            blocks[at].write_copy_of_slice(&first);
            other_blocks[at].write_copy_of_slice(&second);
        }
        if !rest.is_empty() {
            let [first, second] = values.at::<Padded>(blocks.len());
            rest.write_copy_of_slice(&first[..rest.len()]);
            other_rest.write_copy_of_slice(&second[..rest.len()]);
        }
        self.written.set(self.written.get() + len);
        other.written.set(other.written.get() + len);
    }

    /// Writes adjacent elements from pairs of values, as [`write_blocks`](Self::write_blocks) does.
    ///
    /// # Panics
    /// Panics if the length is odd.
    #[inline(always)]
    pub fn write_blocks_by_turns(self, values: &impl Pairs<T>) {
        let len = self.places.len();
        let (pairs, odd) = self.places.as_chunks_mut::<2>();
        complete(0, odd.len());
        let (blocks, rest) = pairs.as_chunks_mut::<LANES>();
        let whole = blocks.len();
        for (at, block) in blocks.iter_mut().enumerate() {
            let [first, second] = values.at::<Whole>(at);
            for i in 0..LANES {
                block[i] = [MaybeUninit::new(first[i]), MaybeUninit::new(second[i])];
            }
        }
        if !rest.is_empty() {
            let [first, second] = values.at::<Padded>(whole);
            for (i, pair) in rest.iter_mut().enumerate() {
                *pair = [MaybeUninit::new(first[i]), MaybeUninit::new(second[i])];
            }
        }
        self.written.set(self.written.get() + len);
    }

    /// Writes this row and another one from pairs of values.
    ///
    /// # Panics
    /// Panics if the rows have different lengths, or if there are fewer pairs.
    #[inline(always)]
    pub fn write_with(self, other: Self, values: impl Iterator<Item = (T, T)>) {
        let len = self.places.len();
        complete(other.places.len(), len);
        let mut count = 0;
        let places = self.places.iter_mut().zip(other.places.iter_mut());
        for ((first, second), values) in places.zip(values) {
            first.write(values.0);
            second.write(values.1);
            count += 1;
        }
        complete(count, len);
        self.written.set(self.written.get() + count);
        other.written.set(other.written.get() + count);
    }

    /// Writes adjacent elements from pairs of values.
    ///
    /// # Panics
    /// Panics if the length is odd, or if there are fewer pairs.
    #[inline(always)]
    pub fn write_pairs(self, values: impl Iterator<Item = (T, T)>) {
        let (pairs, odd) = self.places.as_chunks_mut::<2>();
        complete(0, odd.len());
        let mut count = 0;
        for ([first, second], values) in pairs.iter_mut().zip(values) {
            first.write(values.0);
            second.write(values.1);
            count += 1;
        }
        complete(count, pairs.len());
        self.written.set(self.written.get() + 2 * count);
    }

    /// Copies the values.
    ///
    /// # Panics
    /// Panics if the number of values is not the number of elements.
    #[inline(always)]
    pub fn copy(self, values: &[T]) {
        complete(values.len(), self.places.len());
        self.places.write_copy_of_slice(values);
        self.written.set(self.written.get() + values.len());
    }

    /// Writes one value to every element.
    #[inline(always)]
    pub fn fill(self, value: T) {
        self.places.fill(MaybeUninit::new(value));
        self.written.set(self.written.get() + self.places.len());
    }
}

/// Checks that there are as many values as elements.
///
/// # Panics
/// Panics if there are more or fewer.
#[inline(always)]
fn complete(values: usize, elements: usize) {
    if values != elements {
        incomplete(values, elements);
    }
}

#[cold]
#[inline(never)]
fn incomplete(values: usize, elements: usize) -> ! {
    panic!("a kernel has {values} values for {elements} elements of its result")
}

#[cold]
#[inline(never)]
pub(super) fn too_long(len: usize, left: usize) -> ! {
    panic!("a kernel writes {len} elements of its result where {left} are left")
}
