//! Results, and slices that are changed in place, of a type that is known at run time.

use super::{DType, Element};
use half::{bf16, f16};

/// The elements of a result, in row-major order.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// Elements in f64.
    F64(Vec<f64>),
    /// Elements in f32.
    F32(Vec<f32>),
    /// Elements in bf16.
    Bf16(Vec<bf16>),
    /// Elements in f16.
    F16(Vec<f16>),
}

impl Values {
    /// Returns the type of the elements.
    pub fn dtype(&self) -> DType {
        match self {
            Self::F64(_) => DType::F64,
            Self::F32(_) => DType::F32,
            Self::Bf16(_) => DType::Bf16,
            Self::F16(_) => DType::F16,
        }
    }

    /// Returns the number of elements.
    #[allow(clippy::len_without_is_empty)] // Nothing asks.
    pub fn len(&self) -> usize {
        match self {
            Self::F64(values) => values.len(),
            Self::F32(values) => values.len(),
            Self::Bf16(values) => values.len(),
            Self::F16(values) => values.len(),
        }
    }
}

/// Elements that are changed in place.
#[derive(Debug)]
pub struct SliceMut<'a> {
    bytes: &'a mut [u8],
    dtype: DType,
}

impl<'a> SliceMut<'a> {
    /// Makes it of a slice.
    pub fn of<T: Element>(data: &'a mut [T]) -> Self {
        Self {
            bytes: bytemuck::cast_slice_mut(data),
            dtype: T::DTYPE,
        }
    }

    /// Returns the type of the elements.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Returns the elements.
    ///
    /// # Panics
    /// Panics if they have another type.
    pub(crate) fn into_slice<T: Element>(self) -> &'a mut [T] {
        assert!(
            self.dtype == T::DTYPE,
            "elements in {:?} were taken for ones in {:?}",
            self.dtype,
            T::DTYPE
        );
        bytemuck::cast_slice_mut(self.bytes)
    }
}
