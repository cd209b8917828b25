use burn::backend::{Shape, flex::FlexTensor, flex::Layout};
use burn::tensor::{Bytes, Element};
use bytemuck::Pod;
use std::mem::MaybeUninit;

/// The buffer of a result: contiguous, and not initialised before the kernel writes it, so that
/// memory is written once.
pub(crate) struct Output<T> {
    values: Vec<T>,
    shape: Shape,
}

impl<T: Element + Pod + Send + Sync> Output<T> {
    pub(crate) fn new(shape: Shape) -> Self {
        Self {
            values: Vec::with_capacity(shape.num_elements()),
            shape,
        }
    }

    /// The places to write, all of them.
    pub(crate) fn places(&mut self) -> &mut [MaybeUninit<T>] {
        let len = self.shape.num_elements();
        &mut self.values.spare_capacity_mut()[..len]
    }

    /// The tensor.
    ///
    /// # Safety
    /// Every place of [`Output::places`] has been written.
    pub(crate) unsafe fn finish(mut self) -> FlexTensor {
        // SAFETY: the capacity is at least the number of elements, and the caller wrote them all.
        unsafe { self.values.set_len(self.shape.num_elements()) };
        FlexTensor::new(
            Bytes::from_elems(self.values),
            Layout::contiguous(self.shape),
            T::dtype(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_written_output_is_the_tensor() {
        for n in [0_usize, 1, 7] {
            let mut output = Output::<f32>::new(Shape::new([n, 2]));
            for (i, place) in output.places().iter_mut().enumerate() {
                place.write(i as f32);
            }
            // SAFETY: the loop wrote every place.
            let tensor = unsafe { output.finish() };
            let expected: Vec<f32> = (0..2 * n).map(|i| i as f32).collect();
            assert_eq!(tensor.storage::<f32>(), expected);
            assert_eq!(tensor.layout().shape().num_elements(), 2 * n);
        }
    }
}
