use super::Element;
use burn::backend::flex::{FlexTensor, Layout};
use std::borrow::Cow;
use std::ops::Range;

/// The rows of a tensor's last axis, read in place. Transposed, sliced and broadcast
/// tensors need no copy if each row is contiguous.
pub(crate) struct Rows<'a, T> {
    data: &'a [T],
    width: usize,
    lead: Lead,
    start: isize,
}

/// Returns the elements of a contiguous tensor, which may be a part of its storage.
pub(crate) fn contiguous<T: Element>(tensor: &FlexTensor) -> &[T] {
    match tensor.layout().shape().num_elements() {
        // An empty tensor may start behind the end of its storage.
        0 => &[],
        count => &tensor.storage()[tensor.layout().start_offset()..][..count],
    }
}

/// The sizes and strides of the leading axes.
#[derive(Clone)]
struct Lead {
    sizes: Vec<usize>,
    strides: Vec<isize>,
}

impl<'a, T: Element> Rows<'a, T> {
    /// Returns a tensor whose rows can be read in place: the tensor itself, or a contiguous copy if the elements of
    /// a row are not contiguous.
    pub(crate) fn readable(tensor: &FlexTensor) -> Cow<'_, FlexTensor> {
        let layout = tensor.layout();
        let width = layout.shape().last().copied().unwrap_or(1);
        let together = layout.strides().last().is_none_or(|stride| *stride == 1);
        if together || width <= 1 {
            Cow::Borrowed(tensor)
        } else {
            Cow::Owned(tensor.to_contiguous())
        }
    }

    /// Returns the rows of a [`Rows::readable`] tensor.
    pub(crate) fn new(tensor: &'a FlexTensor) -> Self {
        Self::with_layout(tensor, tensor.layout())
    }

    /// Returns the rows of `tensor`'s storage under another layout, such as a broadcast one.
    pub(crate) fn with_layout(tensor: &'a FlexTensor, layout: &Layout) -> Self {
        let sizes = layout.shape().as_slice();
        let (width, sizes) = sizes
            .split_last()
            .map_or((1, sizes), |(w, lead)| (*w, lead));
        let lead = Lead {
            sizes: sizes.to_vec(),
            strides: layout.strides()[..sizes.len()].to_vec(),
        };
        if layout.num_elements() == 0 {
            // An empty tensor may start behind the end of its storage. Its rows, if any, have no elements.
            return Self {
                data: &[],
                width,
                lead: Lead {
                    strides: vec![0; lead.sizes.len()],
                    ..lead
                },
                start: 0,
            };
        }
        Self {
            data: tensor.storage(),
            width,
            lead: if layout.is_contiguous() {
                lead.flat(width)
            } else {
                lead
            },
            start: layout.start_offset() as isize,
        }
    }

    /// Returns the number of elements of a row.
    pub(crate) fn width(&self) -> usize {
        self.width
    }

    /// Returns the number of rows.
    pub(crate) fn count(&self) -> usize {
        self.lead.sizes.iter().product()
    }

    /// Returns the rows of a range, in row-major order.
    #[inline(always)]
    pub(crate) fn range(&self, range: Range<usize>) -> RowIter<'_, T> {
        let mut index = vec![0; self.lead.sizes.len()];
        let mut offset = self.start;
        let mut rest = range.start;
        for axis in (0..index.len()).rev() {
            let size = self.lead.sizes[axis].max(1);
            index[axis] = rest % size;
            rest /= size;
            offset += index[axis] as isize * self.lead.strides[axis];
        }
        let stride = self.lead.strides.last().copied().unwrap_or(0);
        let is_far = stride != 0 && stride != self.width as isize;
        let together = match (self.lead.sizes.last(), index.last()) {
            (Some(size), Some(index)) => size.max(&1) - index,
            _ => 1,
        };
        RowIter {
            rows: self,
            index,
            offset,
            stride,
            together,
            left: range.len(),
            ahead: is_far.then_some(AHEAD * stride),
        }
    }
}

impl Lead {
    /// Merges all leading axes of a contiguous tensor into one.
    fn flat(self, width: usize) -> Self {
        Self {
            sizes: vec![self.sizes.iter().product()],
            strides: vec![width as isize],
        }
    }
}

/// The number of rows between a row and the one that is prefetched. Processors do not foresee rows on pages of their own,
/// and a row is computed in less time than memory takes to answer.
const AHEAD: isize = 6;

/// Asks the processor to have a row in its cache soon.
#[inline(always)]
pub(crate) fn prefetch<T>(row: &[T]) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    for line in row.chunks((64 / size_of::<T>()).max(1)) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch reads nothing that the program can observe, and every x86-64 processor has it.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().cast()) };
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = row;
}

/// An iterator over rows. It counts indices like an odometer, without dividing.
pub(crate) struct RowIter<'a, T> {
    rows: &'a Rows<'a, T>,
    /// The index of the row whose turn it is, along all leading axes but the last.
    index: Vec<usize>,
    offset: isize,
    /// The distance of rows along the last of the leading axes.
    stride: isize,
    /// The number of rows left along that axis.
    together: usize,
    left: usize,
    /// The distance of the row to prefetch, if rows are far apart.
    ahead: Option<isize>,
}

impl<'a, T> RowIter<'a, T> {
    /// Returns the next row. Rows of several tensors are taken so and not by `zip`, whose `next` is too large to be
    /// inlined.
    ///
    /// # Panics
    /// Panics if none is left.
    #[inline(always)]
    pub(crate) fn row(&mut self) -> &'a [T] {
        self.next().expect("as many rows as of the other tensors")
    }
}

impl<'a, T> Iterator for RowIter<'a, T> {
    type Item = &'a [T];

    #[inline(always)]
    fn next(&mut self) -> Option<&'a [T]> {
        if self.left == 0 {
            return None;
        }
        self.left -= 1;
        let start = self.offset as usize;
        let row = &self.rows.data[start..start + self.rows.width];
        if let Some(ahead) = self.ahead
            && let Ok(start) = usize::try_from(self.offset + ahead)
            && let Some(row) = self.rows.data.get(start..start + self.rows.width)
        {
            prefetch(row);
        }
        self.offset += self.stride;
        self.together -= 1;
        if self.together == 0 {
            self.carry();
        }
        Some(row)
    }
}

impl<T> RowIter<'_, T> {
    /// Goes on with the next index of the other leading axes.
    #[inline(never)]
    fn carry(&mut self) {
        let Lead { sizes, strides } = &self.rows.lead;
        let Some((last, others)) = sizes.split_last() else {
            return;
        };
        self.together = *last;
        self.offset -= self.stride * *last as isize;
        for axis in (0..others.len()).rev() {
            self.index[axis] += 1;
            self.offset += strides[axis];
            if self.index[axis] < sizes[axis] {
                return;
            }
            self.offset -= strides[axis] * sizes[axis] as isize;
            self.index[axis] = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::backend::Shape;
    use burn::tensor::Bytes;

    fn counting<const D: usize>(shape: [usize; D]) -> FlexTensor {
        let shape = Shape::new(shape);
        let values: Vec<f32> = (0..shape.num_elements()).map(|i| i as f32).collect();
        FlexTensor::new(
            Bytes::from_elems(values),
            Layout::contiguous(shape),
            burn::tensor::DType::F32,
        )
    }

    fn all(tensor: &FlexTensor) -> Vec<f32> {
        let readable = Rows::<f32>::readable(tensor);
        let rows = Rows::<f32>::new(&readable);
        rows.range(0..rows.count()).flatten().copied().collect()
    }

    #[test]
    fn views_are_read_in_their_order() {
        let base = counting([2, 3, 4, 5]);
        for view in [
            base.clone(),
            base.transpose(1, 2),
            base.transpose(2, 3),
            base.narrow(1, 1, 2),
            base.narrow(3, 2, 3),
            base.permute(&[2, 0, 1, 3]).narrow(0, 1, 3),
        ] {
            let expected = view.to_contiguous();
            assert_eq!(all(&view), expected.storage::<f32>(), "{:?}", view.layout());
        }
    }

    #[test]
    fn flipped_and_broadcast_rows_are_read_in_their_order() {
        let base = counting([3, 4]);
        let flipped = base.clone().with_layout(base.layout().flip(&[0]));
        assert_eq!(all(&flipped), flipped.to_contiguous().storage::<f32>());

        let broadcast = Layout::new(Shape::new([2, 3, 4]), vec![0, 4, 1], 0);
        let rows = Rows::<f32>::with_layout(&base, &broadcast);
        let values: Vec<f32> = rows.range(0..6).flatten().copied().collect();
        assert_eq!(values, base.storage::<f32>().repeat(2));
    }

    #[test]
    fn a_range_starts_in_the_middle() {
        let view = counting([2, 3, 4, 2]).transpose(0, 2);
        let rows = Rows::<f32>::new(&view);
        let every: Vec<_> = rows.range(0..24).collect();
        for start in 0..24 {
            assert!(rows.range(start..24).eq(every[start..].iter().copied()));
        }
    }

    #[test]
    fn empty_tensors_have_no_rows() {
        assert_eq!(Rows::<f32>::new(&counting([0, 4])).count(), 0);
        let no_width = counting([3, 0]);
        let rows = Rows::<f32>::new(&no_width);
        assert_eq!(rows.range(0..rows.count()).flatten().count(), 0);
    }
}
