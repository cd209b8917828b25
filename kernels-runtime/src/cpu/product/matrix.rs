use crate::cpu::Element;
use burn::backend::flex::FlexTensor;
use std::borrow::Cow;

/// A matrix of weights, `inputs × features`, in the storage of a tensor.
pub(crate) struct Matrix<'a, T> {
    /// The storage from the first element on.
    pub(crate) data: &'a [T],
    pub(crate) inputs: usize,
    pub(crate) features: usize,
    /// The distance to the next input of a feature.
    pub(crate) input_stride: usize,
    /// The distance to the next feature of an input.
    pub(crate) feature_stride: usize,
}

// Derived implementations would require the same of `T`.
impl<T> Clone for Matrix<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Matrix<'_, T> {}

/// Returns a tensor of two axes whose elements products can read in place: the tensor itself, or a contiguous copy if
/// neither of its axes is contiguous.
pub(crate) fn readable(weights: &FlexTensor) -> Cow<'_, FlexTensor> {
    let strides = weights.layout().strides();
    match strides.contains(&1) && strides.iter().all(|stride| *stride > 0) {
        true => Cow::Borrowed(weights),
        false => Cow::Owned(weights.to_contiguous()),
    }
}

impl<'a, T: Element> Matrix<'a, T> {
    /// Returns a [`readable`] tensor of two axes, inputs and features.
    pub(crate) fn of(weights: &'a FlexTensor) -> Self {
        let layout = weights.layout();
        let (shape, strides, data) = (layout.shape(), layout.strides(), weights.storage::<T>());
        Self {
            data: &data[layout.start_offset().min(data.len())..],
            inputs: shape[0],
            features: shape[1],
            input_stride: strides[0] as usize,
            feature_stride: strides[1] as usize,
        }
    }
}

impl<T> Matrix<'_, T> {
    /// Returns `count` features from `start` on, every `step`-th.
    pub(crate) fn features(self, start: usize, step: usize, count: usize) -> Self {
        let start = start.saturating_mul(self.feature_stride);
        let start = start.min(self.data.len());
        Self {
            data: &self.data[start..],
            features: count,
            feature_stride: self.feature_stride * step,
            ..self
        }
    }

    /// Returns `count` inputs from `start` on.
    pub(crate) fn inputs(self, start: usize, count: usize) -> Self {
        let start = start.saturating_mul(self.input_stride);
        let start = start.min(self.data.len());
        Self {
            data: &self.data[start..],
            inputs: count,
            ..self
        }
    }

    /// Returns the matrix with inputs and features exchanged, for gradients of the inputs.
    pub(crate) fn transposed(self) -> Self {
        Self {
            data: self.data,
            inputs: self.features,
            features: self.inputs,
            input_stride: self.feature_stride,
            feature_stride: self.input_stride,
        }
    }
}
