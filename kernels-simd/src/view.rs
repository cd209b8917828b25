//! Tensors that are read: elements of a slice, each at its place.

use super::Element;
use smallvec::SmallVec;
use std::ops::Range;

/// The type of the elements of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DType {
    /// f64, for checks.
    F64,
    /// f32.
    F32,
    /// bf16.
    Bf16,
    /// f16.
    F16,
}

impl DType {
    /// Returns the bytes of an element.
    pub const fn size(self) -> usize {
        match self {
            Self::F64 => 8,
            Self::F32 => 4,
            Self::Bf16 | Self::F16 => 2,
        }
    }
}

/// A tensor in a slice: element `[i, j, …]` is `start + i · strides[0] + j · strides[1] + …` elements behind the first of
/// the slice.
#[derive(Clone, Debug)]
pub struct View<'a> {
    bytes: &'a [u8],
    dtype: DType,
    sizes: Places<usize>,
    strides: Places<isize>,
    start: usize,
}

/// A number for each axis.
type Places<T> = SmallVec<[T; 6]>;

impl<'a> View<'a> {
    /// Makes the view of elements in memory.
    ///
    /// # Panics
    /// Panics if the numbers of sizes and strides differ, if an element lies outside of the memory, or if the memory is not
    /// aligned to elements.
    pub fn new(
        bytes: &'a [u8],
        dtype: DType,
        sizes: &[usize],
        strides: &[isize],
        start: usize,
    ) -> Self {
        assert!(
            sizes.len() == strides.len(),
            "a tensor of sizes {sizes:?} has the strides {strides:?}"
        );
        let elements = bytes.len() / dtype.size();
        assert!(
            bytes.is_empty() || bytes.as_ptr().addr().is_multiple_of(dtype.size()),
            "the memory of a tensor is not aligned to elements in {dtype:?}"
        );
        assert!(
            sizes.contains(&0) || reach(sizes, strides, start).is_some_and(|last| last < elements),
            "a tensor of sizes {sizes:?}, strides {strides:?} and start {start} is not within {elements} elements"
        );
        Self {
            bytes,
            dtype,
            sizes: sizes.into(),
            strides: strides.into(),
            start,
        }
    }

    /// Makes the view of a slice.
    ///
    /// # Panics
    /// Panics under the conditions of [`new`](Self::new).
    pub fn of<T: Element>(data: &'a [T], sizes: &[usize], strides: &[isize], start: usize) -> Self {
        Self::new(bytemuck::cast_slice(data), T::DTYPE, sizes, strides, start)
    }

    /// Makes the view of a whole slice, in order.
    ///
    /// # Panics
    /// Panics if the slice does not have as many elements as the sizes say.
    pub fn whole<T: Element>(data: &'a [T], sizes: &[usize]) -> Self {
        let mut strides: Places<isize> = sizes.iter().map(|_| 1).collect();
        for axis in (1..sizes.len()).rev() {
            strides[axis - 1] = strides[axis].saturating_mul(sizes[axis] as isize);
        }
        let view = Self::of(data, sizes, &strides, 0);
        let count = view.len();
        assert!(
            count == data.len(),
            "{} elements don't fill a tensor of sizes {sizes:?}",
            data.len()
        );
        view
    }

    /// Returns the type of the elements.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Returns the sizes of the axes.
    pub fn sizes(&self) -> &[usize] {
        &self.sizes
    }

    /// Returns the distances of neighbours along each axis, in elements.
    pub fn strides(&self) -> &[isize] {
        &self.strides
    }

    /// Returns the number of elements.
    #[allow(clippy::len_without_is_empty)] // Nothing asks.
    pub fn len(&self) -> usize {
        match self.sizes.contains(&0) {
            true => 0,
            // Each element lies in memory, or several do in one place: no product of sizes beyond `usize` is made of these.
            false => self
                .sizes
                .iter()
                .fold(1, |all, size| usize::saturating_mul(all, *size)),
        }
    }

    /// Returns `true` if the elements are neighbours in row-major order, as no elements are.
    pub fn is_contiguous(&self) -> bool {
        if self.sizes.contains(&0) {
            return true;
        }
        let mut next = 1;
        let axes = self.sizes.iter().zip(&self.strides).rev();
        for (size, stride) in axes {
            if *size > 1 && *stride != next {
                return false;
            }
            next = next.saturating_mul(*size as isize);
        }
        true
    }

    /// Returns elements of the same memory, from the same first one on, under other sizes and strides.
    ///
    /// # Panics
    /// Panics under the conditions of [`new`](Self::new).
    pub(crate) fn under(&self, sizes: &[usize], strides: &[isize]) -> Self {
        Self::new(self.bytes, self.dtype, sizes, strides, self.start)
    }

    /// Checks that this is a tensor like another one.
    ///
    /// # Panics
    /// Panics if its sizes or its type differ.
    pub(crate) fn must_be_like(&self, other: &View<'_>) {
        assert!(
            self.sizes == other.sizes && self.dtype == other.dtype,
            "a tensor of sizes {:?} in {:?} does not go with one of sizes {:?} in {:?}",
            self.sizes,
            self.dtype,
            other.sizes,
            other.dtype
        );
    }

    /// Returns the part of an axis.
    ///
    /// # Panics
    /// Panics if the axis does not exist or is shorter.
    pub(crate) fn narrow(&self, axis: usize, part: Range<usize>) -> Self {
        let size = self.sizes[axis];
        assert!(
            part.start <= part.end && part.end <= size,
            "an axis of {size} elements has no part {part:?}"
        );
        let mut narrowed = self.clone();
        narrowed.sizes[axis] = part.len();
        if narrowed.len() > 0 {
            // An element of the tensor, which lies in memory.
            let to_first = part.start as isize * self.strides[axis];
            narrowed.start = self.start.wrapping_add_signed(to_first);
        }
        narrowed
    }

    /// Returns the tensor at a place of the first axis.
    ///
    /// # Panics
    /// Panics if the place does not exist.
    pub(crate) fn at(&self, place: usize) -> Self {
        let mut one = self.narrow(0, place..place + 1);
        one.sizes.remove(0);
        one.strides.remove(0);
        one
    }

    /// Returns the place of the first element.
    pub(crate) fn start(&self) -> usize {
        self.start
    }

    /// Returns the slice that the elements lie in.
    ///
    /// # Panics
    /// Panics if they have another type.
    pub(crate) fn data<T: Element>(&self) -> &'a [T] {
        assert!(
            self.dtype == T::DTYPE,
            "a tensor in {:?} was taken for one in {:?}",
            self.dtype,
            T::DTYPE
        );
        match self.bytes.is_empty() {
            true => &[], // which may lie anywhere
            false => bytemuck::cast_slice(self.bytes),
        }
    }

    /// Returns the elements of a tensor whose elements are neighbours.
    ///
    /// # Panics
    /// Panics if they are not, or if they have another type.
    pub fn contiguous<T: Element>(&self) -> &'a [T] {
        assert!(
            self.is_contiguous(),
            "a tensor of sizes {:?} with strides {:?} was taken for a contiguous one",
            self.sizes,
            self.strides
        );
        match self.len() {
            // An empty tensor may start behind the end of its memory.
            0 => &[],
            count => &self.data()[self.start..][..count],
        }
    }
}

/// Returns the last place of a tensor that is not empty, or `None` if its first place is before the start of the memory.
fn reach(sizes: &[usize], strides: &[isize], start: usize) -> Option<usize> {
    let (mut first, mut last) = (isize::try_from(start).ok()?, isize::try_from(start).ok()?);
    for (size, stride) in sizes.iter().zip(strides) {
        let steps = isize::try_from(size - 1).ok()?.checked_mul(*stride)?;
        match steps < 0 {
            true => first = first.checked_add(steps)?,
            false => last = last.checked_add(steps)?,
        }
    }
    usize::try_from(first).ok()?;
    usize::try_from(last).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::catch_unwind;

    fn refused(sizes: &[usize], strides: &[isize], start: usize) -> bool {
        let data = [0.0_f32; 12];
        catch_unwind(|| View::of(&data, sizes, strides, start).len()).is_err()
    }

    #[test]
    fn every_element_lies_in_memory() {
        for (sizes, strides, start) in [
            (&[3, 4][..], &[4, 1][..], 0),
            (&[4, 3], &[1, 4], 0),
            (&[3, 4], &[-4, 1], 8),
            (&[5, 12], &[0, 1], 0),
            (&[0, 9], &[9, 1], 99),
            (&[], &[], 11),
        ] {
            assert!(!refused(sizes, strides, start), "{sizes:?}");
        }
        for (sizes, strides, start) in [
            (&[3, 4][..], &[4, 1][..], 1),
            (&[3, 4], &[-4, 1], 7),
            (&[3, 4], &[4], 0),
            (&[2, usize::MAX], &[1, 1], 0),
            (&[3], &[isize::MAX], 0),
            (&[2], &[isize::MIN], 0),
            (&[], &[], 12),
        ] {
            assert!(refused(sizes, strides, start), "{sizes:?}");
        }
    }

    #[test]
    fn memory_is_aligned_or_empty() {
        let bytes: &[u8] = bytemuck::cast_slice(&[0.0_f32; 4]);
        let unaligned = &bytes[1..5];
        let view = |bytes, sizes| View::new(bytes, DType::F32, sizes, &[1], 0);
        assert!(catch_unwind(|| view(unaligned, &[1]).len()).is_err());
        let empty = view(&bytes[1..1], &[0]);
        assert!(empty.data::<f32>().is_empty() && empty.contiguous::<f32>().is_empty());
    }

    #[test]
    fn parts_are_those_of_the_whole() {
        let data: Vec<f32> = (0..12).map(|i| i as f32).collect();
        let whole = View::whole(&data, &[3, 4]);
        let part = whole.narrow(1, 1..3);
        assert_eq!(part.sizes(), [3, 2]);
        assert_eq!(part.at(2).contiguous::<f32>(), [9.0, 10.0]);
        let flipped = View::of(&data, &[3, 4], &[-4, 1], 8);
        assert_eq!(flipped.at(2).contiguous::<f32>(), &data[..4]);
        assert_eq!(whole.narrow(0, 3..3).len(), 0);
        for wrong in [
            catch_unwind(|| _ = whole.narrow(1, 1..5)),
            catch_unwind(|| _ = whole.at(3)),
        ] {
            assert!(wrong.is_err());
        }
    }

    #[test]
    fn neighbours_are_told_from_others() {
        let data: Vec<f32> = (0..12).map(|i| i as f32).collect();
        let whole = View::whole(&data, &[3, 4]);
        assert_eq!(whole.contiguous::<f32>(), data);
        let part = View::of(&data, &[2, 4], &[4, 1], 4);
        assert_eq!(part.contiguous::<f32>(), &data[4..]);
        let turned = View::of(&data, &[4, 3], &[1, 4], 0);
        assert!(!turned.is_contiguous());
        // The stride of an axis of one element says nothing, and neither do those of no elements.
        assert!(View::of(&data, &[1, 4], &[7, 1], 0).is_contiguous());
        let none = View::of(&data, &[3, 0], &[1, 3], 99);
        assert!(none.is_contiguous() && none.contiguous::<f32>().is_empty());
        for wrong in [
            catch_unwind(|| _ = turned.contiguous::<f32>()),
            catch_unwind(|| _ = whole.contiguous::<half::f16>()),
            catch_unwind(|| _ = View::whole(&data, &[3, 3])),
        ] {
            assert!(wrong.is_err());
        }
    }
}
