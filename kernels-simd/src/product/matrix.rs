use crate::{Element, View};

/// A matrix of weights, `inputs × features`, in the storage of a tensor.
pub struct Matrix<'a, T> {
    /// The storage from the first element on.
    pub data: &'a [T],
    pub inputs: usize,
    pub features: usize,
    /// The distance to the next input of a feature.
    pub input_stride: usize,
    /// The distance to the next feature of an input.
    pub feature_stride: usize,
}

// Derived implementations would require the same of `T`.
impl<T> Clone for Matrix<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Matrix<'_, T> {}

impl<'a, T: Element> Matrix<'a, T> {
    /// Returns a tensor of two axes, inputs and features, whose elements products can read in place.
    ///
    /// # Panics
    /// Panics if the tensor has other axes, if one of its strides is not positive, or if it has another type.
    pub fn of(weights: &View<'a>) -> Self {
        let ([inputs, features], [input_stride, feature_stride]) =
            (weights.sizes(), weights.strides())
        else {
            panic!(
                "weights must be a matrix, found a tensor of sizes {:?}",
                weights.sizes()
            )
        };
        assert!(
            weights.len() == 0 || (*input_stride > 0 && *feature_stride > 0),
            "weights with strides {:?} are not read in place",
            weights.strides()
        );
        let data = weights.data();
        Self {
            // An empty tensor may start behind the end of its memory.
            data: &data[weights.start().min(data.len())..],
            inputs: *inputs,
            features: *features,
            input_stride: *input_stride as usize,
            feature_stride: *feature_stride as usize,
        }
    }
}

impl<T> Matrix<'_, T> {
    /// Returns `count` features from `start` on, every `step`-th.
    pub fn features(self, start: usize, step: usize, count: usize) -> Self {
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
    pub fn inputs(self, start: usize, count: usize) -> Self {
        let start = start.saturating_mul(self.input_stride);
        let start = start.min(self.data.len());
        Self {
            data: &self.data[start..],
            inputs: count,
            ..self
        }
    }

    /// Returns the matrix with inputs and features exchanged, for gradients of the inputs.
    pub fn transposed(self) -> Self {
        Self {
            data: self.data,
            inputs: self.features,
            features: self.inputs,
            input_stride: self.feature_stride,
            feature_stride: self.input_stride,
        }
    }
}
