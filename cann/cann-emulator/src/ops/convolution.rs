//! The pairs of places that a convolution multiplies, over up to three axes.
//!
//! A convolution slides a kernel over a large side and gives a small one. A transposed one goes the other way.

use std::ops::Range;

/// The sizes of a convolution. Missing axes have length 1.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Geometry {
    pub(crate) large: [usize; 3],
    pub(crate) small: [usize; 3],
    pub(crate) kernel: [usize; 3],
    pub(crate) stride: [usize; 3],
    /// The zeros in front of each axis.
    pub(crate) padding: [usize; 3],
    pub(crate) dilation: [usize; 3],
}

fn places(shape: [usize; 3]) -> impl Iterator<Item = [usize; 3]> {
    let along = |length| -> Range<usize> { 0..length };
    along(shape[0]).flat_map(move |a| {
        along(shape[1]).flat_map(move |b| along(shape[2]).map(move |c| [a, b, c]))
    })
}

impl Geometry {
    pub(crate) fn large_count(&self) -> usize {
        self.large.iter().product()
    }

    pub(crate) fn small_count(&self) -> usize {
        self.small.iter().product()
    }

    pub(crate) fn kernel_count(&self) -> usize {
        self.kernel.iter().product()
    }

    /// Visits the pairs of a place of the matrix `kernel × small` and a place of the large side, without those in the
    /// padding.
    fn pairs(&self, mut visit: impl FnMut(usize, usize)) {
        let mut place = 0;
        for kernel in places(self.kernel) {
            for small in places(self.small) {
                let at = |axis: usize| {
                    let from = small[axis] * self.stride[axis] + kernel[axis] * self.dilation[axis];
                    let at = from.checked_sub(self.padding[axis])?;
                    (at < self.large[axis]).then_some(at)
                };
                if let (Some(a), Some(b), Some(c)) = (at(0), at(1), at(2)) {
                    visit(place, (a * self.large[1] + b) * self.large[2] + c);
                }
                place += 1;
            }
        }
    }

    /// Returns the values under the kernel for each place of the small side: rows of channels and the kernel's places.
    pub(crate) fn columns(&self, large: &[f32], channels: usize) -> Vec<f32> {
        let size = self.kernel_count() * self.small_count();
        let mut columns = vec![0.0; channels * size];
        for channel in 0..channels {
            let values = &large[channel * self.large_count()..][..self.large_count()];
            let own = &mut columns[channel * size..][..size];
            self.pairs(|place, at| own[place] = values[at]);
        }
        columns
    }

    /// Adds what [`Geometry::columns`] has read back to where it was read.
    pub(crate) fn scattered(&self, columns: &[f32], channels: usize) -> Vec<f32> {
        let size = self.kernel_count() * self.small_count();
        let mut large = vec![0.0; channels * self.large_count()];
        for channel in 0..channels {
            let values = &columns[channel * size..][..size];
            let own = &mut large[channel * self.large_count()..][..self.large_count()];
            self.pairs(|place, at| own[at] += values[place]);
        }
        large
    }
}
