use super::{Element, View};
use std::ops::Range;

/// The rows of a tensor's last axis, read in place. Transposed, sliced and broadcast
/// tensors need no copy if each row is contiguous.
pub struct Rows<'a, T> {
    data: &'a [T],
    width: usize,
    lead: Lead,
    start: isize,
}

/// The sizes and strides of the leading axes.
#[derive(Clone)]
struct Lead {
    sizes: Vec<usize>,
    strides: Vec<isize>,
}

impl<'a, T: Element> Rows<'a, T> {
    /// Returns the rows of a tensor.
    ///
    /// # Panics
    /// Panics if the elements of a row are not neighbours, or if they have another type.
    pub fn of(tensor: &View<'a>) -> Self {
        let (width, sizes) = tensor
            .sizes()
            .split_last()
            .map_or((1, tensor.sizes()), |(width, lead)| (*width, lead));
        let lead = Lead {
            sizes: sizes.to_vec(),
            strides: tensor.strides()[..sizes.len()].to_vec(),
        };
        if tensor.len() == 0 {
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
        assert!(
            width == 1 || tensor.strides().last().is_none_or(|stride| *stride == 1),
            "rows of {width} elements with strides {:?} are not read in place",
            tensor.strides()
        );
        Self {
            data: tensor.data(),
            width,
            lead: match tensor.is_contiguous() {
                true => lead.flat(width),
                false => lead,
            },
            start: tensor.start() as isize,
        }
    }

    /// Returns the number of elements of a row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Returns the number of rows.
    ///
    /// # Panics
    /// Panics if it can't be counted: elements in one place make rows without memory.
    pub fn count(&self) -> usize {
        let sizes = &self.lead.sizes;
        if sizes.contains(&0) {
            return 0;
        }
        let product = sizes
            .iter()
            .try_fold(1, |all: usize, size| all.checked_mul(*size));
        product.unwrap_or_else(|| panic!("rows of sizes {sizes:?} are more than can be counted"))
    }

    /// Returns the rows of a range, in row-major order.
    #[inline(always)]
    pub fn range(&self, range: Range<usize>) -> RowIter<'_, T> {
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
pub fn prefetch<T>(row: &[T]) {
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
pub struct RowIter<'a, T> {
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
    pub fn row(&mut self) -> &'a [T] {
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

    fn counting(count: usize) -> Vec<f32> {
        (0..count).map(|i| i as f32).collect()
    }

    /// Returns the elements one by one, in row-major order.
    fn expected(tensor: &View<'_>) -> Vec<f32> {
        let mut places = vec![tensor.start() as isize];
        for (size, stride) in tensor.sizes().iter().zip(tensor.strides()) {
            let along = |place: isize| (0..*size as isize).map(move |i| place + i * stride);
            places = places.into_iter().flat_map(along).collect();
        }
        let data = tensor.data::<f32>();
        places
            .into_iter()
            .map(|place| data[place as usize])
            .collect()
    }

    fn all(tensor: &View<'_>) -> Vec<f32> {
        let rows = Rows::<f32>::of(tensor);
        rows.range(0..rows.count()).flatten().copied().collect()
    }

    #[test]
    fn rows_in_one_place_are_refused_if_they_cannot_be_counted() {
        let sizes = [1 << 32, 1 << 32, 1];
        let count = |sizes: &[usize]| {
            let rows = Rows::<f32>::of(&View::of(&[1.0], sizes, &[0, 0, 1], 0));
            rows.count()
        };
        assert!(std::panic::catch_unwind(|| count(&sizes)).is_err());
        assert_eq!(count(&[1 << 32, 0, 1]), 0);
    }

    #[test]
    fn views_are_read_in_their_order() {
        let base = counting(120);
        for (sizes, strides, start) in [
            ([2, 3, 4, 5], [60, 20, 5, 1], 0),
            // Two axes exchanged, a part of an axis, of the last one, and both together.
            ([2, 4, 3, 5], [60, 5, 20, 1], 0),
            ([2, 2, 4, 5], [60, 20, 5, 1], 20),
            ([2, 3, 4, 3], [60, 20, 5, 1], 2),
            ([4, 2, 3, 5], [5, 60, 20, 1], 0),
            ([3, 2, 3, 5], [5, 60, 20, 1], 5),
        ] {
            let view = View::of(&base, &sizes, &strides, start);
            assert_eq!(all(&view), expected(&view), "{view:?}");
        }
        let whole = View::whole(&base, &[2, 3, 4, 5]);
        assert_eq!(all(&whole), base);
    }

    #[test]
    fn flipped_and_broadcast_rows_are_read_in_their_order() {
        let base = counting(12);
        let flipped = View::of(&base, &[3, 4], &[-4, 1], 8);
        assert_eq!(all(&flipped), expected(&flipped));
        let broadcast = View::of(&base, &[2, 3, 4], &[0, 4, 1], 0);
        assert_eq!(all(&broadcast), base.repeat(2));
        assert_eq!(all(&broadcast), expected(&broadcast));
    }

    #[test]
    fn a_range_starts_in_the_middle() {
        let base = counting(48);
        let view = View::of(&base, &[4, 3, 2, 2], &[2, 8, 24, 1], 0);
        let rows = Rows::<f32>::of(&view);
        let every: Vec<_> = rows.range(0..24).collect();
        for start in 0..24 {
            assert!(rows.range(start..24).eq(every[start..].iter().copied()));
        }
    }

    #[test]
    fn empty_tensors_have_no_rows() {
        let none: [f32; 0] = [];
        assert_eq!(Rows::<f32>::of(&View::whole(&none, &[0, 4])).count(), 0);
        let rows = Rows::<f32>::of(&View::whole(&none, &[3, 0]));
        assert_eq!(rows.range(0..rows.count()).flatten().count(), 0);
    }

    #[test]
    #[should_panic(expected = "are not read in place")]
    fn rows_whose_elements_are_apart_are_refused() {
        Rows::<f32>::of(&View::of(&counting(12), &[4, 3], &[1, 4], 0));
    }
}
