//! Tensors that go out.

use crate::tensor::{Tensor, contiguous};
use kernels_abi::{DlManagedTensor, DlTensor};
use kernels_simd::{DType, Values};
use std::mem::ManuallyDrop;

/// A result.
#[derive(Debug)]
pub struct Made {
    values: Values,
    sizes: Vec<usize>,
}

impl Made {
    /// Makes it of the elements of a tensor of these sizes.
    ///
    /// # Panics
    /// Panics if there are more or fewer elements.
    pub(crate) fn new(values: Values, sizes: &[usize]) -> Self {
        // Sizes beside an axis without elements may have any product.
        let count = match sizes.contains(&0) {
            true => 0,
            false => sizes.iter().product(),
        };
        assert!(
            values.len() == count,
            "a result of {} elements is not one of sizes {sizes:?}",
            values.len()
        );
        Self {
            values,
            sizes: sizes.to_vec(),
        }
    }

    /// Makes it of elements along one axis.
    pub(crate) fn flat(values: Values) -> Self {
        let count = values.len();
        Self::new(values, &[count])
    }

    /// Makes it of elements, if there are any, laid out as an operand.
    ///
    /// # Panics
    /// Panics under the conditions of [`new`](Self::new).
    pub(crate) fn like(values: Option<Values>, operand: &Option<Tensor>) -> Option<Self> {
        let (values, operand) = (values?, operand.as_ref()?);
        Some(Self::new(values, operand.sizes()))
    }

    /// Returns the type of the elements.
    pub(crate) fn dtype(&self) -> DType {
        self.values.dtype()
    }

    /// Returns the sizes of the axes.
    pub(crate) fn sizes(&self) -> &[usize] {
        &self.sizes
    }

    /// Returns the memory of the elements.
    pub(crate) fn bytes(&self) -> &[u8] {
        fn of<T>(values: &[T]) -> &[u8] {
            // SAFETY: floats have no padding.
            unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), size_of_val(values)) }
        }
        match &self.values {
            Values::F64(values) => of(values),
            Values::F32(values) => of(values),
            Values::Bf16(values) => of(values),
            Values::F16(values) => of(values),
        }
    }

    /// Gives the result to a caller, who calls the deleter once.
    pub(crate) fn give(self) -> *mut DlManagedTensor {
        let (code, bits) = match self.values.dtype() {
            DType::F64 => (2, 64),
            DType::F32 => (2, 32),
            DType::F16 => (2, 16),
            DType::Bf16 => (4, 16),
        };
        let strides = contiguous(&self.sizes)
            .iter()
            .map(|stride| *stride as i64)
            .collect();
        let shape = self.sizes.iter().map(|size| *size as i64).collect();
        let mut given = Box::new(Given {
            managed: DlManagedTensor {
                tensor: DlTensor {
                    data: self.bytes().as_ptr().cast_mut().cast(),
                    device: [1, 0],
                    ndim: self.sizes.len() as i32,
                    code,
                    bits,
                    lanes: 1,
                    shape: std::ptr::null_mut(),
                    strides: std::ptr::null_mut(),
                    byte_offset: 0,
                },
                context: std::ptr::null_mut(),
                deleter: Some(delete),
            },
            shape: ManuallyDrop::new(shape),
            strides: ManuallyDrop::new(strides),
            values: ManuallyDrop::new(self.values),
        });
        given.managed.tensor.shape = given.shape.as_mut_ptr();
        given.managed.tensor.strides = given.strides.as_mut_ptr();
        Box::into_raw(given).cast()
    }
}

/// A result in the hands of a caller, who may write to it.
#[repr(C)]
struct Given {
    managed: DlManagedTensor,
    shape: ManuallyDrop<Vec<i64>>,
    strides: ManuallyDrop<Vec<i64>>,
    values: ManuallyDrop<Values>,
}

unsafe extern "C" fn delete(tensor: *mut DlManagedTensor) {
    // SAFETY: the pointer is that of `give`, and a receiver calls this once. The fields are not used again.
    unsafe {
        let mut given = Box::from_raw(tensor.cast::<Given>());
        ManuallyDrop::drop(&mut given.shape);
        ManuallyDrop::drop(&mut given.strides);
        ManuallyDrop::drop(&mut given.values);
    }
}
